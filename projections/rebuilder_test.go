package projections_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// watching runs a worker that looks often.
func watching(t testing.TB, pool *pgxpool.Pool, log *logtest.Log, projectors []projections.Projector, change func(*projections.RebuilderConfig)) (stop func()) {
	t.Helper()
	cfg := projections.RebuilderConfig{RebuildConfig: rebuilding(pool, log, projectors), Every: 50 * time.Millisecond}
	cfg.By, cfg.Log = "", slog.New(slog.DiscardHandler)
	if change != nil {
		change(&cfg)
	}
	return run(t, projections.NewRebuilder(cfg).Run)
}

// until asks until ok, or fails.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); !ok(); {
		select {
		case <-ctx.Done():
			t.Fatal("waited too long until", what)
		case <-tick.C:
		}
	}
}

// TestANewRevisionIsRebuiltByItselfOnce: the old one is read until the new one is verified; what an operator rolled back or dropped is
// not begun again.
func TestANewRevisionIsRebuiltByItselfOnce(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	stop := start(t, pool, log, all)
	wait(t, pool, log)
	stop()
	runs := liveOf(t, pool, "runs").Number
	both := append(slices.Clone(all), next{Projector: named(t, all, "threads"), revision: 2})
	start(t, pool, log, both)
	watching(t, pool, log, both, nil)
	until(t, "the new revision is read", func() bool { return liveOf(t, pool, "threads").Revision == 2 })
	if g := liveOf(t, pool, "runs"); g.Number != runs {
		t.Errorf("runs was rebuilt, too: %+v", g)
	}
	if _, err := projections.Rollback(t.Context(), pool, "threads"); err != nil {
		t.Fatal(err)
	}
	stays(t, pool, 1)
	if err := projections.Drop(t.Context(), pool, "threads", 2); err != nil {
		t.Fatal(err)
	}
	stays(t, pool, 1)
	done, err := projections.Rebuild(t.Context(), rebuilding(pool, log, both, "threads"))
	if err != nil || done[0].Err != nil || done[0].Revision != 2 || done[0].Generation != 3 {
		t.Fatalf("asked for: %+v, %v", done, err)
	}
}

// stays fails when another generation of threads is begun or read within some looks of the worker.
func stays(t testing.TB, pool *pgxpool.Pool, live int) {
	t.Helper()
	before, err := projections.Generations(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(500 * time.Millisecond)
	<-timer.C
	after, err := projections.Generations(t.Context(), pool)
	if err != nil || len(projections.Of(after, "threads")) != len(projections.Of(before, "threads")) || liveOf(t, pool, "threads").Number != live {
		t.Errorf("%v; from %+v to %+v", err, before, after)
	}
}

// TestByHandItIsFilledAndVerifiedAndLeft: with manual, an operator swaps.
func TestByHandItIsFilledAndVerifiedAndLeft(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	both := append(slices.Clone(all), next{Projector: named(t, all, "threads"), revision: 2})
	stop := start(t, pool, log, all)
	wait(t, pool, log)
	stop()
	start(t, pool, log, both)
	watching(t, pool, log, both, func(c *projections.RebuilderConfig) { c.Swap = projections.SwapManual })
	until(t, "it is verified", func() bool {
		all, err := projections.Generations(t.Context(), pool)
		return err == nil && slices.ContainsFunc(all, func(g projections.Generation) bool { return g.Number == 2 && g.VerifiedAt != nil })
	})
	stays(t, pool, 1)
	if _, err := projections.Swap(t.Context(), pool, "threads", projections.SwapOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAnOperatorsRebuildLeftIsTakenUpByTheWorker, and ends as the operator wanted.
func TestWhatAnOperatorsRebuildLeftIsTakenUpByTheWorker(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	start(t, pool, log, all)
	wait(t, pool, log)
	ctx, breakOff := context.WithCancel(t.Context())
	cfg := rebuilding(pool, log, all, "threads")
	cfg.MaxRate = 500
	cfg.Progress = func(projections.RebuildProgress) { breakOff() }
	if done, err := projections.Rebuild(ctx, cfg); err == nil {
		t.Log("it was done before it noticed", done)
	}
	watching(t, pool, log, all, func(c *projections.RebuilderConfig) { c.Swap = projections.SwapManual })
	until(t, "it is read", func() bool { return liveOf(t, pool, "threads").Number == 2 })
}

// TestItIsNotReadWhileSomethingRunsThatCantReadIt: that is no failure, and it is read as soon as nothing does.
func TestItIsNotReadWhileSomethingRunsThatCantReadIt(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	stop := start(t, pool, log, all)
	wait(t, pool, log)
	stop()
	both := append(slices.Clone(all), next{Projector: named(t, all, "threads"), revision: 2})
	start(t, pool, log, both)
	var older atomic.Bool
	older.Store(true)
	var asked atomic.Int64
	watching(t, pool, log, both, func(c *projections.RebuilderConfig) {
		c.Ready = func(context.Context, projections.Generation) error {
			if asked.Add(1); older.Load() {
				return errors.New("the release before runs")
			}
			return nil
		}
	})
	until(t, "it was asked for more than once", func() bool { return asked.Load() > 2 })
	stays(t, pool, 1)
	status, err := projections.StatusOf(t.Context(), pool, "threads")
	if err != nil || len(status.Generations) != 2 || status.Generations[1].Failure != "" || status.Generations[1].State != projections.Feeding {
		t.Errorf("%+v, %v", status, err)
	}
	older.Store(false)
	until(t, "it is read", func() bool { return liveOf(t, pool, "threads").Revision == 2 })
}
