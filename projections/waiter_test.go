package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

// TestAWriteIsReadAfterWaiting: whoever waits for a write's position reads it, in another process, too.
func TestAWriteIsReadAfterWaiting(t *testing.T) {
	for _, hearing := range []string{"listening", "asking"} {
		t.Run(hearing, func(t *testing.T) {
			log := logtest.New(2)
			pool := pgtest.Read(t)
			start(t, pool, log, models(pool))
			w := projections.NewWaiter(pool)
			if hearing == "listening" {
				run(t, w.Run)
			}
			model := events.New(projections.NewDB(pool))
			for i := range 50 {
				p := logtest.PositionOf(log.Append(scope, logtest.On("thread-a", thread.Titled{})...))
				if err := w.Wait(t.Context(), p, "events", "threads"); err != nil {
					t.Fatal(err)
				}
				head, err := model.Head(t.Context(), scope)
				if err != nil {
					t.Fatal(err)
				}
				if head != p {
					t.Fatalf("write %d: the head is %+v after waiting for %+v", i, head, p)
				}
			}
		})
	}
}

func TestWaitingForTooLongSaysHowFar(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	stop := start(t, pool, log, models(pool))
	p := logtest.PositionOf(log.Append(scope, logtest.On("thread-a", thread.Opened{})...))
	wait(t, pool, log)
	stop() // nobody projects any more
	w := listen(t, pool)
	p.Offset, p.Position = p.Offset+7, p.Position+7
	began := time.Now()
	var behind *projections.Behind
	if err := w.Wait(t.Context(), p, "threads"); !errors.As(err, &behind) {
		t.Fatalf("waiting answered %v, wanted *Behind", err)
	}
	if took := time.Since(began); took < projections.Patience || took > 2*projections.Patience {
		t.Fatalf("it waited %v", took)
	}
	if behind.Model != "threads" || behind.Next != 1 || behind.Want != 7 {
		t.Fatalf("it said %+v", behind)
	}
	if err := w.Wait(t.Context(), streams.Position{Scope: "user-nobody"}, "threads"); err != nil {
		t.Fatalf("the position 0 is everywhere, but waiting answered %v", err)
	}
}

func TestAnOlderEraIsComparedByPosition(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	start(t, pool, log, models(pool))
	w := projections.NewWaiter(pool, projections.WithPatience(10*time.Millisecond))
	p := logtest.PositionOf(log.Append(scope, logtest.On("thread-a", thread.Opened{})...))
	wait(t, pool, log)
	old := streams.Position{Scope: scope, Position: p.Position, Era: 0, Partition: 9, Offset: 1 << 40}
	if err := w.Wait(t.Context(), old, "threads"); err != nil {
		t.Fatalf("a position of an older era that events has: %v", err)
	}
	old.Position++
	if err := w.Wait(t.Context(), old, "threads"); err == nil {
		t.Fatal("a position of an older era that events has not was waited for in no time")
	}
}

func TestChangedWakesOnlyForItsModel(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	start(t, pool, log, models(pool))
	w := listen(t, pool)
	log.Append(scope, logtest.On("thread-a", thread.Opened{})...)
	wait(t, pool, log)
	if err := w.Wait(t.Context(), logtest.PositionOf(log.Commits(0)[0]), "open_effects"); err != nil {
		t.Fatal(err)
	}
	effects, titles := w.Changed("open_effects"), w.Changed("threads")
	quiet := log.Append(scope, logtest.On("thread-a", thread.Titled{})...)
	if err := w.Wait(t.Context(), logtest.PositionOf(quiet), "open_effects"); err != nil {
		t.Fatal(err)
	}
	awake(t, titles)
	select {
	case <-effects:
		t.Log("woken once without need: the connection may just have been made") // allowed: Changed may be early
		effects = w.Changed("open_effects")
	default:
	}
	log.Append(scope, logtest.Post("thread-a", "run", "laptop")...)
	awake(t, effects)
}

func awake(t testing.TB, c <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatal("nobody was woken")
	}
}
