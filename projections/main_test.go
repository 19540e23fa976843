package projections_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/projectionstest"
	"github.com/cairnhq/cairn/streams"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "40"); err != nil { // the command line may say otherwise
		panic(err)
	}
	pgtest.Main(m, func() error { return goleak.Find() })
}

// models are all read models of the program.
func models(pool *pgxpool.Pool) []projections.Projector { return projectionstest.Projectors(pool) }

// tables are what they fill.
var tables = projectionstest.Tables()

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// failer is what a test and a property have in common.
type failer interface {
	Helper()
	Fatal(...any)
}

// dump is the whole content of tables as text, the same for equal content.
func dump(ctx context.Context, t failer, db querier, names ...string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range names {
		rows, err := db.Query(ctx, fmt.Sprintf("SELECT t::text FROM %s t ORDER BY 1", name))
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %s\n", name, line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// start runs an engine until the test ends or stop is called.
func start(t testing.TB, pool *pgxpool.Pool, tailer streams.Tailer, projectors []projections.Projector) (stop func()) {
	t.Helper()
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: pool, Tailer: tailer, Schema: logtest.Schema(), Projectors: projectors, Log: slog.New(slog.DiscardHandler),
	})
	return run(t, engine.Run)
}

// listen runs a waiter until the test ends.
func listen(t testing.TB, pool *pgxpool.Pool) *projections.Waiter {
	t.Helper()
	w := projections.NewWaiter(pool)
	run(t, w.Run)
	return w
}

func run(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// wait waits until all models have everything of a partition.
func wait(t testing.TB, pool *pgxpool.Pool, log *logtest.Log) {
	t.Helper()
	logtest.Wait(t, pool, log, tables...)
}
