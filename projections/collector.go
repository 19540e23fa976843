package projections

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector tells, whenever it is asked, how far every generation of every projection is, as the database knows it: every
// process says the same of all of them.
type Collector struct {
	pool *pgxpool.Pool
	// one scrape at a time asks the database.
	mu sync.Mutex

	up, lag, seconds, offset, stopped, paused, generation *prometheus.Desc
}

// NewCollector is a collector of the projections of a database.
func NewCollector(pool *pgxpool.Pool) *Collector {
	place := []string{"projection", "generation", "partition", "live"}
	return &Collector{
		pool: pool,
		up:   prometheus.NewDesc("cairn_read_models_up", "1 where the database of the read models answered, 0 where it did not.", nil, nil),
		lag:  prometheus.NewDesc("cairn_projection_lag_commits", "Records of the log, each a command's events, that the generation has not applied. The slowest lane counts.", place, nil),
		seconds: prometheus.NewDesc("cairn_projection_lag_seconds",
			"For how long the log has had what the generation has not applied. Of one that moves it is at most a minute.", place, nil),
		offset:  prometheus.NewDesc("cairn_projection_offset", "The offset of the log up to which the generation has applied it. Its rate is that of the feeding, or of a rebuild.", place, nil),
		stopped: prometheus.NewDesc("cairn_projection_stopped", "1 where the generation has stopped at an event that it can't apply.", place, nil),
		paused:  prometheus.NewDesc("cairn_projection_paused", "1 where an operator has paused the projection.", place, nil),
		generation: prometheus.NewDesc("cairn_projection_generation_info", "Always 1: the generations that there are.",
			[]string{"projection", "generation", "revision", "state", "live"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.lag, c.seconds, c.offset, c.stopped, c.paused, c.generation} {
		out <- d
	}
}

// collectWithin is how long a scrape may wait for the database.
const collectWithin = 2 * time.Second

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), collectWithin)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	lags, err := Lags(ctx, c.pool)
	if err != nil {
		gauge(c.up, 0)
		return
	}
	generations, err := Generations(ctx, c.pool)
	if err != nil {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	for _, l := range lags {
		labels := []string{l.Projection, strconv.Itoa(l.Generation), strconv.Itoa(int(l.Partition)), strconv.FormatBool(l.Live)}
		gauge(c.lag, float64(l.Offsets), labels...)
		gauge(c.seconds, l.Seconds, labels...)
		gauge(c.offset, float64(l.Next), labels...)
		gauge(c.stopped, one(l.Stopped), labels...)
		gauge(c.paused, one(l.Paused), labels...)
	}
	for _, g := range generations {
		gauge(c.generation, 1, g.Projection, strconv.Itoa(g.Number), strconv.Itoa(g.Revision), string(g.State), strconv.FormatBool(g.Live))
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
