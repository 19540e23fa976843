package projections_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

const scope = domain.Scope("user-ann")

// chat appends a whole short run.
func chat(log *logtest.Log, scope domain.Scope, stream domain.Stream, run string) streams.Commit {
	log.Append(scope, logtest.Post(stream, run, "laptop")...)
	log.Append(scope, logtest.On(stream, thread.RouteDecided{RunID: run, Attempt: 1, Agent: "task_agent"}, thread.TurnRequested{RunID: run, Turn: 1, Attempt: 1, Agent: "task_agent"})...)
	return log.Append(scope, logtest.On(stream, thread.TurnCompleted{RunID: run, Turn: 1, Attempt: 1, Agent: "task_agent", FinishReason: "stop"}, thread.RunCompleted{RunID: run, Turns: 1})...)
}

// expected is what an engine must have made of a log, whatever happened to it.
func expected(t testing.TB, log *logtest.Log) string {
	t.Helper()
	pool := pgtest.Read(t)
	stop := start(t, pool, log, models(pool))
	wait(t, pool, log)
	stop()
	return dump(t.Context(), t, pool, tables...)
}

func equal(t testing.TB, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestReplayEqualsLive(t *testing.T) {
	log := logtest.New(3)
	pool := pgtest.Read(t)
	stop := start(t, pool, log, models(pool))
	for i := range 30 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i%7)), domain.Stream(fmt.Sprintf("thread-%d", i%3)), fmt.Sprint("run", i))
	}
	wait(t, pool, log)
	stop()
	equal(t, "replayed and live tables differ", dump(t.Context(), t, pool, tables...), expected(t, log))
}

// TestALateModelBecomesLevel: a model that is added later reads alone and joins, while the others go on.
func TestALateModelBecomesLevel(t *testing.T) {
	log := logtest.New(1)
	log.MaxBatch = 7
	pool := pgtest.Read(t)
	all := models(pool)
	stop := start(t, pool, log, all[:2])
	for i := range 40 {
		chat(log, scope, "thread-a", fmt.Sprint("early", i))
	}
	w := projections.NewWaiter(pool, projections.WithPatience(30*time.Second))
	if err := w.Wait(t.Context(), logtest.PositionOf(log.Commits(0)[119]), tables[:2]...); err != nil {
		t.Fatal(err)
	}
	stop()
	stop = start(t, pool, log, all)
	for i := range 40 {
		chat(log, scope, "thread-a", fmt.Sprint("late", i))
	}
	wait(t, pool, log)
	stop()
	equal(t, "tables", dump(t.Context(), t, pool, tables...), expected(t, log))
}

// TestTwoEnginesApplyOnce: copies of the projectors that do not know of each other never apply twice.
func TestTwoEnginesApplyOnce(t *testing.T) {
	log := logtest.New(2)
	log.MaxBatch = 3
	pool := pgtest.Read(t)
	first, second := start(t, pool, log, models(pool)), start(t, pool, log, models(pool))
	for i := range 40 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i%5)), "thread-a", fmt.Sprint("run", i))
	}
	wait(t, pool, log)
	first() // the other takes over what it held
	for i := range 40 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i%5)), "thread-b", fmt.Sprint("again", i))
	}
	wait(t, pool, log)
	second()
	equal(t, "tables", dump(t.Context(), t, pool, tables...), expected(t, log))
}

// failing is a projector that can't apply one type of event.
type failing struct {
	name string
	on   func(streams.Recorded) error
}

func (f failing) Name() string  { return f.name }
func (f failing) Revision() int { return 1 }
func (f failing) Apply(_ context.Context, _ pgx.Tx, b projections.Batch) error {
	for r := range b.Recorded() {
		if err := f.on(r); err != nil {
			return &projections.EventError{Event: r, Err: err}
		}
	}
	return nil
}

func TestAFailingProjectorStopsAloneAndSaysWhy(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	picky := failing{"picky", func(r streams.Recorded) error {
		if strings.Contains(string(r.Data), "poison") {
			return errors.New("I can't take this")
		}
		return nil
	}}
	nervous := failing{"nervous", func(r streams.Recorded) error {
		if strings.Contains(string(r.Data), "poison") {
			panic("oh no")
		}
		return nil
	}}
	chat(log, scope, "thread-a", "fine")
	bad := log.Append(scope, logtest.Post("thread-a", "poison", "laptop")...)
	good := chat(log, scope, "thread-a", "fine2")
	stop := start(t, pool, log, append(models(pool), picky, nervous))
	wait(t, pool, log)

	w := projections.NewWaiter(pool, projections.WithPatience(time.Minute))
	for _, model := range []string{"picky", "nervous"} {
		var stopped *projections.Stopped
		if err := w.Wait(t.Context(), logtest.PositionOf(good), "events", model); !errors.As(err, &stopped) || !errors.Is(err, projections.ErrStopped) {
			t.Fatalf("waiting for %s answered %v, wanted ErrStopped at once", model, err)
		}
		if stopped.Event != bad.Events[0].ID || stopped.Offset != bad.Place.Offset || stopped.Reason == "" {
			t.Fatalf("%s stopped at %+v, wanted event %s at offset %d", model, stopped, bad.Events[0].ID, bad.Place.Offset)
		}
		if err := w.Wait(t.Context(), logtest.PositionOf(log.Commits(0)[2]), model); err != nil {
			t.Fatalf("%s has what lies before the event it stopped at, but waiting answered %v", model, err)
		}
	}
	states, err := projections.List(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	stopped := map[string]bool{} // in the lane of the event
	for _, s := range states {
		stopped[s.Projection] = stopped[s.Projection] || s.Stopped != nil
	}
	for name, is := range stopped {
		if is != (name == "picky" || name == "nervous") {
			t.Fatalf("projection %s: stopped is %v", name, is)
		}
	}
	stop()

	// A program that can apply the event goes on from there.
	picky.on = func(streams.Recorded) error { return nil }
	start(t, pool, log, append(models(pool), picky))
	if err := w.Wait(t.Context(), logtest.PositionOf(good), "picky"); err != nil && !errors.Is(err, projections.ErrStopped) {
		t.Fatal(err)
	}
	eventually(t, func() error { return w.Wait(t.Context(), logtest.PositionOf(good), "picky") })
}

// TestAHoleInTheLogStopsEvents: and no other model goes past it, also one that began right before it and knows nothing.
func TestAHoleInTheLogStopsEvents(t *testing.T) {
	for name, edit := range map[string]func(*streams.Recorded){
		"a version is missing":  func(r *streams.Recorded) { r.Version++ },
		"a position is missing": func(r *streams.Recorded) { r.Position++ },
		"a version comes twice": func(r *streams.Recorded) { r.Version-- },
	} {
		for _, events := range []int{1, 300} { // so many are copied
			t.Run(fmt.Sprintf("%s, %d events", name, events), func(t *testing.T) {
				log := logtest.New(1)
				pool := pgtest.Read(t)
				log.Append(scope, logtest.On("thread-a", thread.Opened{}, thread.Titled{})...)
				bad := log.AppendRaw(scope, func(c *streams.Commit) {
					for i := range c.Events {
						edit(&c.Events[i])
					}
				}, logtest.On("thread-a", slices.Repeat([]any{thread.Titled{}}, events)...)...)
				start(t, pool, log, models(pool))
				w := projections.NewWaiter(pool, projections.WithPatience(30*time.Second))
				for _, model := range []string{"events", "threads"} {
					if err := w.Wait(t.Context(), logtest.PositionOf(bad), model); !errors.Is(err, projections.ErrStopped) {
						t.Fatalf("waiting for %s answered %v, wanted ErrStopped", model, err)
					}
				}
			})
		}
	}
}

func TestAnUnknownTypeIsRefused(t *testing.T) {
	log := logtest.New(1)
	pool := pgtest.Read(t)
	strange := log.AppendRaw(scope, func(c *streams.Commit) { c.Events[0].Type = "thread.of_the_future" }, logtest.On("thread-a", thread.Opened{})...)
	start(t, pool, log, models(pool))
	w := projections.NewWaiter(pool, projections.WithPatience(30*time.Second))
	if err := w.Wait(t.Context(), logtest.PositionOf(strange), "threads"); !errors.Is(err, projections.ErrStopped) {
		t.Fatalf("waiting for threads answered %v, wanted ErrStopped", err)
	}
	if err := w.Wait(t.Context(), logtest.PositionOf(strange), "events"); err != nil {
		t.Fatalf("events copies what it need not understand, but answered %v", err)
	}
}

// TestCutConnectionsChangeNothing: whatever connection is cut at whatever point, commits with unknown outcome
// included, every event is applied once.
func TestCutConnectionsChangeNothing(t *testing.T) {
	log := logtest.New(2)
	log.MaxBatch = 2
	pool := pgtest.Read(t)
	start(t, pool, log, models(pool))
	watcher := watch(t, pool)
	ctx, cancel := context.WithCancel(t.Context())
	cut := make(chan int, 1)
	go func() {
		cuts := 0
		defer func() { cut <- cuts }()
		tick := time.NewTicker(15 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var n int
			if err := watcher.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&n); err == nil {
				cuts += n
			}
		}
	}()
	for i := range 150 {
		chat(log, domain.Scope(fmt.Sprintf("user-%d", i%5)), "thread-a", fmt.Sprint("run", i))
		if i%30 == 29 {
			<-time.After(100 * time.Millisecond)
		}
	}
	cancel()
	t.Logf("%d connections were cut", <-cut)
	wait(t, pool, log)
	equal(t, "tables", dump(t.Context(), t, pool, tables...), expected(t, log))
}

// watch is a connection of its own.
func watch(t testing.TB, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func eventually(t testing.TB, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("it did not come true: %v", err)
		case <-tick.C:
		}
	}
}
