package app

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// openWork tells, whenever it is asked, what is asked for and has no outcome yet, and where the policies are. It looks at the
// database, which every process sees alike. Where that does not answer it tells nothing: cairn_read_models_up says so.
type openWork struct {
	pool *pgxpool.Pool
	era  int

	open, oldest, paused, policies *prometheus.Desc
}

func newOpenWork(pool *pgxpool.Pool, era int) *openWork {
	effect := []string{"kind", "state"}
	return &openWork{
		pool: pool, era: era,
		open:     prometheus.NewDesc("cairn_open_effects", "Effects without outcome, by kind, and by whether somebody who lives does them.", effect, nil),
		oldest:   prometheus.NewDesc("cairn_open_effects_oldest_seconds", "How long ago the oldest of them was asked for; 0 where there is none.", effect, nil),
		paused:   prometheus.NewDesc("cairn_effects_paused", "1 where an operator has paused effects and timers.", nil, nil),
		policies: prometheus.NewDesc("cairn_policy_lag_commits", "Records of the log that a policy has not looked at.", []string{"policy", "partition"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *openWork) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.open, c.oldest, c.paused, c.policies} {
		out <- d
	}
}

// openEffects are those of a kind and a state.
type openEffects struct {
	Kind   string
	Held   bool
	N      int64
	Oldest float64
}

// policyPlace is how far behind a policy is.
type policyPlace struct {
	Policy    string
	Partition int
	Behind    int64
}

// Collect implements prometheus.Collector.
func (c *openWork) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectWithin)
	defer cancel()
	effects, paused, places, err := c.read(ctx)
	if err != nil {
		return
	}
	type group struct{ kind, state string }
	found := map[group]openEffects{}
	for _, kind := range []string{"route", "turn", "server", "device"} { // told also where none is open
		found[group{kind, "waiting"}], found[group{kind, "claimed"}] = openEffects{}, openEffects{}
	}
	for _, e := range effects {
		state := "waiting"
		if e.Held {
			state = "claimed"
		}
		found[group{e.Kind, state}] = e
	}
	for g, e := range found {
		out <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(e.N), g.kind, g.state)
		out <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, e.Oldest, g.kind, g.state)
	}
	value := 0.0
	if paused {
		value = 1
	}
	out <- prometheus.MustNewConstMetric(c.paused, prometheus.GaugeValue, value)
	for _, p := range places {
		out <- prometheus.MustNewConstMetric(c.policies, prometheus.GaugeValue, float64(p.Behind), p.Policy, strconv.Itoa(p.Partition))
	}
}

func (c *openWork) read(ctx context.Context) (effects []openEffects, paused bool, places []policyPlace, err error) {
	// Of each kind the oldest is looked up in events, which knows when it was asked for: the log's order is time's in a partition.
	rows, err := c.pool.Query(ctx, `WITH o AS (
			SELECT e.kind, c.worker IS NOT NULL AND cairn_alive(c.worker) AS held, e.partition, e.log_offset, e.scope, e.position
			  FROM open_effects e LEFT JOIN effect_claims c ON c.scope = e.scope AND c.id = e.id
		), oldest AS (
			SELECT DISTINCT ON (kind, held, partition) kind, held, scope, position FROM o ORDER BY kind, held, partition, log_offset
		), ages AS (
			SELECT l.kind, l.held, max(extract(epoch FROM cairn_now() - v.at::timestamptz)) AS age
			  FROM oldest l JOIN events v ON v.scope = l.scope AND v.position = l.position GROUP BY 1, 2
		)
		SELECT o.kind, o.held, count(*), coalesce(greatest(min(a.age), 0), 0)::float8
		  FROM o LEFT JOIN ages a ON a.kind = o.kind AND a.held = o.held GROUP BY 1, 2`)
	if err == nil {
		effects, err = pgx.CollectRows(rows, pgx.RowToStructByPos[openEffects])
	}
	if err != nil {
		return nil, false, nil, err
	}
	if err := c.pool.QueryRow(ctx, `SELECT coalesce(bool_or(paused), false) FROM effects_switch`).Scan(&paused); err != nil {
		return nil, false, nil, err
	}
	rows, err = c.pool.Query(ctx, `SELECT p.policy, p.partition, greatest(0, coalesce(
			(SELECT e.end_offset FROM log_ends e WHERE e.partition = p.partition ORDER BY e.sampled_at DESC LIMIT 1), p.next_offset) - p.next_offset)
		  FROM policy_places p WHERE p.log_era = $1`, c.era)
	if err == nil {
		places, err = pgx.CollectRows(rows, pgx.RowToStructByPos[policyPlace])
	}
	return effects, paused, places, err
}
