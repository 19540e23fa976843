package logtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Project runs an engine on the log until the test ends.
func Project(t testing.TB, pool *pgxpool.Pool, log *Log, projectors ...projections.Projector) {
	t.Helper()
	engine := projections.NewEngine(projections.EngineConfig{Pool: pool, Tailer: log, Schema: Schema(), Projectors: projectors})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("engine: %v", err)
		}
	})
}

// Wait waits until models have everything of every partition.
func Wait(t testing.TB, pool *pgxpool.Pool, log *Log, models ...string) {
	t.Helper()
	w := projections.NewWaiter(pool, projections.WithPatience(30*time.Second))
	for partition := range log.Partitions() {
		// A scope's position says nothing about the other lanes: of each the last is waited for.
		last := map[domain.Scope]streams.Position{}
		for _, c := range log.Commits(partition) {
			p := PositionOf(c)
			p.Position = max(p.Position, 1)
			last[c.Scope] = p
		}
		for _, p := range last {
			if err := w.Wait(t.Context(), p, models...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Eventually waits until f is true: for what the clock of the database decides.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			t.Fatalf("it did not come true: %s", what)
		case <-tick.C:
		}
	}
}
