package effects_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects"
	"github.com/cairnhq/cairn/handlers/effects/effectstest"
	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/memory"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const scope = domain.Scope("user-test")

// world is a log in memory, decided by the real deciders, and its read models in Postgres.
type world struct {
	t      *testing.T
	pool   *pgxpool.Pool
	log    *logtest.Log
	keys   *memory.Keys
	asker  *bridge
	waiter *projections.Waiter
	live   *effectstest.Live
}

// bridge appends what is decided to the log.
type bridge struct {
	*memory.Asker
	log *logtest.Log

	mu   sync.Mutex
	seen int
}

// Ask is streams.Asker.
func (b *bridge) Ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	answer, err := b.Asker.Ask(ctx, c)
	rows := b.Recorded()[b.seen:]
	b.seen += len(rows)
	if len(rows) > 0 {
		b.log.AppendRaw(c.Scope, func(commit *streams.Commit) {
			commit.CommandID = c.ID
			for i, r := range rows {
				r.Place, r.Era = commit.Place, commit.Era
				r.Place.Index = i
				commit.Events = append(commit.Events, r)
			}
		})
	}
	return answer, err
}

func begin(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, pool: pgtest.Read(t), log: logtest.New(1), keys: memory.NewKeys(), live: &effectstest.Live{}}
	w.asker = &bridge{Asker: memory.NewAsker(logtest.Schema(), w.keys, time.Now), log: w.log}
	w.waiter = projections.NewWaiter(w.pool)
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: w.pool, Tailer: w.log, Schema: logtest.Schema(),
		Projectors: []projections.Projector{events.New(projections.NewDB(w.pool)).Projector(), openeffects.New(projections.NewDB(w.pool)).Projector(), timers.New(projections.NewDB(w.pool)).Projector()},
	})
	w.run(w.waiter.Run)
	w.run(engine.Run)
	return w
}

// run runs f until the test ends or stop is called.
func (w *world) run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("run: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) config() effects.Config {
	return effects.Config{
		ID: "test", Asker: w.asker, Effects: openeffects.New(projections.NewDB(w.pool)), Timers: timers.New(projections.NewDB(w.pool)), Work: work.New(w.pool),
		Events: events.New(projections.NewDB(w.pool)), Waiter: w.waiter, Schema: logtest.Schema(), Keys: w.keys, Live: w.live, Tick: 500 * time.Millisecond,
	}
}

// ask sends a command; n makes its id.
func (w *world) ask(n string, body domain.Command) {
	w.t.Helper()
	_, err := w.asker.Ask(w.t.Context(), streams.Command{
		Scope: scope, ID: streams.CommandID(scope, n), Actor: domain.Actor{Kind: domain.ActorUser}, Body: body,
	})
	if err != nil {
		w.t.Fatalf("%s: %v", n, err)
	}
}

func (w *world) post(threadID, run, text string) {
	w.t.Helper()
	w.ask("post "+run, thread.PostMessage{
		On: thread.On{Thread: threadID}, New: true, RunID: run, Channel: thread.Chat, DeviceID: "laptop", Content: thread.Content{Text: text},
	})
}

// fold is the thread as it was decided.
func (w *world) fold(threadID string) *transcript.Thread {
	w.t.Helper()
	var opened []any
	for _, r := range w.asker.Recorded() {
		if r.Stream == domain.NewStream("thread", threadID) {
			e, err := logtest.Schema().Open(w.t.Context(), w.keys, r)
			if err != nil {
				w.t.Fatal(err)
			}
			opened = append(opened, e)
		}
	}
	return transcript.Fold(threadID, opened)
}

// until waits for a condition that depends on others.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for !is() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			w.t.Fatalf("it never came that %s", what)
		}
	}
}

// counting counts how often each effect is done, and does it by do.
type counting struct {
	do func(ctx context.Context, e openeffects.Effect, n int) error

	mu           sync.Mutex
	done         map[string]int
	now, maximum int
}

// Do is effects.Handler.
func (c *counting) Do(ctx context.Context, e openeffects.Effect) error {
	c.mu.Lock()
	if c.done == nil {
		c.done = map[string]int{}
	}
	c.done[e.ID]++
	n := c.done[e.ID]
	c.now++
	c.maximum = max(c.maximum, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	return c.do(ctx, e, n)
}

func (c *counting) total() (effects, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.done {
		times += n
	}
	return len(c.done), times
}

func TestRunsAreDoneOnceByTwoWorkers(t *testing.T) {
	w := begin(t)
	var counted []*counting
	for range 2 {
		c := w.config()
		c.Kinds = effects.BuiltIn(c, model.Offline(), embed.Hashed{})
		for kind, h := range c.Kinds {
			count := &counting{do: func(ctx context.Context, e openeffects.Effect, _ int) error { return h.Do(ctx, e) }}
			counted, c.Kinds[kind] = append(counted, count), count
		}
		w.run(effects.New(c).Run)
	}
	const n = 8
	for i := range n {
		w.post(fmt.Sprint("t", i), fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), "Hello!")
	}
	for i := range n {
		id := fmt.Sprint("t", i)
		w.until("run "+id+" completes", func() bool { return w.fold(id).Runs[0].End == transcript.Completed })
	}
	effectsDone, times := 0, 0
	for _, c := range counted {
		e, n := c.total()
		effectsDone, times = effectsDone+e, times+n
	}
	if effectsDone != 2*n || times != 2*n {
		t.Errorf("%d effects were done %d times, want %d once", effectsDone, times, 2*n)
	}
	if len(w.live.Frames()) == 0 {
		t.Error("nothing was published")
	}
}

func TestAFailedTurnIsTriedAgainWhenItsTimerIsDue(t *testing.T) {
	w := begin(t)
	c := w.config()
	c.Kinds = effects.BuiltIn(c, model.Offline(), embed.Hashed{})
	turn := c.Kinds["turn"]
	c.Kinds["turn"] = &counting{do: func(ctx context.Context, e openeffects.Effect, _ int) error {
		if e.ID != thread.TurnEffect(e.Group, 1, 1) {
			return turn.Do(ctx, e)
		}
		_, err := w.asker.Ask(ctx, streams.Command{
			Scope: e.Scope, ID: streams.Derive(e.EventID, "outcome"), Actor: domain.Actor{Kind: domain.ActorWorker},
			Body: thread.FailTurn{On: thread.On{Thread: e.Stream.ID()}, RunID: e.Group, Turn: 1, Attempt: 1, Class: thread.Unavailable},
		})
		return err
	}}
	w.run(effects.New(c).Run)
	w.post("t", "00000000-0000-4000-8000-000000000000", "Hello!")
	w.until("the run completes", func() bool { return w.fold("t").Runs[0].End == transcript.Completed })
}

func TestAHandlerThatFailsOrPanicsIsCalledAgain(t *testing.T) {
	w := begin(t)
	c := w.config()
	route := &counting{do: func(_ context.Context, _ openeffects.Effect, n int) error {
		switch n {
		case 1:
			return errors.New("not now")
		case 2:
			panic("a defect")
		}
		return nil
	}}
	c.Kinds = map[string]effects.Handler{"route": route}
	w.run(effects.New(c).Run)
	w.post("t", "00000000-0000-4000-8000-000000000000", "Hello!")
	w.until("it is called a third time", func() bool { _, n := route.total(); return n == 3 })
}

func TestNoMoreHandlersRunThanAllowed(t *testing.T) {
	w := begin(t)
	c := w.config()
	hold := make(chan struct{})
	route := &counting{do: func(ctx context.Context, _ openeffects.Effect, _ int) error {
		select {
		case <-hold:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	c.Kinds, c.Parallel = map[string]effects.Handler{"route": route}, 3
	w.run(effects.New(c).Run)
	for i := range 10 {
		w.post(fmt.Sprint("t", i), fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), "Hello!")
	}
	w.until("three are held", func() bool { n, _ := route.total(); return n == 3 })
	close(hold)
	w.until("all were done", func() bool { n, _ := route.total(); return n == 10 })
	if route.maximum != 3 {
		t.Errorf("%d ran at once", route.maximum)
	}
}

func TestAWorkerThatStopsGivesItsClaimsBackAtOnce(t *testing.T) {
	w := begin(t)
	c := w.config()
	held := make(chan struct{}, 1)
	c.Kinds = map[string]effects.Handler{"route": &counting{do: func(ctx context.Context, _ openeffects.Effect, _ int) error {
		held <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}}
	stop := w.run(effects.New(c).Run)
	w.post("t", "00000000-0000-4000-8000-000000000000", "Hello!")
	<-held
	if taken, err := c.Effects.Take(t.Context(), "other", []string{"route"}, nil, 10); err != nil || len(taken) != 0 {
		t.Fatalf("a held effect was taken: %v, %v", taken, err)
	}
	stop()
	w.until("another takes it", func() bool {
		taken, err := c.Effects.Take(t.Context(), "other", []string{"route"}, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(taken) == 1
	})
}

func TestWhilePausedNothingIsTaken(t *testing.T) {
	w := begin(t)
	c := w.config()
	route := &counting{do: func(context.Context, openeffects.Effect, int) error { return nil }}
	c.Kinds = map[string]effects.Handler{"route": route}
	if err := c.Work.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.run(effects.New(c).Run)
	w.post("t", "00000000-0000-4000-8000-000000000000", "Hello!")
	w.until("the effect is known", func() bool {
		open, err := c.Effects.List(t.Context(), scope, 10)
		return err == nil && len(open) == 1
	})
	timer := time.NewTimer(700 * time.Millisecond) // more than a tick
	<-timer.C
	if n, _ := route.total(); n != 0 {
		t.Error("it was taken")
	}
	if err := c.Work.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("it is taken", func() bool { n, _ := route.total(); return n == 1 })
}

func TestWhatADeadWorkerBeganEndsAsUnknown(t *testing.T) {
	w := begin(t)
	c := w.config()
	c.Kinds = effects.BuiltIn(c, model.Offline(), embed.Hashed{})
	w.run(effects.New(c).Run)
	const run = "00000000-0000-4000-8000-000000000000"
	w.post("t", run, "Create a task called Buy milk")
	var step openeffects.Effect
	w.until("the device's step is asked for", func() bool { // a gateway takes it, says that it begins, and dies
		taken, err := c.Effects.Take(t.Context(), "gateway", []string{"device"}, []string{openeffects.DevicePair(scope, "laptop")}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(taken) == 1 {
			step = taken[0]
		}
		return len(taken) == 1
	})
	call, number, _ := thread.ParseStepID(step.ID)
	w.ask("offer", thread.OfferCall{On: thread.On{Thread: "t"}, CallID: call, Step: number, DeviceID: "laptop", Started: true})
	pgtest.ShiftClock(t, w.pool, 11*time.Second)
	w.until("the run goes on", func() bool { return w.fold("t").Runs[0].End == transcript.Completed })
	got := w.fold("t").Call(call)
	if got.Failure != thread.OutcomeUnknown {
		t.Errorf("the call ended as %q", got.Failure)
	}
	if text := effectstest.Text(w.fold("t").Run(run)); text == "" || got.Result.Text == "" {
		t.Errorf("the model said %q after %q", text, got.Result.Text)
	}
}

// A write outside a run that a gateway began and did not live to tell the end of ends as unknown, in words that say to look; and
// a question that nobody took is given up when its timer is due.
func TestWhatADeviceWasAskedEndsWithoutIt(t *testing.T) {
	w := begin(t)
	c := w.config()
	w.run(effects.New(c).Run)
	w.ask("hello", device.Introduce{Device: "laptop", Protocol: 3})
	w.ask("write", device.RequestMutation{Device: "laptop", RequestID: "w", Action: "insert", Table: "tasks"})
	w.until("the write is asked for", func() bool { // a gateway takes it, says that it begins, and dies
		taken, err := c.Effects.Take(t.Context(), "gateway", []string{"device"}, []string{openeffects.DevicePair(scope, "laptop")}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return len(taken) == 1
	})
	w.ask("offer", device.OfferRequest{Device: "laptop", RequestID: "w", Started: true})
	w.ask("question", device.RequestData{Device: "laptop", RequestID: "q", Action: "select", Table: "tasks", Wait: 20 * time.Second})
	outcomes := func() (write device.MutationFailed, question device.DataFailed) {
		for _, commit := range w.log.Commits(0) {
			for _, r := range commit.Events {
				event, err := logtest.Schema().Open(t.Context(), w.keys, r)
				if err != nil {
					t.Fatal(err)
				}
				switch e := event.(type) {
				case device.MutationFailed:
					write = e
				case device.DataFailed:
					question = e
				}
			}
		}
		return write, question
	}
	pgtest.ShiftClock(t, w.pool, 11*time.Second)
	w.until("the write is given up", func() bool { write, _ := outcomes(); return write.RequestID == "w" })
	write, question := outcomes()
	if write.Reason != device.OutcomeUnknown || !strings.Contains(write.Result.Text, "Look first") || question.RequestID != "" {
		t.Fatalf("the write ended as %+v, the question as %+v", write, question)
	}
	pgtest.ShiftClock(t, w.pool, 22*time.Second)
	w.until("the question is given up", func() bool { _, question := outcomes(); return question.Reason == device.Offline })
}
