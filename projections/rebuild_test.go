package projections_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

// next is a projector in a later revision, with what it does otherwise.
type next struct {
	projections.Projector
	revision int
	changed  func(streams.Commit) streams.Commit
}

func (n next) Revision() int { return n.revision }

// Shape is that of the revision before.
func (n next) Shape() string {
	text, _, err := migrations.Model(n.Name(), 1)
	if err != nil {
		panic(err)
	}
	return text
}

func (n next) Apply(ctx context.Context, tx pgx.Tx, b projections.Batch) error {
	if n.changed != nil {
		b.Commits = slices.Clone(b.Commits)
		for i, c := range b.Commits {
			b.Commits[i] = n.changed(c)
		}
	}
	return n.Projector.Apply(ctx, tx, b)
}

// late changes when the events of some scopes happened.
func late(c streams.Commit) streams.Commit {
	if c.Scope != "user-3" {
		return c
	}
	c.Events = slices.Clone(c.Events)
	for i := range c.Events {
		c.Events[i].At = strings.Replace(c.Events[i].At, "20", "21", 1)
	}
	return c
}

// named is the projector of a name, among some.
func named(t testing.TB, all []projections.Projector, name string) projections.Projector {
	t.Helper()
	i := slices.IndexFunc(all, func(p projections.Projector) bool { return p.Name() == name })
	if i < 0 {
		t.Fatal("no projector", name)
	}
	return all[i]
}

// talkedIn is a log in which many talk, and goes on to be talked in until the test ends.
func talkedIn(t testing.TB) *logtest.Log {
	t.Helper()
	log := logtest.New(2)
	n := 0
	talk := func() {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", n%7)), domain.Stream(fmt.Sprintf("thread-%d", n%5)), fmt.Sprint("run", n))
		n++
	}
	for range 60 {
		talk()
	}
	run(t, func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				talk()
			}
		}
	})
	return log
}

func rebuilding(pool *pgxpool.Pool, log *logtest.Log, projectors []projections.Projector, names ...string) projections.RebuildConfig {
	return projections.RebuildConfig{Pool: pool, Tailer: log, Schema: logtest.Schema(), Projectors: projectors, Names: names, By: "test", Log: slog.New(slog.DiscardHandler)}
}

// liveOf is the generation that is read.
func liveOf(t testing.TB, pool *pgxpool.Pool, name string) projections.Generation {
	t.Helper()
	g, err := projections.LiveGeneration(t.Context(), pool, name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestARebuildIsVerifiedAndReadWhileTheLogGrows: all models at once, back and forth, and twice; what is older than where a rollback
// goes is gone.
func TestARebuildIsVerifiedAndReadWhileTheLogGrows(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	start(t, pool, log, all)
	wait(t, pool, log)
	for round := range 2 {
		done, err := projections.Rebuild(t.Context(), rebuilding(pool, log, all, projections.Names(all)...))
		if err != nil || len(done) != len(all) {
			t.Fatal(done, err)
		}
		for _, d := range done {
			if d.Err != nil || !d.Swapped || !d.Verdict.Clean() || d.Replaces != d.Generation-1 || liveOf(t, pool, d.Projection).Number != d.Generation {
				t.Errorf("round %d: %+v", round, d)
			}
		}
	}
	left, err := projections.Generations(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range left {
		if !g.Live && !g.Previous {
			t.Errorf("%s is still there, and no rollback goes to it", g)
		}
	}
	for _, name := range projections.Names(all) {
		for _, step := range []func() error{
			func() error { _, err := projections.Rollback(t.Context(), pool, name); return err },
			func() error { _, err := projections.Verify(t.Context(), pool, name); return err },
			func() error {
				_, err := projections.Swap(t.Context(), pool, name, projections.SwapOptions{})
				return err
			},
		} {
			if err := step(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// TestARebuildThatBrokeOffIsTakenUp: wherever it is broken off, the next one goes on with the same generation.
func TestARebuildThatBrokeOffIsTakenUp(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	start(t, pool, log, all)
	wait(t, pool, log)
	for _, phase := range []string{projections.Filling, projections.Feeding, projections.PhaseVerifying, projections.PhaseSwapping} {
		ctx, breakOff := context.WithCancel(t.Context())
		cfg := rebuilding(pool, log, all, "threads", "runs")
		if phase == projections.Filling {
			cfg.MaxRate = 500 // so that it is told before it is done
		}
		cfg.Progress = func(p projections.RebuildProgress) {
			if p.Phase == phase {
				breakOff()
			}
		}
		broken, err := projections.Rebuild(ctx, cfg)
		breakOff()
		if err == nil && !slices.ContainsFunc(broken, func(r projections.Rebuilt) bool { return r.Err != nil }) {
			t.Logf("%s: it was done before it noticed", phase)
			continue
		}
		before, read := map[string]int{}, map[string]bool{} // whoever is broken off may not know that it had swapped
		generations, err := projections.Generations(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range generations {
			before[g.Projection], read[g.Projection] = g.Number, g.Live
		}
		done, err := projections.Rebuild(t.Context(), rebuilding(pool, log, all, "threads", "runs"))
		if err != nil {
			t.Fatalf("%s: %v", phase, err)
		}
		for _, d := range done {
			if d.Err != nil || !d.Swapped || !read[d.Projection] && (!d.TakenUp || d.Generation != before[d.Projection]) {
				t.Errorf("broken off while %s: %+v", phase, d)
			}
		}
	}
}

// TestTwoRebuildersKeepApart: the second is told so, and does nothing.
func TestTwoRebuildersKeepApart(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	start(t, pool, log, all)
	wait(t, pool, log)
	before := liveOf(t, pool, "runs").Number
	var second error
	cfg := rebuilding(pool, log, all, "threads")
	cfg.MaxRate = 500
	cfg.Progress = func(p projections.RebuildProgress) {
		if second == nil && p.Phase == projections.Filling {
			_, second = projections.Rebuild(t.Context(), rebuilding(pool, log, all, "runs", "threads"))
			at, err := projections.Rebuilding(t.Context(), pool, "threads")
			if other, otherErr := projections.Rebuilding(t.Context(), pool, "runs"); err != nil || otherErr != nil || !at || other {
				t.Errorf("rebuilding threads: %v, %v; runs: %v, %v", at, err, other, otherErr)
			}
		}
	}
	if _, err := projections.Rebuild(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	var busy *projections.Busy
	if !errors.As(second, &busy) || !slices.Equal(busy.Names, []string{"threads"}) {
		t.Errorf("the second rebuilder got %v", second)
	}
	if g := liveOf(t, pool, "runs"); g.Number != before {
		t.Errorf("runs is at generation %d", g.Number)
	}
}

// TestADefectIsNamedAndNothingIsSwapped: a new generation that differs is not read, whoever tries, until it is dropped.
func TestADefectIsNamedAndNothingIsSwapped(t *testing.T) {
	pool, log := pgtest.Read(t), talkedIn(t)
	all := models(pool)
	defect := append(slices.Clone(all), next{Projector: named(t, all, "threads"), revision: 2, changed: late})
	stop := start(t, pool, log, all)
	wait(t, pool, log)
	stop()
	start(t, pool, log, defect)
	done, err := projections.Rebuild(t.Context(), rebuilding(pool, log, defect, "threads"))
	if err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	if d := done[0]; !errors.Is(d.Err, projections.ErrDiffers) || d.Swapped || d.Verdict.Clean() {
		t.Fatalf("%+v", d)
	}
	if text := fmt.Sprintf("%+v", done[0].Verdict); !strings.Contains(text, "user-3") || strings.Contains(text, "user-2") {
		t.Errorf("the keys that differ are not those named: %s", text)
	}
	if g := liveOf(t, pool, "threads"); g.Number != 1 {
		t.Fatalf("generation %d is read", g.Number)
	}
	if _, err := projections.Swap(t.Context(), pool, "threads", projections.SwapOptions{}); err == nil {
		t.Error("it was swapped although it differs")
	}
	if again, err := projections.Rebuild(t.Context(), rebuilding(pool, log, defect, "threads")); err != nil || !errors.Is(again[0].Err, projections.ErrDiffers) || again[0].Swapped {
		t.Errorf("a rebuild on top of it: %+v, %v", again, err)
	}
	if err := projections.Drop(t.Context(), pool, "threads", 2); err != nil {
		t.Fatal(err)
	}
	done, err = projections.Rebuild(t.Context(), rebuilding(pool, log, all, "threads"))
	if err != nil || done[0].Err != nil || !done[0].Swapped {
		t.Errorf("after the drop: %+v, %v", done, err)
	}
}

// TestWithoutRoomNothingBegins.
func TestWithoutRoomNothingBegins(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	all := models(pool)
	if err := projections.Ensure(t.Context(), pool, all, 1); err != nil {
		t.Fatal(err)
	}
	cfg := rebuilding(pool, log, all, "threads")
	cfg.Free = func() (uint64, error) { return 1 << 20, nil }
	before, err := projections.Generations(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	var full *projections.NoRoom
	if _, err := projections.Rebuild(t.Context(), cfg); !errors.As(err, &full) || full.Free != 1<<20 || full.Needed < 1<<30 {
		t.Fatal(err)
	}
	if after, err := projections.Generations(t.Context(), pool); err != nil || len(after) != len(before) {
		t.Error("something was begun", after, err)
	}
}
