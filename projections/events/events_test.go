package events_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const ann = domain.Scope("user-ann")

func TestWhatIsReadIsWhatWasRecorded(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	m := events.New(pool, events.PartitionedBy(log.PartitionOf))
	logtest.Project(t, pool, log, m.Projector())
	var all []streams.Recorded
	for i := range 10 {
		all = append(all, log.Append(ann, logtest.On("thread-a", thread.Titled{}, thread.RunStarted{RunID: fmt.Sprint("r", i%3)})...).Events...)
	}
	log.Append("user-bob", logtest.Post("thread-a", "r1", "d")...)
	late := log.Append(ann, logtest.On("thread-a", thread.LateResultRecorded{CallID: thread.CallID("r1", 1, 0), Step: 1})...)
	all = append(all, late.Events...)
	logtest.Wait(t, pool, log, events.Name)

	ctx, key := t.Context(), streams.StreamKey{Scope: ann, Stream: "thread-a"}
	same := func(what string, got []streams.Recorded, err error, want []streams.Recorded) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	got, err := m.Tail(ctx, key, 0)
	same("the whole tail", got, err, all)
	got, err = m.Tail(ctx, key, 3)
	same("the newest three", got, err, all[18:])
	got, err = m.Before(ctx, key, 5, 2)
	same("two before 5", got, err, all[2:4])
	got, err = m.After(ctx, key, 5, 2)
	same("two after 5", got, err, all[5:7])
	got, err = m.After(ctx, key, 21, 2)
	same("after the head", got, err, []streams.Recorded{})
	got, err = m.ByScope(ctx, ann, 19, 0)
	same("the scope", got, err, all[19:])
	got, err = m.Run(ctx, ann, "r1")
	same("a run, its late result included", got, err, []streams.Recorded{all[3], all[9], all[15], all[20]})

	if w, err := m.Window(ctx, key); err != nil || w != (events.Window{Min: 1, Max: 21, Next: 22}) {
		t.Fatalf("window %+v (%v)", w, err)
	}
	if _, err := m.Window(ctx, streams.StreamKey{Scope: "user-eve", Stream: "thread-a"}); !errors.Is(err, projections.ErrNotFound) {
		t.Fatalf("somebody else's thread: %v", err)
	}
	if p, err := m.Head(ctx, ann); err != nil || p != logtest.PositionOf(late) {
		t.Fatalf("head %+v (%v)", p, err)
	}
	rows, from, err := m.CatchUp(ctx, ann, "", 20)
	same("catch-up of the scope", rows, err, all[20:])
	if live, _ := log.Live(ctx, 0); from != live {
		t.Fatalf("catch-up goes on from %+v, wanted %+v", from, live)
	}
	rows, _, err = m.CatchUp(ctx, ann, "thread-a", 19)
	same("catch-up of the stream", rows, err, all[19:])
	rows, from, err = m.CatchUp(ctx, "user-nobody", "", 0)
	if live, _ := log.Live(ctx, 0); err != nil || len(rows) != 0 || from != live {
		t.Fatalf("catch-up of an empty scope: %v from %+v (%v)", rows, from, err)
	}
	var folded []streams.Recorded
	last, err := m.Stream(ctx, key, 4, func(r streams.Recorded) error {
		folded = append(folded, r)
		return nil
	})
	same("history", folded, err, all[4:])
	if last != 21 {
		t.Fatalf("history ends at %d", last)
	}
}
