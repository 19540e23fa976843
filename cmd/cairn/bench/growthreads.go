package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/postgres"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams"
)

// The sizes of the two databases whose reads are compared, in events: the larger is the options'.
const fewEvents = 10_000

// Who reads: one user, who has a tenth of all events, in one thread.
const (
	reader       = domain.Scope("user-reader")
	readerThread = domain.Stream("thread-reader")
)

// crowded is a database of read models with many events.
type crowded struct {
	pool   *pgxpool.Pool
	events *events.Model
	runs   *runs.Model
	head   uint64 // of the reader
}

// reads measures what people read, in a database with few events and in one with many, in turns: the tail of a thread, the
// runs of an agent, a catch-up. The rows are made by SQL, since what is measured is reading.
func (g *growth) reads(ctx context.Context) (err error) {
	dir := filepath.Join(g.Dir, "reads")
	cluster, err := postgres.Start(ctx, postgres.Config{Dir: dir, Databases: []string{"few", "many"}, Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	few, err := g.crowd(ctx, cluster.DSN("few"), fewEvents)
	if err != nil {
		return err
	}
	defer few.pool.Close()
	many, err := g.crowd(ctx, cluster.DSN("many"), max(g.Reads, fewEvents))
	if err != nil {
		return err
	}
	defer many.pool.Close()
	for _, one := range []struct {
		name string
		do   func(context.Context, *crowded) error
	}{
		{"tail of a thread, 200 events", func(ctx context.Context, c *crowded) error {
			return wants(200)(c.events.Tail(ctx, streams.StreamKey{Scope: reader, Stream: readerThread}, 200))
		}},
		{"runs of an agent, 50", func(ctx context.Context, c *crowded) error {
			found, _, err := c.runs.ByAgent(ctx, reader, "task_agent", "", 50)
			return wants(50)(found, err)
		}},
		{"catch-up of a scope, 500 events", func(ctx context.Context, c *crowded) error {
			rows, _, err := c.events.CatchUp(ctx, reader, "", c.head-500)
			return wants(500)(rows, err)
		}},
	} {
		if err := g.compareReads(ctx, one.name, one.do, few, many); err != nil {
			return err
		}
	}
	return nil
}

func wants(n int) func(found any, err error) error {
	return func(found any, err error) error {
		got := -1
		switch found := found.(type) {
		case []streams.Recorded:
			got = len(found)
		case []runs.Run:
			got = len(found)
		}
		if err == nil && got != n {
			err = fmt.Errorf("bench: %d rows were read, wanted %d", got, n)
		}
		return err
	}
}

// readsAtOnce is how often something is read in a turn.
const readsAtOnce = 100

func (g *growth) compareReads(ctx context.Context, name string, do func(context.Context, *crowded) error, few, many *crowded) error {
	var values, limits []float64
	for range g.Rounds {
		for _, side := range []struct {
			in   *crowded
			into *[]float64
		}{{few, &limits}, {many, &values}} {
			all := make([]time.Duration, readsAtOnce)
			for i := range all {
				began := time.Now()
				if err := do(ctx, side.in); err != nil {
					return err
				}
				all[i] = time.Since(began)
			}
			slices.Sort(all)
			*side.into = append(*side.into, quantile(all, 0.5))
		}
	}
	f := NewFigure(fmt.Sprintf("%s, of %d events, p50", name, max(g.Reads, fewEvents)), "ms", values, limits, fmt.Sprintf("of %d", fewEvents)).Aim(AtMost, 1.5)
	g.say("%s: %.2f ms of many events, %.2f ms of few", name, f.Value, f.Limit)
	g.add(f)
	return nil
}

// crowd makes a database with n events of many users, in the order of a log, and their runs, ten events each.
func (g *growth) crowd(ctx context.Context, dsn string, n int) (*crowded, error) {
	if err := migrations.Up(ctx, dsn, migrations.Read); err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	db := projections.NewDB(pool)
	c := &crowded{pool: pool, events: events.New(db), runs: runs.New(db), head: uint64(n / 10)}
	if err := g.fillCrowd(ctx, c, n); err != nil {
		pool.Close()
		return nil, fmt.Errorf("bench: fill a database with %d events: %w", n, err)
	}
	return c, nil
}

// rowsAtOnce is how many events are made in one statement.
const rowsAtOnce = 250_000

func (g *growth) fillCrowd(ctx context.Context, c *crowded, n int) error {
	models := []projections.Projector{c.events.Projector(), c.runs.Projector()}
	if err := projections.Ensure(ctx, c.pool, models, 1); err != nil {
		return err
	}
	var made []projections.Generation
	for _, m := range models { // as a rebuild does it: rows first, then key and indexes
		generation, err := projections.CreateGeneration(ctx, c.pool, m)
		if err != nil {
			return err
		}
		made = append(made, generation)
	}
	began := time.Now()
	for from := 1; from <= n; from += rowsAtOnce {
		for i, sql := range []string{
			`INSERT INTO {events} (scope, position, stream, version, id, type, schema, at, actor, data, sealed, key, hash, command_id, correlation_id, causation_id, era, partition, log_offset, log_index, run)
			SELECT s.scope, s.place, s.stream, s.place, gen_random_uuid()::text, 'thread.turn_completed', 1, '2026-11-30T12:00:00.000000Z', '{"kind":"system"}', '{"run_id":"x"}',
				decode(repeat(md5(n::text), 6), 'hex'), 1, decode(md5(n::text), 'hex'), gen_random_uuid()::text, 'c', '', 1, 0, n, 0, 'run-' || n / 10
			FROM generate_series($1::bigint, $2::bigint) AS n, LATERAL (SELECT
				CASE WHEN n % 10 = 0 THEN 'user-reader' ELSE 'user-' || n * 7919 % 1009 END AS scope,
				CASE WHEN n % 10 = 0 THEN 'thread-reader' ELSE 'thread-' || n / 1000 END AS stream,
				CASE WHEN n % 10 = 0 THEN n / 10 ELSE n END AS place) s`,
			`INSERT INTO {runs} (scope, run, thread, version, status, agent, created_at, record)
			SELECT CASE WHEN n % 100 = 0 THEN 'user-reader' ELSE 'user-' || n * 7919 % 1009 END, 'run-' || n, 'reader', n, 'completed',
				s.agent, 'epoch'::timestamptz + n * interval '1 second', convert_to(json_build_object('id', 'run-' || n, 'agent', s.agent,
					'posted_at', 'epoch'::timestamptz + n * interval '1 second', 'turns', json_build_array(json_build_object('turn', 1, 'agent', s.agent)))::text, 'UTF8')
			FROM generate_series($1::bigint, $2::bigint) AS n, LATERAL (SELECT CASE WHEN n % 200 = 0 THEN 'task_agent' ELSE 'note_agent' END AS agent) s WHERE n % 10 = 0`,
		} {
			if _, err := c.pool.Exec(ctx, made[i].Expand(sql), from, min(from+rowsAtOnce-1, n)); err != nil {
				return err
			}
		}
		if time.Since(began) > 5*time.Second {
			began = time.Now()
			g.say("%d of %d events", min(from+rowsAtOnce-1, n), n)
		}
	}
	for _, generation := range made {
		if err := projections.BuildIndexes(ctx, c.pool, generation); err != nil {
			return err
		}
	}
	var rest []string
	for _, generation := range made {
		rest = append(rest, fmt.Sprintf(`UPDATE projections SET generation = %d WHERE name = '%s'`, generation.Number, generation.Projection))
	}
	rest = append(rest, `INSERT INTO projection_checkpoints (projection, generation, partition, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
		SELECT name, generation, 0, 0, 1, 1, 1, '', false, 1, 0, now() FROM projections ON CONFLICT DO NOTHING`, `VACUUM ANALYZE`)
	for _, sql := range rest {
		if _, err := c.pool.Exec(ctx, strings.TrimSpace(sql)); err != nil {
			return err
		}
	}
	return nil
}
