package projectionstest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/projectionstest"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

var scopes = [...]domain.Scope{"user-a", "user-b", "user-c"}

// fill writes a log that every read model has rows of.
func fill(log *logtest.Log, from, to int) {
	for i := from; i < to; i++ {
		scope, run := scopes[i%3], fmt.Sprint("r", i)
		log.SetTime(time.Unix(1_800_000_000+int64(i), 0))
		log.Append(scope, logtest.On("device-d", device.Introduced{Protocol: 2 + i%2, Timezone: "Europe/Rome"})...)
		ask := device.Request{RequestID: fmt.Sprint("q", i), DeviceID: "d", Action: "select", Table: "tasks", Wait: time.Minute}
		log.Append(scope, logtest.On("device-d", device.DataRequested{Request: ask})...)
		if i%3 == 0 {
			log.Append(scope, logtest.On("device-d", device.RequestOffered{RequestID: ask.RequestID}, device.DataAnswered{RequestID: ask.RequestID})...)
		}
		log.Append(scope, logtest.On("thread-t", thread.Opened{})...)
		log.Append(scope, logtest.Post("thread-t", run, "d")...)
		if i%4 == 0 {
			log.Append(scope, logtest.On("thread-t", thread.RouteDecided{RunID: run, Attempt: 1, Agent: "a"}, thread.RunCompleted{RunID: run})...)
		}
		log.Append(scope)
	}
}

// level runs an engine until all models have the whole log.
func level(t *testing.T, pool *pgxpool.Pool, log *logtest.Log) {
	t.Helper()
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: pool, Tailer: log, Schema: logtest.Schema(), Projectors: projectionstest.Projectors(pool), Log: slog.New(slog.DiscardHandler),
	})
	stop := run(engine.Run)
	defer stop()
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		states, err := projections.List(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		behind := len(states) < len(projectionstest.Projectors(pool))*int(log.Partitions())
		for _, s := range states {
			if s.Stopped != nil {
				t.Fatal(s.Stopped)
			}
			behind = behind || s.Checkpoint.Next < int64(len(log.Commits(s.Partition)))
		}
		if !behind {
			tick.Stop()
			return
		}
	}
}

// run runs f until stop is called.
func run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = f(ctx) }()
	return func() { cancel(); <-done }
}

func folded(t *testing.T, log *logtest.Log, live *projectionstest.Dump) *projectionstest.Dump {
	t.Helper()
	fold, err := projectionstest.Fold(t.Context(), pgtest.Read(t), log, logtest.Schema(), live)
	if err != nil {
		t.Fatal(err)
	}
	return fold
}

// Read models are the fold of the log: at several checkpoints, and after they were thrown away and filled again.
func TestReadModelsAreTheFoldOfTheLog(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(2)
	for i := range 2 {
		fill(log, i*20, (i+1)*20)
		level(t, pool, log)
		live, err := projectionstest.Take(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		if faults := projectionstest.Compare(live, folded(t, log, live)); len(faults) > 0 {
			t.Fatal(faults)
		}
	}
	before, err := projectionstest.Take(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range projectionstest.Tables() {
		if table != "erasures" && len(before.Rows[table]) == 0 {
			t.Errorf("nothing was compared in %s", table)
		}
	}
	if err := projectionstest.Empty(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	level(t, pool, log)
	after, err := projectionstest.Take(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if faults := projectionstest.Compare(after, before); len(faults) > 0 {
		t.Fatal(faults)
	}
}

// What differs in a table is found, whatever it is: a row more, a row less, another value; and so is a model that stopped.
func TestATableThatIsNotTheFoldIsFound(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	fill(log, 0, 9)
	log.Append(scopes[2], logtest.On("account-a", account.Erased{})...)
	level(t, pool, log)
	good, err := projectionstest.Take(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	fold := folded(t, log, good)
	if faults := projectionstest.Compare(good, fold); len(faults) > 0 {
		t.Fatal(faults)
	}
	var plants []string
	for _, table := range projectionstest.Tables() {
		plants = append(plants, "DELETE FROM "+table)
	}
	plants = append(plants,
		`UPDATE events SET hash = 'x' WHERE position = 1`,
		`UPDATE events SET data = convert_to(repeat('x', 300), 'UTF8') WHERE position = 1`,
		`UPDATE threads SET messages = messages + 1`,
		`UPDATE threads SET active_run = NULL`,
		`UPDATE runs SET record = '{}'`,
		`UPDATE timers SET due = due + interval '1 microsecond'`,
		`UPDATE open_effects SET started = NOT started`,
		`INSERT INTO erasures (scope, erased_at, position, partition, log_offset) VALUES ('user-x', now(), 1, 0, 1)`,
		`UPDATE projection_checkpoints SET stopped_at = now(), stopped_reason = 'poison' WHERE projection = 'runs'`,
	)
	for _, plant := range plants {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tag, err := tx.Exec(t.Context(), plant)
		if err != nil || tag.RowsAffected() == 0 {
			t.Fatalf("%s: %v, %d rows", plant, err, tag.RowsAffected())
		}
		bad, err := projectionstest.TakeIn(t.Context(), tx)
		if err != nil {
			t.Fatal(err)
		}
		if faults := projectionstest.Compare(bad, fold); len(faults) == 0 {
			t.Errorf("not found: %s", plant)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	moved := folded(t, log, good)
	for _, row := range moved.Rows["events"] {
		row["log_offset"] = "moved"
	}
	if faults := projectionstest.Compare(good, moved, "log_offset"); len(faults) > 0 {
		t.Fatal(faults)
	}
}

// What a model remembers beside its place is what the log says there.
func TestACheckpointBesideTheLogIsFound(t *testing.T) {
	log := history.NewLog(1)
	d := &projectionstest.Dump{Places: map[string]map[int32][]streams.Checkpoint{"runs": {0: {{Next: 1}}}}}
	if faults := projectionstest.Places(d, log); len(faults) != 1 {
		t.Error("ahead of the log:", faults)
	}
	d.Places["runs"][0] = []streams.Checkpoint{{}}
	if faults := projectionstest.Places(d, log); len(faults) != 1 {
		t.Error("another acceptance:", faults)
	}
}

// A fold is made in a database of its own, which is gone afterwards.
func TestFreshIsEmptyAndGoesAway(t *testing.T) {
	dsn := pgtest.DSN(t, migrations.Read)
	pool, drop, err := projectionstest.Fresh(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := pool.Config().ConnConfig.Database
	d, err := projectionstest.Take(t.Context(), pool)
	if err != nil || len(d.Rows["events"]) != 0 || len(d.Rows) != len(projectionstest.Tables()) {
		t.Error(d, err)
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var there bool
	if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil || there {
		t.Fatal("it is still there:", err)
	}
}

// Every table of the database is a read model's, and so compared, or is named here as something else.
func TestEveryTableIsComparedOrKnown(t *testing.T) {
	known := []string{
		"projections", "projection_generations", "projection_checkpoints", "projection_skips", "projection_rebuilds", "event_floors", "log_ends", "cairn_migrations", "processes", // the engine's own, and what operators asked of it
		"writer_checkpoints", "writer_states", "writer_scopes", "answers", // the writer's: history.States compares them
		"workers", "effect_claims", "timer_firings", "device_presence", "effects_switch", "policy_places", "policy_era", // work tables
	}
	rows, err := pgtest.Read(t).Query(t.Context(), `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		if !slices.Contains(known, table) && !slices.Contains(projectionstest.Tables(), strings.TrimSuffix(table, "_1")) {
			t.Errorf("table %s is compared by nobody: name its read model in projectionstest.Models, or name it here", table)
		}
	}
}
