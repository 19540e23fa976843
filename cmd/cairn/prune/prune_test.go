package prune_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/cmd/cairn/prune"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/projectionstest"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/streams"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const ann = domain.Scope("user-ann")

type stage struct {
	t      *testing.T
	pool   *pgxpool.Pool
	log    *logtest.Log
	db     *projections.DB
	events *events.Model
}

// newStage has threads of one user: "old" and "titled" are quiet and complete, "running" has an open run, "new" is not quiet,
// and the state of "folded" is of another fold.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, pool: pgtest.Read(t), log: logtest.New(1)}
	s.db = projections.NewDB(s.pool)
	s.events = events.New(s.db)
	logtest.Project(t, s.pool, s.log, projectionstest.Projectors(s.pool)...)
	s.log.SetTime(time.Unix(1_700_000_000, 0))
	for _, name := range []string{"old", "titled", "running", "folded", "new"} {
		s.talk(name)
		if name == "titled" {
			s.append(name, thread.Titled{}, thread.RunStarted{RunID: "again"}, thread.RunCancelled{RunID: "again"})
		}
		if name == "running" {
			s.append(name, thread.MessagePosted{RunID: "open", Channel: thread.Home}, thread.RunStarted{RunID: "open", Channel: thread.Home}, thread.RouteRequested{RunID: "open", Attempt: 1})
		}
	}
	s.log.SetTime(time.Unix(1_800_000_000, 0))
	s.append("new", thread.Titled{})
	s.level()
	_, err := s.pool.Exec(t.Context(), `INSERT INTO writer_states SELECT scope, 'thread-' || thread, head, '\x00', CASE thread WHEN 'folded' THEN 1 ELSE 2 END, '{}' FROM threads`)
	check(t, err)
	return s
}

func (s *stage) append(name string, facts ...any) {
	s.log.Append(ann, logtest.On(domain.Stream("thread-"+name), facts...)...)
}

func (s *stage) talk(name string) {
	run := "run-" + name
	s.append(name, thread.Opened{}, thread.MessagePosted{RunID: run, Channel: thread.Home}, thread.RunStarted{RunID: run, Channel: thread.Home},
		thread.RunFailed{RunID: run, Code: thread.Refused})
}

func (s *stage) level() {
	s.t.Helper()
	logtest.Wait(s.t, s.pool, s.log, projectionstest.Tables()...)
}

func (s *stage) options() prune.Options {
	return prune.Options{Before: time.Unix(1_750_000_000, 0), Fold: 2, NoTimeTravel: true}
}

func (s *stage) versions(name string) (all []uint64) {
	s.t.Helper()
	rows, err := s.events.After(s.t.Context(), key(name), 0, 0)
	check(s.t, err)
	for _, r := range rows {
		all = append(all, r.Version)
	}
	return all
}

func key(name string) streams.StreamKey {
	return streams.StreamKey{Scope: ann, Stream: domain.Stream("thread-" + name)}
}

// TestOnlyQuietThreadsLoseTheirHistory: what is open, what must be folded again and what is new keeps it; of the others the
// newest event stays, and the title's. Looking deletes nothing, and a second time there is nothing to delete.
func TestOnlyQuietThreadsLoseTheirHistory(t *testing.T) {
	s := newStage(t)
	for range 2 {
		found, err := prune.Look(t.Context(), s.pool, s.options())
		if want := (prune.Found{Threads: 2, Scopes: 1, Rows: 3 + 5, Busy: 1, Refold: 1}); err != nil || found != want {
			t.Fatalf("found %+v (%v), wanted %+v", found, err, want)
		}
	}
	refused := s.options()
	refused.NoTimeTravel = false
	if _, err := prune.Prune(t.Context(), s.pool, refused); !errors.Is(err, prune.ErrTimeTravel) {
		t.Fatalf("without giving up time travel: %v", err)
	}
	found, err := prune.Prune(t.Context(), s.pool, s.options())
	if want := (prune.Found{Threads: 2, Scopes: 1, Rows: 3 + 5, Busy: 1, Refold: 1}); err != nil || found != want {
		t.Fatalf("deleted %+v (%v), wanted %+v", found, err, want)
	}
	for name, want := range map[string]string{"old": "[4]", "titled": "[5 7]", "running": "[1 2 3 4 5 6 7]", "folded": "[1 2 3 4]", "new": "[1 2 3 4 5]"} {
		if got := fmt.Sprint(s.versions(name)); got != want {
			t.Errorf("%s has the versions %s, wanted %s", name, got, want)
		}
	}
	if again, err := prune.Prune(t.Context(), s.pool, s.options()); err != nil || again.Rows != 0 || again.Threads != 0 {
		t.Fatalf("again: %+v (%v)", again, err)
	}
}

// TestWhoReadsWhatWasPrunedIsTold: nobody takes a part of a history for the whole.
func TestWhoReadsWhatWasPrunedIsTold(t *testing.T) {
	s := newStage(t)
	_, err := prune.Prune(t.Context(), s.pool, s.options())
	check(t, err)
	var reset *events.Reset
	if _, _, err := s.events.Since(t.Context(), ann, 0, 100, 0); !errors.As(err, &reset) || !reset.Pruned || reset.Oldest == 0 {
		t.Fatalf("from the beginning: %v", err)
	}
	rows, head, err := s.events.Since(t.Context(), ann, reset.Oldest, 100, 0)
	if err != nil || len(rows) == 0 || rows[0].Position != reset.Oldest+1 || rows[len(rows)-1].Position != head.Position {
		t.Fatalf("from %d on: %d rows (%v)", reset.Oldest, len(rows), err)
	}
	for name, want := range map[string]uint64{"old": 4, "titled": 7, "running": 1, "new": 1} {
		if w, err := s.events.Window(t.Context(), key(name)); err != nil || w.Min != want {
			t.Errorf("the window of %s is %+v (%v), wanted it from %d on", name, w, err, want)
		}
		_, _, err := s.events.Past(t.Context(), key(name), 3, logtest.Schema(), threads.New(s.db).Projector())
		if gone := errors.Is(err, events.ErrPruned); gone != (want > 1) {
			t.Errorf("the past of %s: %v", name, err)
		}
	}
	if _, _, err := s.events.Past(t.Context(), streams.StreamKey{Scope: ann}, head.Position, logtest.Schema()); !errors.Is(err, events.ErrPruned) {
		t.Errorf("the past of the account: %v", err)
	}
	// A reader of the log that begins in the middle takes what was pruned for no hole.
	for position := uint64(2); position <= head.Position; position++ {
		if a, err := s.events.Around(1)(t.Context(), 0, 0, ann, position); err != nil || a.Before == nil {
			t.Errorf("before position %d nothing is stored (%v)", position, err)
		}
	}
}

// TestAPrunedThreadGoesOn: the projector takes what is said there later, and its window begins where it is whole.
func TestAPrunedThreadGoesOn(t *testing.T) {
	s := newStage(t)
	_, err := prune.Prune(t.Context(), s.pool, s.options())
	check(t, err)
	s.append("old", thread.MessagePosted{RunID: "later", Channel: thread.Home}, thread.RunStarted{RunID: "later", Channel: thread.Home})
	s.append("titled", thread.Titled{})
	s.level()
	if got := fmt.Sprint(s.versions("old"), s.versions("titled")); got != "[4 5 6] [5 7 8]" {
		t.Fatalf("versions %s", got)
	}
	if w, err := s.events.Window(t.Context(), key("titled")); err != nil || w.Min != 7 || w.Max != 8 {
		t.Fatalf("the window is %+v (%v)", w, err)
	}
}

// TestNothingIsPrunedWhileRowsAreCompared with those of another generation, or while a read model stands still.
func TestNothingIsPrunedWhileRowsAreCompared(t *testing.T) {
	s := newStage(t)
	check(t, projections.Pause(t.Context(), s.pool, threads.Name, "a test"))
	if _, err := prune.Prune(t.Context(), s.pool, s.options()); !errors.Is(err, prune.ErrStands) {
		t.Fatalf("beside a paused read model: %v", err)
	}
	check(t, projections.Resume(t.Context(), s.pool, threads.Name))
	_, err := projections.CreateGeneration(t.Context(), s.pool, s.events.Projector())
	check(t, err)
	if _, err := prune.Prune(t.Context(), s.pool, s.options()); !errors.Is(err, prune.ErrRebuild) {
		t.Fatalf("beside a second generation: %v", err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
