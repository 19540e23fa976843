package projections_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// TestASwapLooksItself: what was found before counts for nothing, neither good nor bad, in whichever direction; a rollback goes
// back at once and says what was found last.
func TestASwapLooksItself(t *testing.T) {
	pool, m, _ := pairs(t)
	swap := func() error {
		t.Helper()
		_, err := projections.Swap(t.Context(), pool, m.name, projections.SwapOptions{})
		return err
	}
	verify := func(clean bool) {
		t.Helper()
		if v, err := projections.Verify(t.Context(), pool, m.name); err != nil || v.Clean() != clean {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	verify(true)
	execute(t, pool, `UPDATE tally_2 SET n = 7 WHERE id = 3`)
	if err := swap(); !errors.Is(err, projections.ErrDiffers) {
		t.Fatalf("changed after it was verified: %v", err)
	}
	execute(t, pool, `UPDATE tally_2 SET n = 0 WHERE id = 3`)
	if err := swap(); err != nil {
		t.Fatalf("equal again: %v", err)
	}
	execute(t, pool, `UPDATE tally_2 SET n = 7 WHERE id = 3`)
	verify(false) // generation 1, beside 2
	back, err := projections.Rollback(t.Context(), pool, m.name)
	if err != nil || back.Number != 1 || back.Before != 2 || back.Differed == nil || back.Differed.Differences != 1 {
		t.Fatalf("rolled back: %+v, %v", back, err)
	}
	if err := swap(); !errors.Is(err, projections.ErrDiffers) {
		t.Fatalf("swapped to what was found to differ: %v", err)
	}
	execute(t, pool, `UPDATE tally_2 SET n = 0 WHERE id = 3`)
	if err := swap(); err != nil {
		t.Fatal(err)
	}
	if back, err = projections.Rollback(t.Context(), pool, m.name); err != nil || back.Differed != nil {
		t.Fatalf("equal, and rolled back: %+v, %v", back, err)
	}
}

// TestASwapByHandWaitsForAMoment at which both stand level, as when engines have not begun to feed a generation yet.
func TestASwapByHandWaitsForAMoment(t *testing.T) {
	pool, m, _ := pairs(t)
	execute(t, pool, `UPDATE projection_checkpoints SET next_offset = 9 WHERE generation = 1 AND projection = 'tally'`)
	for _, o := range []projections.SwapOptions{{}, {Unverified: true}} {
		done := make(chan error, 1)
		go func() {
			_, err := projections.Swap(t.Context(), pool, m.name, o)
			done <- err
		}()
		timer := time.NewTimer(300 * time.Millisecond)
		<-timer.C
		execute(t, pool, `UPDATE projection_checkpoints SET next_offset = 9 WHERE projection = 'tally'`)
		if err := <-done; err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		execute(t, pool, `UPDATE projection_checkpoints SET next_offset = 10 WHERE generation = 2 AND projection = 'tally'`)
	}
}

// TestAnOldVerdictStopsNoRebuild: nor one of another read model.
func TestAnOldVerdictStopsNoRebuild(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	start(t, pool, log, all)
	wait(t, pool, log)
	cfg := rebuilding(pool, log, all, "threads")
	cfg.Swap = projections.SwapManual
	if done, err := projections.Rebuild(t.Context(), cfg); err != nil || done[0].Err != nil {
		t.Fatal(done, err)
	}
	execute(t, pool, `INSERT INTO threads_2 SELECT (jsonb_populate_record(t, '{"scope": "nobody"}')).* FROM threads_2 t LIMIT 1`)
	if v, err := projections.Verify(t.Context(), pool, "threads"); err != nil || v.Clean() {
		t.Fatal(v, err)
	}
	cfg = rebuilding(pool, log, all, "runs", "threads", "runs", "threads")
	cfg.Swap = projections.SwapAuto
	done, err := projections.Rebuild(t.Context(), cfg)
	if err != nil || len(done) != 2 || done[0].Err != nil || !done[0].Swapped || !errors.Is(done[1].Err, projections.ErrDiffers) {
		t.Fatalf("one differs: %+v, %v", done, err)
	}
	if failure := generationOf(t, pool, "threads", 2).Failure; failure == "" {
		t.Error("the failure is not told")
	}
	execute(t, pool, `DELETE FROM threads_2 WHERE scope = 'nobody'`)
	cfg.Names = []string{"threads", "threads"}
	again, err := projections.Rebuild(t.Context(), cfg)
	if err != nil || len(again) != 1 || again[0].Err != nil {
		t.Fatal(again, err)
	}
	if !again[0].Swapped || again[0].Generation != 2 {
		t.Fatalf("equal now: %+v", again)
	}
	if g := generationOf(t, pool, "threads", 2); g.Failure != "" || !g.Live {
		t.Errorf("it is read, and failed with %q", g.Failure)
	}
}

func generationOf(t testing.TB, pool *pgxpool.Pool, name string, number int) projections.GenerationStatus {
	t.Helper()
	status, err := projections.StatusOf(t.Context(), pool, name)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(status.Generations, func(g projections.GenerationStatus) bool { return g.Number == number })
	if i < 0 {
		t.Fatalf("no generation %d: %+v", number, status.Generations)
	}
	return status.Generations[i]
}

// TestAnOperatorsDecisionStands: after a rollback the background neither lets a pending generation be read, nor drops anything.
func TestAnOperatorsDecisionStands(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	stop := start(t, pool, log, all)
	wait(t, pool, log)
	if done, err := projections.Rebuild(t.Context(), rebuilding(pool, log, all, "threads")); err != nil || done[0].Err != nil {
		t.Fatal(done, err)
	}
	wait(t, pool, log)
	stop()
	// One more is filled and waits to be read, as one whose rebuild broke off.
	ctx, breakOff := context.WithCancel(t.Context())
	cfg := rebuilding(pool, log, all, "threads")
	cfg.Progress = func(p projections.RebuildProgress) {
		if p.Phase == projections.PhaseVerifying {
			breakOff()
		}
	}
	done, err := projections.Rebuild(ctx, cfg)
	if err != nil || len(done) != 1 || done[0].Err == nil || done[0].Generation != 3 {
		t.Fatal(done, err)
	}
	back, err := projections.Rollback(t.Context(), pool, "threads")
	if err != nil || back.Number != 1 || !slices.Equal(back.Cancelled, []int{3}) {
		t.Fatalf("%+v, %v", back, err)
	}
	start(t, pool, log, all)
	watching(t, pool, log, all, nil)
	stays(t, pool, 1)
	if again, err := projections.CancelSwaps(t.Context(), pool, "threads"); err != nil || len(again) != 0 {
		t.Errorf("cancelled twice: %v, %v", again, err)
	}
	// Asked for again, it goes on.
	asked := rebuilding(pool, log, all, "threads")
	asked.Swap = projections.SwapAuto
	if done, err := projections.Rebuild(t.Context(), asked); err != nil || done[0].Err != nil || !done[0].Swapped || done[0].Generation != 3 {
		t.Fatal(done, err)
	}
}

// TestARollbackDuringARebuild is not undone by it.
func TestARollbackDuringARebuild(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	start(t, pool, log, all)
	wait(t, pool, log)
	if done, err := projections.Rebuild(t.Context(), rebuilding(pool, log, all, "threads")); err != nil || done[0].Err != nil {
		t.Fatal(done, err)
	}
	cfg := rebuilding(pool, log, all, "threads")
	cfg.Progress = func(p projections.RebuildProgress) {
		if p.Phase == projections.PhaseSwapping {
			if back, err := projections.Rollback(t.Context(), pool, "threads"); err != nil || !slices.Equal(back.Cancelled, []int{3}) {
				t.Errorf("%+v, %v", back, err)
			}
		}
	}
	done, err := projections.Rebuild(t.Context(), cfg)
	if err != nil || done[0].Err != nil || done[0].Swapped {
		t.Errorf("%+v, %v", done, err)
	}
	if g := liveOf(t, pool, "threads"); g.Number != 1 {
		t.Errorf("generation %d is read", g.Number)
	}
}

// TestTheBackgroundDropsNothingThatAnOperatorRead, nor what has stopped.
func TestTheBackgroundDropsNothingThatAnOperatorRead(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	stop := start(t, pool, log, all)
	wait(t, pool, log)
	if done, err := projections.Rebuild(t.Context(), rebuilding(pool, log, all, "threads")); err != nil || done[0].Err != nil {
		t.Fatal(done, err)
	}
	if _, err := projections.Rollback(t.Context(), pool, "threads"); err != nil { // 1 is read, and 2 was left
		t.Fatal(err)
	}
	stop()
	two := append(slices.Clone(all), next{Projector: named(t, all, "threads"), revision: 2})
	stop = start(t, pool, log, two)
	stopWatching := watching(t, pool, log, two, nil)
	until(t, "revision 2 is read", func() bool { return liveOf(t, pool, "threads").Revision == 2 })
	stopWatching()
	stop()
	three := append(two, next{Projector: named(t, all, "threads"), revision: 3})
	start(t, pool, log, three)
	execute(t, pool, `UPDATE projection_checkpoints SET stopped_at = now(), stopped_offset = next_offset, stopped_event = 'e', stopped_reason = 'r' WHERE projection = 'threads' AND generation = 2`)
	watching(t, pool, log, three, nil)
	until(t, "revision 3 is read", func() bool { return liveOf(t, pool, "threads").Revision == 3 })
	stays(t, pool, 4)
	for _, number := range []int{1, 2} {
		generationOf(t, pool, "threads", number) // still there
	}
}

// TestWhoTakesARebuildUpKeepsItsBounds: those it was asked for with, not his own.
func TestWhoTakesARebuildUpKeepsItsBounds(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	start(t, pool, log, all)
	wait(t, pool, log)
	ctx, breakOff := context.WithCancel(t.Context())
	cfg := rebuilding(pool, log, all, "threads")
	cfg.MaxRate, cfg.Memory = 100, 64<<20
	cfg.Progress = func(projections.RebuildProgress) { breakOff() }
	if done, err := projections.Rebuild(ctx, cfg); err == nil {
		t.Fatal("it was done before it noticed", done)
	}
	events := len(log.Commits(0)) + len(log.Commits(1))
	began := time.Now()
	watching(t, pool, log, all, nil)
	until(t, "it is read", func() bool { return liveOf(t, pool, "threads").Number == 2 })
	if least := time.Duration(events) * time.Second / 100 / 2; time.Since(began) < least {
		t.Errorf("it took %v, and at the rate that it was asked for with it takes more than %v", time.Since(began), least)
	}
	var rate int
	var memory int64
	if err := pool.QueryRow(t.Context(), `SELECT max_rate, memory FROM projection_rebuilds WHERE projection = 'threads' AND generation = 2`).Scan(&rate, &memory); err != nil || rate != 100 || memory != 64<<20 {
		t.Errorf("%d, %d, %v", rate, memory, err)
	}
}

// TestWhatIsNotFedIsSaidAtOnce, and what to do: nobody waits for what can't be.
func TestWhatIsNotFedIsSaidAtOnce(t *testing.T) {
	pool, m, _ := pairs(t)
	execute(t, pool, `UPDATE projection_checkpoints SET next_offset = 9 WHERE generation = 1 AND projection = 'tally'`)
	at := func(words string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, verified := projections.Verify(ctx, pool, m.name)
		_, swapped := projections.Swap(ctx, pool, m.name, projections.SwapOptions{})
		done, rebuilt := projections.Rebuild(ctx, rebuilding(pool, logtest.New(1), []projections.Projector{m}, m.name))
		if rebuilt == nil {
			rebuilt = done[0].Err
		}
		for _, err := range []error{verified, swapped, rebuilt} {
			if !errors.Is(err, projections.ErrNotFed) || !strings.Contains(err.Error(), words) || ctx.Err() != nil {
				t.Errorf("%v, wanted %q", err, words)
			}
		}
	}
	if err := projections.Pause(t.Context(), pool, m.name, "ann"); err != nil {
		t.Fatal(err)
	}
	at("by ann: go on with `cairn projections resume tally`")
	if err := projections.Resume(t.Context(), pool, m.name); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `UPDATE projection_checkpoints SET stopped_at = now(), stopped_offset = 9, stopped_event = 'e9', stopped_reason = 'poison' WHERE projection = 'tally' AND generation = 1`)
	at("at event e9: poison: try it again with `cairn projections resume tally`")
}

// TestASkipSaysWhoHadTheEvent: a generation that had applied it keeps it.
func TestASkipSaysWhoHadTheEvent(t *testing.T) {
	pool, m, g := pairs(t)
	execute(t, pool, `UPDATE projection_checkpoints SET next_offset = 9 WHERE projection = 'tally'`,
		`UPDATE projection_checkpoints SET next_offset = 5, stopped_at = now(), stopped_offset = 5, stopped_event = 'e5', stopped_reason = 'poison' WHERE projection = 'tally' AND generation = 1`)
	skipped, err := projections.Skip(t.Context(), pool, nil, m.name, 0, "ann", "nobody needs it")
	if err != nil || !slices.Equal(skipped.Had, []int{g.Number}) {
		t.Errorf("%+v, %v", skipped, err)
	}
	if _, err := projections.Skip(t.Context(), pool, nil, "nope", 0, "ann", "x"); !errors.Is(err, projections.ErrNoProjection) {
		t.Errorf("of no read model: %v", err)
	}
}
