package projections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

func count(t testing.TB, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAPausedProjectionStands: and the others go on; resumed it has everything.
func TestAPausedProjectionStands(t *testing.T) {
	log, pool := logtest.New(1), pgtest.Read(t)
	chat(log, scope, "thread-a", "one")
	start(t, pool, log, models(pool))
	waitLevel(t, pool, log, models(pool)...)
	if err := projections.Pause(t.Context(), pool, "nothing", "ann"); !errors.Is(err, projections.ErrNoProjection) {
		t.Fatalf("pausing what is not there answered %v", err)
	}
	if err := projections.Pause(t.Context(), pool, "threads", "ann"); err != nil {
		t.Fatal(err)
	}
	// It stands from some moment on: events go on while threads has the same.
	for i, same := 0, 0; same < 5; i++ {
		if i == 500 {
			t.Fatal("the pause is not seen")
		}
		before := count(t, pool, `SELECT coalesce(sum(head), 0)::int FROM threads`)
		c := chat(log, scope, "thread-a", fmt.Sprint("run", i))
		w := projections.NewWaiter(pool, projections.WithPatience(30*time.Second))
		if err := w.Wait(t.Context(), logtest.PositionOf(c), "events"); err != nil {
			t.Fatal(err)
		}
		if same++; count(t, pool, `SELECT coalesce(sum(head), 0)::int FROM threads`) != before {
			same = 0
		}
	}
	if err := projections.Resume(t.Context(), pool, "threads"); err != nil {
		t.Fatal(err)
	}
	waitLevel(t, pool, log)
	equal(t, "tables", dump(t.Context(), t, pool, tables...), expected(t, log))
}

// TestSkipStepsOverOneEvent: the one it stopped at and no other of its commit, and only where that was recorded; a projector
// that checks the log steps over none.
func TestSkipStepsOverOneEvent(t *testing.T) {
	log, pool := logtest.New(1), pgtest.Read(t)
	var seen atomic.Int64
	picky := failing{"picky", func(r streams.Recorded) error {
		if strings.Contains(string(r.Data), "poison") {
			return errors.New("I can't take this")
		}
		if r.Type == "thread.titled" {
			seen.Add(1)
		}
		return nil
	}}
	all := append(models(pool), picky)
	log.Append(scope, logtest.On("thread-a", thread.Titled{}, thread.RunCompleted{RunID: "poison"}, thread.Titled{}, thread.RunCompleted{RunID: "poison"}, thread.Titled{})...)
	start(t, pool, log, all)
	for range 2 {
		var skipped projections.Skipped
		eventually(t, func() (err error) {
			skipped, err = projections.Skip(t.Context(), pool, all, "picky", 0, "ann", "nobody needs it")
			return err
		})
		if skipped.Event == "" || skipped.Offset != 0 {
			t.Fatalf("it skipped %+v", skipped)
		}
	}
	waitLevel(t, pool, log, picky)
	if n := count(t, pool, `SELECT count(*) FROM projection_skips WHERE projection = 'picky' AND skipped_by = 'ann' AND reason = 'nobody needs it'`); n != 2 {
		t.Errorf("%d skips are recorded, wanted 2", n)
	}
	if _, err := projections.Skip(t.Context(), pool, all, "picky", 0, "ann", "again"); !errors.Is(err, projections.ErrNotStopped) {
		t.Errorf("skipping where nothing stopped answered %v", err)
	}
	log.AppendRaw(scope, func(c *streams.Commit) { c.Events[0].Version++ }, logtest.On("thread-a", thread.Titled{})...)
	var refused *projections.Refused
	eventually(t, func() error {
		_, err := projections.Skip(t.Context(), pool, all, "events", 0, "ann", "never mind")
		if errors.As(err, &refused) {
			return nil
		}
		return fmt.Errorf("skipping in events answered %w", err)
	})
}

// TestLanesAreSplitAndJoined: whatever number of lanes an engine wants after another, with events between and with lanes that
// do not stand level when it stops, the tables are the same.
func TestLanesAreSplitAndJoined(t *testing.T) {
	log, pool := logtest.New(1), pgtest.Read(t)
	log.MaxBatch = 3
	for i, lanes := range []int{1, 3, 2, 4, 1} {
		for j := range 30 {
			chat(log, domain.Scope(fmt.Sprintf("user-%d", j%9)), "thread-a", fmt.Sprint("run", i, "-", j))
		}
		engine := projections.NewEngine(projections.EngineConfig{Pool: pool, Tailer: log, Schema: logtest.Schema(), Projectors: models(pool), Lanes: lanes})
		stop := run(t, engine.Run)
		eventually(t, func() error {
			if n := count(t, pool, `SELECT count(*) FROM projection_generations WHERE lanes = `+fmt.Sprint(lanes)); n != len(models(pool)) {
				return fmt.Errorf("%d projections have %d lanes", n, lanes)
			}
			return nil
		})
		if i%2 == 0 {
			waitLevel(t, pool, log, models(pool)...)
		}
		stop()
	}
	equal(t, "tables", dump(t.Context(), t, pool, tables...), expected(t, log))
}
