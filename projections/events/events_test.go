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
	m := events.New(projections.NewDB(pool), events.PartitionedBy(log.PartitionOf))
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

// What a reader of the log asks about a position is answered for the era of the log, of one moment, with how far that is.
func TestAroundAPosition(t *testing.T) {
	pool, log := pgtest.Read(t), logtest.New(1)
	m := events.New(projections.NewDB(pool), events.PartitionedBy(log.PartitionOf))
	around := func(era int, position uint64) string {
		t.Helper()
		a, err := m.Around(era)(t.Context(), 0, 0, ann, position)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(a.Next)
		for _, offset := range []*int64{a.Before, a.At} {
			if offset == nil {
				text += " none"
			} else {
				text += fmt.Sprint(" ", *offset)
			}
		}
		return text
	}
	if got := around(1, 1); got != "-1 none none" {
		t.Errorf("of an empty model: %s", got)
	}
	logtest.Project(t, pool, log, m.Projector())
	one := log.Append(ann, logtest.On("thread-a", thread.Titled{}, thread.Titled{})...)
	log.Append("user-bob", logtest.Post("thread-a", "r1", "d")...)
	two := log.Append(ann, logtest.On("thread-a", thread.Titled{})...)
	logtest.Wait(t, pool, log, events.Name)
	at, later, next := one.Place.Offset, two.Place.Offset, two.Place.Offset+1
	for position, want := range map[uint64]string{
		1: fmt.Sprint(next, " none ", at), 2: fmt.Sprint(next, " ", at, " ", at), 3: fmt.Sprint(next, " ", at, " ", later),
		4: fmt.Sprint(next, " ", later, " none"), 5: fmt.Sprint(next, " none none"),
	} {
		if got := around(1, position); got != want {
			t.Errorf("around %d: %s, want %s", position, got, want)
		}
	}
	if got := around(2, 4); got != "-1 none none" {
		t.Errorf("for a log of the next era: %s", got)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE projection_checkpoints SET era = 2, next_offset = 70`); err != nil { // as a migration does
		t.Fatal(err)
	}
	if got := around(2, 3); got != "70 -1 none" {
		t.Errorf("in the next era: %s", got)
	}
}
