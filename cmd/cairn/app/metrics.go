package app

import (
	"context"
	release "runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams/kafka"
)

// newRegistry is where everything in the process that is measured is found: one for each process. No label has a value
// that people or their content could bring.
func newRegistry(c Config, version string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "cairn_build_info", Help: "Always 1: the release that runs, and the roles that it plays.",
	}, []string{"version", "roles", "go"}).WithLabelValues(version, strings.Join(c.Roles, ","), release.Version()).Set(1)
	return registry
}

// measureInfra has the brokers' clients counted, and the databases' connections, once they are there.
func (a *App) measureInfra() {
	a.infra.kafka.Metrics = a.registry
	a.infra.kafka.Options = append(a.infra.kafka.Options, kgo.WithHooks(kafka.NewClients(a.registry)))
	a.registry.MustRegister(&pools{of: map[string]*pgxpool.Pool{"read": a.infra.read, "vault": a.infra.vault}})
}

// measureFollowers has everybody's distance to the end of the log told, as the database knows it.
func (a *App) measureFollowers() {
	a.registry.MustRegister(projections.NewCollector(a.infra.read), newOpenWork(a.infra.read, a.infra.kafka.Topics.CurrentEra()))
	if a.publisher != nil {
		a.registry.MustRegister(&feeds{publisher: a.publisher, end: a.tailer.End})
	}
}

// collectWithin is how long a scrape may wait for the database or the brokers.
const collectWithin = 2 * time.Second

// pools tells of the connections to the databases.
type pools struct{ of map[string]*pgxpool.Pool }

// Describe is none: what is there is told by Collect.
func (p *pools) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p *pools) Collect(out chan<- prometheus.Metric) {
	gauge := prometheus.NewDesc("cairn_postgres_connections", "Connections of this process to a database, by what they do.", []string{"database", "state"}, nil)
	most := prometheus.NewDesc("cairn_postgres_connections_max", "The most connections that this process opens to a database.", []string{"database"}, nil)
	acquires := prometheus.NewDesc("cairn_postgres_acquires_total", "How often a connection was taken from the pool.", []string{"database"}, nil)
	waits := prometheus.NewDesc("cairn_postgres_acquire_waits_total", "How often it had to be waited for.", []string{"database"}, nil)
	waited := prometheus.NewDesc("cairn_postgres_acquire_wait_seconds_total", "How long it was waited for in all.", []string{"database"}, nil)
	for name, pool := range p.of {
		s := pool.Stat()
		for state, n := range map[string]int32{"used": s.AcquiredConns(), "idle": s.IdleConns(), "opening": s.ConstructingConns()} {
			out <- prometheus.MustNewConstMetric(gauge, prometheus.GaugeValue, float64(n), name, state)
		}
		out <- prometheus.MustNewConstMetric(most, prometheus.GaugeValue, float64(s.MaxConns()), name)
		out <- prometheus.MustNewConstMetric(acquires, prometheus.CounterValue, float64(s.AcquireCount()), name)
		out <- prometheus.MustNewConstMetric(waits, prometheus.CounterValue, float64(s.EmptyAcquireCount()), name)
		out <- prometheus.MustNewConstMetric(waited, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds(), name)
	}
}

// feeds tells how far the publisher is behind the log.
type feeds struct {
	publisher *kafka.Publisher
	end       func(ctx context.Context, partition int32) (int64, error)
}

// Describe is none: what is there is told by Collect.
func (f *feeds) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f *feeds) Collect(out chan<- prometheus.Metric) {
	lag := prometheus.NewDesc("cairn_publisher_lag_commits", "Records of the log that are not in the feeds yet.", []string{"partition"}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), collectWithin)
	defer cancel()
	for _, s := range f.publisher.Stats() {
		end, err := f.end(ctx, s.Partition)
		if err != nil {
			return // that the brokers are away is told by their clients
		}
		out <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, float64(max(0, end-s.Next)), kafka.PartitionLabel(s.Partition))
	}
}
