package live_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/memory"
)

// ring is everything but the model: a broker, a writer, Postgres, projectors, and the gateway. The test
// plays the workers.
type ring struct {
	*core

	t       testing.TB
	gateway *live.Gateway
	server  *httptest.Server
	stop    func() // stops the gateway
}

// core is what several gateways and tests share.
type core struct {
	pool           *pgxpool.Pool
	schema         *codec.Schema
	document       *document
	keys           *memory.Keys
	asker          *kafka.Asker
	live           *kafka.Live
	tailer         *kafka.Tailer
	events         *events.Model
	waiter         *projections.Waiter
	project        func() // runs the projectors
	stopProjecting func()

	mu   sync.Mutex
	seen []seen
	more chan struct{} // closed when seen grows
}

// seen is an event of the log, opened.
type seen struct {
	streams.Recorded

	event any
}

// tokens are who may come in: "token-NAME" is the user NAME.
type tokens struct{}

func (tokens) Verify(token string) (accounts.Principal, error) {
	name, ok := strings.CutPrefix(token, "token-")
	if !ok {
		return accounts.Principal{}, accounts.ErrToken
	}
	return accounts.Principal{UserID: name, Scope: domain.User(name)}, nil
}

func (v tokens) Redeem(_ context.Context, ticket string) (accounts.Principal, error) {
	return v.Verify(strings.Replace(ticket, "ticket-", "token-", 1))
}

func newRing(t testing.TB, timing live.Timing) *ring {
	t.Helper()
	schema, err := codec.New(aggregates.All()...)
	check(t, err)
	config := kafkatest.Broker(t)
	check(t, config.Ensure(t.Context()))
	r := &ring{t: t, core: &core{pool: pgtest.Read(t), schema: schema, document: readDocument(t), keys: memory.NewKeys(), more: make(chan struct{})}}
	states := memory.NewStates()
	writer, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: r.keys, States: states, Now: time.Now})
	check(t, err)
	r.asker, err = kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: r.keys, States: states})
	check(t, err)
	r.tailer, err = kafka.NewTailer(config)
	check(t, err)
	t.Cleanup(r.tailer.Close)
	r.live, err = kafka.NewLive(config, r.keys)
	check(t, err)
	t.Cleanup(r.live.Close)
	r.events = events.New(projections.NewDB(r.pool), events.PartitionedBy(r.tailer.PartitionOf))
	r.waiter = projections.NewWaiter(r.pool)
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: r.pool, Tailer: r.tailer, Schema: schema,
		Projectors: []projections.Projector{r.events.Projector(), openeffects.New(projections.NewDB(r.pool)).Projector(),
			requests.New(projections.NewDB(r.pool)).Projector()},
	})
	r.background(writer.Run)
	r.background(r.asker.Run)
	r.project = func() { r.stopProjecting = r.background(engine.Run) }
	r.background(r.waiter.Run)
	r.background(r.record)
	r.project()
	check(t, r.asker.Ready(t.Context()))
	return r.start(timing)
}

// in is the same ring for a subtest.
func (r *ring) in(t testing.TB) *ring {
	return &ring{core: r.core, t: t, gateway: r.gateway, server: r.server, stop: r.stop}
}

// background runs something until the test ends, and waits for it.
func (r *ring) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	group.Go(func() error { return run(ctx) })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
				r.t.Errorf("something that ran in the background ended with: %v", err)
			}
		})
	}
	r.t.Cleanup(stop)
	return stop
}

// start starts a gateway on the ring; stop ends it as a deployment would.
func (r *ring) start(timing live.Timing) *ring {
	if timing.Sweep == 0 {
		timing.Sweep = 200 * time.Millisecond
	}
	r = r.in(r.t)
	r.gateway = live.New(live.Config{
		Asker: r.asker, Fanout: r.fanout(), Keys: r.keys, Schema: r.schema, Events: r.events,
		Effects: openeffects.New(projections.NewDB(r.pool)), Requests: requests.New(projections.NewDB(r.pool)), Work: work.New(r.pool), Waiter: r.waiter, Accounts: tokens{},
		Version: "test", Timing: timing, Log: slog.New(slog.DiscardHandler),
	})
	stop := r.background(r.gateway.Run)
	server := httptest.NewServer(r.gateway.Handler())
	r.server = server
	r.stop = func() { stop(); server.Close() }
	r.t.Cleanup(r.stop)
	return r
}

// fanout is a hub of its own, which outlives the gateway that is made with it.
func (r *ring) fanout() *fanout.Hub {
	hub := fanout.New(fanout.Config{Tailer: r.tailer, Live: r.live, Events: r.events, Keys: r.keys, Schema: r.schema, Log: slog.New(slog.DiscardHandler)})
	r.background(hub.Run)
	return hub
}

// record keeps every event of the log.
func (r *ring) record(ctx context.Context) error {
	return r.tailer.Tail(ctx, 0, streams.Start(), func(ctx context.Context, b streams.Batch) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range b.Commits {
			for _, e := range c.Events {
				event, err := r.schema.Open(ctx, r.keys, e)
				if err != nil {
					return err
				}
				r.seen = append(r.seen, seen{e, event})
			}
		}
		close(r.more)
		r.more = make(chan struct{})
		return nil
	})
}

// await waits for an event that fits.
func await[E any](r *ring, fits func(E) bool) (E, streams.Recorded) {
	r.t.Helper()
	late := time.After(15 * time.Second)
	for {
		r.mu.Lock()
		more := r.more
		for _, s := range r.seen {
			if e, ok := s.event.(E); ok && fits(e) {
				r.mu.Unlock()
				return e, s.Recorded
			}
		}
		r.mu.Unlock()
		select {
		case <-more:
		case <-late:
			var e E
			r.t.Fatalf("no %T came that fits", e)
		}
	}
}

// count is how many events fit now.
func count[E any](r *ring, fits func(E) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if e, ok := s.event.(E); ok && fits(e) {
			n++
		}
	}
	return n
}

// conversation is a run that the test plays the workers of.
type conversation struct {
	r      *ring
	scope  domain.Scope
	thread string
	run    string
}

// of is the run of a request.
func (r *ring) of(user, request string) *conversation {
	command := streams.CommandID(domain.User(user), request)
	return &conversation{r: r, scope: domain.User(user), thread: streams.Derive(command, "thread"), run: streams.Derive(command, "run")}
}

func (c *conversation) ask(body domain.Command) error {
	_, err := c.r.asker.Ask(c.r.t.Context(), streams.Command{
		Scope: c.scope, ID: uuid.NewString(), Actor: domain.Actor{Kind: domain.ActorWorker, ID: "test"}, Body: body,
	})
	return err
}

func (c *conversation) must(body domain.Command) {
	c.r.t.Helper()
	check(c.r.t, c.ask(body))
}

// route waits until the run asks who answers, and says so.
func (c *conversation) route(agent string) {
	c.r.t.Helper()
	await(c.r, func(e thread.RouteRequested) bool { return e.RunID == c.run })
	c.must(thread.DecideRoute{On: thread.On{Thread: c.thread}, RunID: c.run, Attempt: 1, Agent: agent})
}

// turn completes a turn, with calls or without.
func (c *conversation) turn(turn, attempt int, text string, plans ...planned) {
	c.r.t.Helper()
	await(c.r, func(e thread.TurnRequested) bool { return e.RunID == c.run && e.Turn == turn && e.Attempt == attempt })
	command := thread.CompleteTurn{
		On: thread.On{Thread: c.thread}, RunID: c.run, Turn: turn, Attempt: attempt, Model: "test", FinishReason: "stop",
		Content: thread.PlannedTurn{Text: text},
	}
	for _, p := range plans {
		command.Plans = append(command.Plans, p.Plan)
		command.Content.Calls = append(command.Content.Calls, thread.TurnCall{ModelID: "m", Tool: p.Tool, Arguments: "{}"})
		command.Content.Payloads = append(command.Content.Payloads, thread.Payload{Fields: []byte(p.fields)})
	}
	c.must(command)
}

// say publishes a provisional text.
func (c *conversation) say(turn, attempt, n, offset int, text string) {
	c.r.t.Helper()
	check(c.r.t, c.r.live.Publish(c.r.t.Context(), streams.LiveFrame{
		Scope: c.scope, Stream: domain.NewStream("thread", c.thread), RunID: c.run, Turn: turn, Attempt: attempt, N: n,
		Kind: "text", Offset: offset, Text: text,
	}))
}

type planned struct {
	thread.Plan

	fields string
}

func insertTask() planned {
	return planned{thread.Plan{Tool: "create_task", Executor: thread.OnDevice, Action: "insert", Table: "tasks"}, `{"data":{"title":"Buy milk"}}`}
}

func selectTasks() planned {
	return planned{thread.Plan{Tool: "list_tasks", Executor: thread.OnDevice, Action: "select", Table: "tasks", Repeatable: true}, `{"filters":{"status":"todo"}}`}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
