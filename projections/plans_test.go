package projections_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/erasures"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
)

// A busy scope among others: what it has is little beside the whole, and much beside a page.
const (
	busy       = domain.Scope("user-busy")
	busyThread = domain.Stream("thread-busy")
)

// TestEveryHotReadGoesByAnIndex: with real statistics, and with the plan for any arguments as well as with the one for
// these, no read of a model scans a table, and none looks at many more rows than it answers. The plans are those of the
// statements that the models send.
func TestEveryHotReadGoesByAnIndex(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	plain, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	large := crowd(t, plain)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		t.Run(mode, func(t *testing.T) {
			pool, seen := explaining(t, dsn, mode)
			for _, read := range reads(t, pool) {
				// A model is caught up with where the log ended within the last seconds, however long filling took.
				if _, err := plain.Exec(t.Context(), `INSERT INTO log_ends VALUES (0, now(), 0) ON CONFLICT DO NOTHING`); err != nil {
					t.Fatal(err)
				}
				seen.take()
				if err := read.do(t.Context()); err != nil {
					t.Errorf("%s: %v", read.name, err)
					continue
				}
				plans := seen.take()
				if len(plans) == 0 {
					t.Errorf("%s: no plan was seen", read.name)
				}
				for _, p := range plans {
					p.judge(t, read, large)
				}
			}
		})
	}
}

// read is a call of a model's method.
type read struct {
	name string
	// rows is how many rows of the tables it may look at.
	rows int
	do   func(ctx context.Context) error
}

// whole are the reads that take a table whole, on purpose: it is small, and they are rare.
var whole = []string{"erasures.List", "erasures.Scopes", "openeffects.Sweep"}

func reads(t *testing.T, pool *pgxpool.Pool) []read {
	t.Helper()
	db := projections.NewDB(pool)
	e, th, ru, de := events.New(db), threads.New(db), runs.New(db), devices.New(db)
	rq := requests.New(db)
	op, ti, wo, ws := openeffects.New(db), timers.New(db), work.New(pool), writerstates.New(pool)
	key := streams.StreamKey{Scope: busy, Stream: busyThread}
	var list []read
	add := func(name string, rows int, do func(ctx context.Context) error) {
		list = append(list, read{name, rows, do})
	}
	add("events.Tail", 200, func(ctx context.Context) error { return full(200)(e.Tail(ctx, key, 200)) })
	add("events.Before", 200, func(ctx context.Context) error { return full(200)(e.Before(ctx, key, 3000, 200)) })
	add("events.After", 200, func(ctx context.Context) error { return full(200)(e.After(ctx, key, 1000, 200)) })
	add("events.ByScope", 200, func(ctx context.Context) error { return full(200)(e.ByScope(ctx, busy, 1000, 200)) })
	add("events.Run", 10, func(ctx context.Context) error { return full(10)(e.Run(ctx, busy, "run-7")) })
	add("events.Around", 4, func(ctx context.Context) error {
		_, err := e.Around(1)(ctx, 0, 0, busy, 2000)
		return err
	})
	add("events.Window", 4, func(ctx context.Context) error { _, err := e.Window(ctx, key); return err })
	add("events.Head", 2, func(ctx context.Context) error { _, err := e.Head(ctx, busy); return err })
	add("events.CatchUp", 120, func(ctx context.Context) error {
		rows, _, err := e.CatchUp(ctx, busy, "", 3900)
		return full(100)(rows, err)
	})
	add("events.CatchUp of a stream", 120, func(ctx context.Context) error {
		rows, _, err := e.CatchUp(ctx, busy, busyThread, 3900)
		return full(100)(rows, err)
	})
	add("events.Stream", 1100, func(ctx context.Context) error {
		_, err := e.Stream(ctx, key, 3000, func(streams.Recorded) error { return nil })
		return err
	})
	add("events.Since", 202, func(ctx context.Context) error {
		rows, _, err := e.Since(ctx, busy, 1000, 200, 3500)
		return full(200)(rows, err)
	})
	add("events.Reached", 10, func(ctx context.Context) error { _, err := e.Reached(ctx, busy, 1, 3995); return err })
	add("events.Page", 125, func(ctx context.Context) error {
		p, err := e.Page(ctx, streams.StreamKey{Scope: busy}, 3900, 100)
		return full(100)(p.Rows, err)
	})
	add("events.Page of a stream", 125, func(ctx context.Context) error {
		p, err := e.Page(ctx, key, 3900, 100)
		return full(100)(p.Rows, err)
	})
	add("events.Floor", 1, func(ctx context.Context) error { _, err := e.Floor(ctx, key); return err })
	add("events.Past", 1000, func(ctx context.Context) error { _, _, err := e.Past(ctx, key, 2000, nil); return err })
	add("threads.Get", 1, func(ctx context.Context) error { _, err := th.Get(ctx, busy, "t-1"); return err })
	add("threads.List", 60, func(ctx context.Context) error {
		rows, next, err := th.List(ctx, busy, "", 20)
		if err == nil {
			rows, _, err = th.List(ctx, busy, next, 20)
		}
		return full(20)(rows, err)
	})
	add("runs.Get", 1, func(ctx context.Context) error { _, err := ru.Get(ctx, busy, "run-7"); return err })
	add("runs.ByThread", 25, func(ctx context.Context) error { return full(20)(ru.ByThread(ctx, busy, "busy", 0, 20)) })
	add("runs.Waiting", 50, func(ctx context.Context) error { _, err := ru.Waiting(ctx, busy, "laptop"); return err })
	add("runs.ByAgent", 60, func(ctx context.Context) error {
		rows, next, err := ru.ByAgent(ctx, busy, "task_agent", "", 20)
		if err == nil {
			rows, _, err = ru.ByAgent(ctx, busy, "task_agent", next, 20)
		}
		return full(20)(rows, err)
	})
	add("devices.List", 10, func(ctx context.Context) error { _, err := de.List(ctx, busy); return err })
	add("devices.Get", 1, func(ctx context.Context) error { _, err := de.Get(ctx, busy, "d-1"); return err })
	add("requests.Get", 1, func(ctx context.Context) error { _, err := rq.Get(ctx, busy, "q-1"); return err })
	add("requests.ByDevice", 45, func(ctx context.Context) error {
		rows, err := rq.ByDevice(ctx, busy, "laptop", requests.Data, 0, 20)
		if err == nil {
			rows, err = rq.ByDevice(ctx, busy, "laptop", requests.Data, rows[19].Position, 20)
		}
		return full(20)(rows, err)
	})
	add("openeffects.Take", 400, func(ctx context.Context) error {
		rows, err := op.Take(ctx, "worker-me", []string{"model"}, nil, 20)
		return full(20)(rows, err)
	})
	add("openeffects.Take of devices", 400, func(ctx context.Context) error {
		_, err := op.Take(ctx, "worker-me", []string{"device"}, []string{string(busy) + "/laptop"}, 20)
		return err
	})
	add("openeffects.Release", 1, func(ctx context.Context) error { return op.Release(ctx, "worker-me", busy, "nothing") })
	add("openeffects.Abandoned", 400, func(ctx context.Context) error { _, err := op.Abandoned(ctx, 20); return err })
	add("openeffects.List", 450, func(ctx context.Context) error { _, err := op.List(ctx, busy, 200); return err })
	add("openeffects.List of all", 300, func(ctx context.Context) error { _, err := op.List(ctx, "", 100); return err })
	add("timers.Due", 200, func(ctx context.Context) error { return full(20)(ti.Due(ctx, 20)) })
	add("timers.NextDue", 100, func(ctx context.Context) error { _, _, err := ti.NextDue(ctx); return err })
	add("timers.Fired", 10, func(ctx context.Context) error {
		return ti.Fired(ctx, timers.Timer{Scope: busy, Stream: busyThread, ID: "x", Due: time.Now()})
	})
	add("work.Presence", 10, func(ctx context.Context) error { _, err := wo.Presence(ctx, busy); return err })
	add("work.LastSeen", 10, func(ctx context.Context) error { _, _, err := wo.LastSeen(ctx, busy); return err })
	add("writerstates.Load", 12, func(ctx context.Context) error {
		_, err := ws.Load(ctx, 0, streams.Lookup{
			Streams: []streams.StreamKey{key, {Scope: busy, Stream: "thread-1"}}, Scopes: []domain.Scope{busy},
			Commands: []streams.CommandKey{{Scope: busy, ID: streams.CommandID(busy, "1")}},
		})
		return err
	})
	complete(t, list, map[string]any{"events": e, "threads": th, "runs": ru, "devices": de, "requests": rq, "openeffects": op, "timers": ti, "erasures": erasures.New(db)})
	return list
}

// complete fails for a method of a model that is not read here.
func complete(t *testing.T, list []read, models map[string]any) {
	t.Helper()
	for model, value := range models {
		methods := reflect.TypeOf(value)
		for i := range methods.NumMethod() {
			name := model + "." + methods.Method(i).Name
			if strings.HasSuffix(name, ".Projector") || strings.HasSuffix(name, ".Previous") || slices.Contains(whole, name) {
				continue
			}
			if !slices.ContainsFunc(list, func(r read) bool { return r.name == name }) {
				t.Errorf("%s is not looked at: a read goes by an index, or stands in whole with the reason", name)
			}
		}
	}
}

// full wants as many rows as were asked for, so that what is judged is the plan of a read that finds something.
func full(n int) func(rows any, err error) error {
	return func(rows any, err error) error {
		if got := reflect.ValueOf(rows).Len(); err == nil && got != n {
			err = fmt.Errorf("%d rows, wanted %d", got, n)
		}
		return err
	}
}

// plan is a node of a plan, as Postgres tells it, with what it did.
type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Rechecks float64 `json:"Rows Removed by Index Recheck"`
	Plans    []plan  `json:"Plans"`
}

type explained struct {
	Text string `json:"Query Text"`
	Plan plan   `json:"Plan"`
}

// judge refuses a scan of a large table, and looking at more rows than the read may.
func (e explained) judge(t *testing.T, r read, large []string) {
	t.Helper()
	looked := 0.0
	var walk func(p plan)
	walk = func(p plan) {
		if slices.Contains(large, p.Relation) && p.Node != "ModifyTable" {
			if p.Node == "Seq Scan" {
				t.Errorf("%s scans %s whole: %s", r.name, p.Relation, e.Text)
			}
			if p.Node != "Bitmap Heap Scan" {
				looked += (p.Rows + p.Removed + p.Rechecks) * p.Loops
			}
		}
		if p.Node == "Bitmap Index Scan" {
			looked += p.Rows * p.Loops
		}
		for _, below := range p.Plans {
			walk(below)
		}
	}
	walk(e.Plan)
	if int(looked) > r.rows {
		t.Errorf("%s looks at %.0f rows, and may look at %d: %s", r.name, looked, r.rows, e.Text)
	}
}

// told are the plans that the server told.
type told struct {
	mu    sync.Mutex
	plans []explained
}

func (s *told) take() []explained {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.plans
	s.plans = nil
	return all
}

// explaining is a pool whose sessions tell the plan of every statement, those within functions too.
func explaining(t *testing.T, dsn, mode string) (*pgxpool.Pool, *told) {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	s := &told{}
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		_, text, ok := strings.Cut(n.Message, "plan:\n")
		if !ok {
			return
		}
		var e explained
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Errorf("a plan that can't be read: %v: %s", err, text)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.plans = append(s.plans, e)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;
			SET auto_explain.log_format = 'json'; SET auto_explain.log_level = 'notice'; SET auto_explain.log_nested_statements = on;
			SET jit = off; SET plan_cache_mode = `+mode)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, s
}

// crowd fills every table with many scopes' rows, all within reach of the busy one's, and answers the large tables.
func crowd(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	ctx := t.Context()
	if err := projections.Ensure(ctx, pool, models(pool), 1); err != nil {
		t.Fatal(err)
	}
	all, err := projections.Generations(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	expand := func(sql string) string {
		for _, g := range all {
			for _, table := range g.Tables {
				sql = strings.ReplaceAll(sql, "{"+table+"}", g.Table(table))
			}
		}
		return sql
	}
	// s is a scope, n a number within it: 25 scopes of 1,000 events each, and the busy one with 4,000 in one thread.
	const many = `(SELECT 'user-' || lpad(s::text, 3, '0') AS s, n FROM generate_series(1, 25) AS s, generate_series(1, 1000) AS n
		UNION ALL SELECT 'user-busy', n FROM generate_series(1, 4000) AS n) AS k`
	for _, sql := range []string{
		`INSERT INTO {events} (scope, position, stream, version, id, type, schema, at, actor, data, key, hash, command_id, correlation_id, causation_id, era, partition, log_offset, log_index, run)
			SELECT s, n, CASE s WHEN 'user-busy' THEN 'thread-busy' ELSE 'thread-' || n / 100 END, CASE s WHEN 'user-busy' THEN n ELSE n % 100 END,
				gen_random_uuid()::text, 'thread.turn_completed', 1, '', '{}', repeat('x', 300)::bytea, 0, '\x00', 'c', 'c', '', 1, 0, n, 0, 'run-' || n / 10 FROM ` + many,
		`INSERT INTO {threads} SELECT s, 't-' || n, now(), now() + n * interval '1 second', 1, NULL, n, 0, 0 FROM ` + many,
		`INSERT INTO {runs} (scope, run, thread, version, status, agent, created_at, record)
			SELECT s, 'run-' || n, CASE s WHEN 'user-busy' THEN 'busy' ELSE 't-' || n / 10 END, n, CASE n % 500 WHEN 0 THEN 'waiting' ELSE 'completed' END,
				CASE n % 2 WHEN 0 THEN 'task_agent' ELSE 'note_agent' END, now() + n * interval '1 second',
				convert_to(json_build_object('id', 'run-' || n, 'agent', CASE n % 2 WHEN 0 THEN 'task_agent' ELSE 'note_agent' END, 'posted_at', now() + n * interval '1 second')::text, 'UTF8') FROM ` + many,
		`INSERT INTO {devices} SELECT s, 'd-' || n, 3, 'UTC', true, true, now(), now(), 1, 1 FROM (SELECT s || '-' || n AS s, 1 AS n FROM ` + many + ` UNION ALL SELECT 'user-busy', n FROM generate_series(1, 3) AS n) AS d`,
		`INSERT INTO {device_requests} SELECT s, 'q-' || n, CASE n % 2 WHEN 0 THEN 'laptop' ELSE 'phone' END, CASE n % 4 WHEN 0 THEN 'data' ELSE 'mutation' END,
			'select', 'tasks', 'waiting', '', now(), now(), NULL, NULL, n, n, 0, 0 FROM ` + many,
		`INSERT INTO {open_effects} (scope, id, stream, kind, grp, device, repeatable, started, version, position, event_id, era, partition, log_offset, trace)
			SELECT s, 'e-' || n, 'thread-x', CASE n % 50 WHEN 0 THEN 'device' ELSE 'model' END, 'run-' || n, CASE n % 50 WHEN 0 THEN 'laptop' ELSE '' END, n % 10 > 0, n % 40 = 0, 1, n, 'x', 1, 0, n, ''
			FROM (SELECT s, n FROM ` + many + ` WHERE n <= 200) AS k`,
		`INSERT INTO {timers} SELECT s, 'thread-x', 'timer-' || n, 'run-' || n, now() + (n - 10) * interval '1 minute', n, 1, 0, n FROM ` + many + ` WHERE n <= 500`,
		`INSERT INTO {erasures} SELECT DISTINCT s || '-gone', now(), 1, 0, 1 FROM ` + many,
		`INSERT INTO effect_claims SELECT s, 'e-' || n, 'worker-' || n % 7, now() FROM ` + many + ` WHERE n <= 200 AND n % 2 = 0`,
		`INSERT INTO timer_firings SELECT s, 'thread-x', 'timer-' || n, now(), now() FROM ` + many + ` WHERE n <= 50`,
		`INSERT INTO device_presence SELECT s || '-' || n, 'd-1', NULL, 'x', true, now() FROM ` + many,
		`INSERT INTO device_presence SELECT 'user-busy', 'd-' || n, NULL, 'x', true, now() FROM generate_series(1, 3) AS n`,
		`INSERT INTO writer_states SELECT s, 'thread-' || n, 1, '\x00', 1, '{}' FROM ` + many,
		`INSERT INTO writer_scopes SELECT s || '-' || n, 1, '', false FROM ` + many,
		`INSERT INTO answers SELECT s, decode(md5(s || n), 'hex'), '\x00', NULL, NULL, n, 1, 0, n, '' FROM ` + many,
		`INSERT INTO workers VALUES ('worker-me', now()), ('worker-1', now())`,
		`INSERT INTO projection_checkpoints SELECT p.name, p.generation, 0, 0, 10000, 1, 1, 'w', false, 1, 1, now() FROM projections p`,
	} {
		if _, err := pool.Exec(ctx, expand(sql)); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
	if _, err := pool.Exec(ctx, `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(ctx, `SELECT relname::text FROM pg_class WHERE relkind = 'r' AND reltuples >= 200 AND relnamespace = 'public'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	large, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(large) < 12 {
		t.Fatalf("the large tables are %v (%v)", large, err)
	}
	return large
}
