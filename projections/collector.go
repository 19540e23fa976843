package projections

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
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
		paused:  prometheus.NewDesc("cairn_projection_paused", "1 where an operator has paused the projection.", []string{"projection"}, nil),
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
	places, generations, err := c.read(ctx)
	if err != nil {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	for _, p := range places {
		labels := []string{p.Projection, strconv.Itoa(p.Generation), strconv.Itoa(int(p.Partition)), strconv.FormatBool(p.Live)}
		gauge(c.lag, float64(max(0, p.End-p.Next)), labels...)
		gauge(c.seconds, p.Seconds, labels...)
		gauge(c.offset, float64(p.Next), labels...)
		gauge(c.stopped, one(p.Stopped), labels...)
	}
	for _, g := range generations {
		if g.Live {
			gauge(c.paused, one(g.Paused), g.Projection)
		}
		gauge(c.generation, 1, g.Projection, strconv.Itoa(g.Generation), strconv.Itoa(g.Revision), g.State, strconv.FormatBool(g.Live))
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// told is how far a generation is in a partition.
type told struct {
	Projection string
	Generation int
	Partition  int32
	Live       bool
	Next, End  int64
	Seconds    float64
	Stopped    bool
}

// filling is a generation as the registry has it.
type filling struct {
	Projection           string
	Generation, Revision int
	State                string
	Live, Paused         bool
}

func (c *Collector) read(ctx context.Context) ([]told, []filling, error) {
	// Where the log's ends are no longer kept that far back, what says most is when the checkpoint moved last.
	rows, err := c.pool.Query(ctx, `WITH ends AS (
			SELECT DISTINCT ON (partition) partition, end_offset FROM log_ends ORDER BY partition, sampled_at DESC
		), places AS (
			SELECT projection, generation, partition, min(next_offset) AS next_offset, min(updated_at) AS updated_at, bool_or(stopped_at IS NOT NULL) AS stopped
			  FROM projection_checkpoints GROUP BY projection, generation, partition
		)
		SELECT k.projection, k.generation, k.partition, p.generation = k.generation, k.next_offset, coalesce(e.end_offset, k.next_offset),
			CASE WHEN e.end_offset > k.next_offset THEN extract(epoch FROM greatest(
				cairn_now() - (SELECT min(l.sampled_at) FROM log_ends l WHERE l.partition = k.partition AND l.end_offset > k.next_offset),
				CASE WHEN k.updated_at < (SELECT min(l.sampled_at) FROM log_ends l WHERE l.partition = k.partition) THEN cairn_now() - k.updated_at END
			))::float8 ELSE 0 END, k.stopped
		  FROM places k JOIN projections p ON p.name = k.projection LEFT JOIN ends e ON e.partition = k.partition`)
	if err != nil {
		return nil, nil, err
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[told])
	if err != nil {
		return nil, nil, err
	}
	rows, err = c.pool.Query(ctx, `SELECT g.projection, g.generation, g.revision, g.state, p.generation = g.generation, p.paused_at IS NOT NULL
		  FROM projection_generations g JOIN projections p ON p.name = g.projection`)
	if err != nil {
		return nil, nil, err
	}
	generations, err := pgx.CollectRows(rows, pgx.RowToStructByPos[filling])
	return places, generations, err
}
