package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/memory"
)

// stage is a log, the read model of its events in Postgres, and a hub.
type stage struct {
	t      testing.TB
	log    *logtest.Log
	tail   *trouble
	keys   *memory.Keys
	schema *codec.Schema
	pool   *pgxpool.Pool
	model  *events.Model
	stored *counted
	live   *wire
	hub    *fanout.Hub
	stop   func() // ends the hub

	mu    sync.Mutex
	chain map[streams.StreamKey][]byte
}

func newStage(t testing.TB, partitions int32, change ...func(*fanout.Config)) *stage {
	t.Helper()
	s := &stage{t: t, log: logtest.New(partitions), keys: memory.NewKeys(), schema: logtest.Schema(), pool: pgtest.Read(t),
		chain: map[streams.StreamKey][]byte{}, live: &wire{to: make(chan func(streams.LiveFrame), 1)}}
	s.tail = &trouble{Log: s.log, restart: make(chan struct{})}
	db := projections.NewDB(s.pool)
	s.model = events.New(db, events.PartitionedBy(s.log.PartitionOf))
	must(t, projections.Ensure(t.Context(), s.pool, []projections.Projector{s.model.Projector()}, 1))
	s.stored = &counted{Model: s.model}
	s.start(change...)
	return s
}

// start makes another hub on the same stage.
func (s *stage) start(change ...func(*fanout.Config)) {
	config := fanout.Config{Tailer: s.tail, Live: s.live, Events: s.stored, Keys: s.keys, Schema: s.schema, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&config)
	}
	s.hub = fanout.New(config)
	s.stop = s.background(s.hub.Run)
}

// project feeds the read model until stop is called.
func (s *stage) project() (stop func()) {
	engine := projections.NewEngine(projections.EngineConfig{Pool: s.pool, Tailer: s.log, Schema: s.schema, Lanes: 1,
		Projectors: []projections.Projector{s.model.Projector()}, Session: time.Second})
	return s.background(engine.Run)
}

// projected feeds the read model until it has all that the log has, and stops.
func (s *stage) projected(scopes ...domain.Scope) {
	s.t.Helper()
	stop := s.project()
	defer stop()
	for _, scope := range scopes {
		want := s.head(scope)
		wait(s.t, func() bool {
			head, err := s.model.Head(s.t.Context(), scope)
			must(s.t, err)
			return head.Position >= want
		})
	}
}

func (s *stage) head(scope domain.Scope) (head uint64) {
	for _, r := range s.all(streams.StreamKey{Scope: scope}) {
		head = r.Position
	}
	return head
}

// all is what the log has of a stream or a scope.
func (s *stage) all(key streams.StreamKey) (found []streams.Recorded) {
	for _, c := range s.log.Commits(s.log.PartitionOf(key.Scope)) {
		for _, r := range c.Events {
			if r.Scope == key.Scope && (key.Stream == "" || r.Stream == key.Stream) {
				found = append(found, r)
			}
		}
	}
	return found
}

func (s *stage) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	group.Go(func() error { return run(ctx) })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
				s.t.Errorf("something that ran in the background ended with: %v", err)
			}
		})
	}
	s.t.Cleanup(stop)
	return stop
}

// append appends a commit whose events are sealed and chained as a writer does it.
func (s *stage) append(scope domain.Scope, facts ...domain.Fact) streams.Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.AppendRaw(scope, func(c *streams.Commit) {
		for i := range c.Events {
			e := &c.Events[i]
			key, err := s.keys.Current(context.Background(), scope)
			must(s.t, err)
			of := streams.StreamKey{Scope: scope, Stream: e.Stream}
			r, err := s.schema.Record(key, scope, c.CommandID, i, e.Stream, e.Version, e.Position, c.DecidedAt, c.Actor, s.chain[of], facts[i].Event)
			must(s.t, err)
			r.Era, r.Place, r.CorrelationID = e.Era, e.Place, e.CorrelationID
			s.chain[of] = r.Hash
			*e = r
		}
	}, facts...)
}

// said is an event with content.
func said(stream domain.Stream, run, text string) domain.Fact {
	return domain.Fact{Stream: stream, Event: thread.MessagePosted{RunID: run, Channel: thread.Home, Content: thread.Content{Text: text}}}
}

// trouble is a log whose tails break off when restart is closed, as when a partition moves.
type trouble struct {
	*logtest.Log

	mu      sync.Mutex
	restart chan struct{}
	begun   atomic.Int64
	running atomic.Int64
}

var errMoved = errors.New("the partition moves")

func (l *trouble) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	l.begun.Add(1)
	l.running.Add(1)
	defer l.running.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.mu.Lock()
	restart := l.restart
	l.mu.Unlock()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-restart:
			cancel(errMoved)
		case <-stop:
		}
	}()
	err := l.Log.Tail(ctx, partition, from, handle)
	if errors.Is(context.Cause(ctx), errMoved) {
		return errMoved
	}
	return err
}

func (l *trouble) breakOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.restart)
	l.restart = make(chan struct{})
}

// counted is the model, and how often it was asked.
type counted struct {
	*events.Model

	pages, runs atomic.Int64
}

func (c *counted) Page(ctx context.Context, key streams.StreamKey, after uint64, limit int) (events.Page, error) {
	c.pages.Add(1)
	return c.Model.Page(ctx, key, after, limit)
}

func (c *counted) Run(ctx context.Context, scope domain.Scope, run string) ([]streams.Recorded, error) {
	c.runs.Add(1)
	return c.Model.Run(ctx, scope, run)
}

// wire carries provisional frames within the test.
type wire struct {
	to chan func(streams.LiveFrame)
}

func (w *wire) Publish(context.Context, streams.LiveFrame) error { return nil }

func (w *wire) Follow(ctx context.Context, handle func(streams.LiveFrame)) error {
	select {
	case w.to <- handle:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return ctx.Err()
}

// reader is somebody with a subscription.
type reader struct {
	sub  *fanout.Subscription
	wake chan struct{}
	got  []*fanout.Event
	live []fanout.Frame
	at   uint64
	end  *fanout.Reset
}

func (s *stage) subscribe(w fanout.Want) *reader {
	s.t.Helper()
	r, err := s.try(w)
	must(s.t, err)
	return r
}

func (s *stage) try(w fanout.Want) (*reader, error) {
	if w.Who.Scope == "" {
		w.Who = accounts.Principal{Scope: w.Scope}
	}
	r := &reader{wake: make(chan struct{}, 1)}
	sub, err := s.hub.Subscribe(s.t.Context(), w, func() {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(sub.Close)
	r.sub = sub
	return r, nil
}

// pull takes what is there once, and says whether to go on at once.
func (r *reader) pull(budget int) bool {
	p := r.sub.Pull(budget)
	r.got, r.live, r.at = append(r.got, p.Events...), append(r.live, p.Live...), p.Cursor
	if p.Reset != nil {
		r.end = p.Reset
	}
	return p.More
}

// until reads until enough.
func (r *reader) until(t testing.TB, budget int, enough func() bool) {
	t.Helper()
	late := time.NewTimer(60 * time.Second)
	defer late.Stop()
	for {
		for r.pull(budget) {
			continue
		}
		if enough() {
			return
		}
		select {
		case <-r.wake:
		case <-late.C:
			t.Fatalf("after 60 s it has %d events, and is at %d, ended: %+v", len(r.got), r.at, r.end)
		}
	}
}

func wait(t testing.TB, done func() bool) {
	t.Helper()
	late, ticker := time.NewTimer(60*time.Second), time.NewTicker(2*time.Millisecond)
	defer late.Stop()
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-late.C:
			t.Fatal("it did not come to pass in 60 s")
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func user(i int) domain.Scope { return domain.Scope(fmt.Sprintf("user-%d", i)) }
