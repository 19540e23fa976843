package timers_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/timers"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const ann = domain.Scope("user-ann")

func caughtUp(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	logtest.Eventually(t, "the model is caught up", func() bool {
		var n int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM cairn_caught_up('timers')`).Scan(&n)
		return err == nil && n == 1
	})
}

// TestATimerIsNeverEarlyByTheDatabasesClock, nor lost, nor due after it was cleared.
func TestATimerIsNeverEarlyByTheDatabasesClock(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	model := timers.New(projections.NewDB(pool))
	logtest.Project(t, pool, log, model.Projector())
	var now time.Time
	if err := pool.QueryRow(t.Context(), `SELECT cairn_now()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	log.SetTime(now)
	log.Append(ann, logtest.Post("thread-a", "run", "laptop")...) // a route's deadline is a minute
	logtest.Wait(t, pool, log, timers.Name)
	due := func() []timers.Timer {
		caughtUp(t, pool)
		found, err := model.Due(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := due(); len(found) != 0 {
		t.Fatalf("due at once: %v", found)
	}
	pgtest.ShiftClock(t, pool, 30*time.Second)
	if found := due(); len(found) != 0 {
		t.Fatalf("due after 30 s: %v", found)
	}
	if wait, ok, err := model.NextDue(t.Context()); err != nil || !ok || wait > 30*time.Second || wait < time.Second {
		t.Fatalf("next due in %v, %v (%v)", wait, ok, err)
	}
	pgtest.ShiftClock(t, pool, 61*time.Second)
	found := due()
	if len(found) != 1 || found[0].ID != "turn:run.route.1" || found[0].Due.Sub(now.Truncate(time.Microsecond)) != time.Minute || found[0].Position.Position != 3 {
		t.Fatalf("due after 61 s: %+v", found)
	}
	if wait, ok, err := model.NextDue(t.Context()); err != nil || !ok || wait != 0 {
		t.Fatalf("next due in %v, %v (%v)", wait, ok, err)
	}
	if err := model.Fired(t.Context(), found...); err != nil {
		t.Fatal(err)
	}
	if again := due(); len(again) != 0 {
		t.Fatalf("due again at once after it was fired: %v", again)
	}
	pgtest.ShiftClock(t, pool, 130*time.Second)
	if again := due(); len(again) != 1 {
		t.Fatalf("a minute later nothing has cleared it, but due are %v", again)
	}
	log.Append(ann, logtest.On("thread-a", thread.RouteDecided{RunID: "run", Attempt: 1, Agent: "a"})...)
	logtest.Wait(t, pool, log, timers.Name)
	if again := due(); len(again) != 0 {
		t.Fatalf("due after it was cleared: %v", again)
	}
	if _, ok, err := model.NextDue(t.Context()); err != nil || ok {
		t.Fatalf("a timer is left (%v)", err)
	}
}
