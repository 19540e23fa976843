package fanout

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Config is what a Hub needs. Everything but what has a default is required.
type Config struct {
	Tailer streams.Tailer
	Live   streams.Live
	Events Events
	Keys   streams.Keys
	Schema *codec.Schema
	Access Access // default Owner
	// Sessions says which log-ins have ended; nil: none ever does.
	Sessions Sessions
	Log      *slog.Logger     // default slog.Default()
	Now      func() time.Time // default time.Now
	// Metrics is where what is measured is registered, once in a process. Nil: nowhere.
	Metrics prometheus.Registerer
	// Linger is how long a partition is followed after the last who needed it left: 60 s.
	Linger time.Duration
	// Look is how often it is asked which sessions have ended: 10 s.
	Look time.Duration
	// Ring is how many bytes of recent commits are kept of a partition: 16 MiB.
	Ring int
	// Most is how many events behind a subscriber of a scope may begin. 0: any number.
	Most uint64
}

// Events are the stored events (projections/events).
type Events interface {
	// Page answers the oldest events of a stream after a version, or of a scope after a position, and how far it is.
	Page(ctx context.Context, key streams.StreamKey, after uint64, limit int) (events.Page, error)
	// Run answers the events of a run.
	Run(ctx context.Context, scope domain.Scope, run string) ([]streams.Recorded, error)
}

// Access decides who may follow what.
type Access interface {
	// May answers nil, ErrNotFound, or a fault.
	May(ctx context.Context, who accounts.Principal, scope domain.Scope, stream domain.Stream) error
}

// Sessions are log-ins (accounts.Accounts).
type Sessions interface {
	// Ended answers which of them have ended.
	Ended(ctx context.Context, sessions []string) ([]string, error)
}

// Owner lets a user follow what is its own, and nobody else.
type Owner struct{}

// May implements Access.
func (Owner) May(_ context.Context, who accounts.Principal, scope domain.Scope, _ domain.Stream) error {
	if who.Scope != scope || !scope.Valid() {
		return ErrNotFound
	}
	return nil
}

// Hub is what a process follows of the log. New makes one, Run makes it live.
type Hub struct {
	Config

	metrics    *metrics
	partitions []*partition
	pages      *pages
	agents     *agents
	reads      chan struct{} // a semaphore for reads of the database
	watching   sync.Mutex    // for who sets observers
	holders    []Holder
	observers  atomic.Pointer[[]func(streams.Commit)]
	cached     context.Context //nolint:containedctx // is over: what is asked with it is answered from memory or not at all
	tasks      tasks
}

// readsAtOnce bounds the reads of the database that all subscribers of a process make.
const readsAtOnce = 8

// New makes a hub.
func New(c Config) *Hub {
	if c.Access == nil {
		c.Access = Owner{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Linger == 0 {
		c.Linger = time.Minute
	}
	if c.Look == 0 {
		c.Look = 10 * time.Second
	}
	if c.Ring == 0 {
		c.Ring = 16 << 20
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	h := &Hub{Config: c, pages: newPages(), agents: newAgents(), reads: make(chan struct{}, readsAtOnce), cached: over}
	h.tasks.init()
	for n := range c.Tailer.Partitions() {
		h.partitions = append(h.partitions, newPartition(h, n))
	}
	h.metrics = newMetrics(c.Metrics, h)
	return h
}

// Run follows what is needed until ctx ends, and returns when all that it started has stopped.
func (h *Hub) Run(ctx context.Context) error {
	defer h.tasks.stop()
	group, inner := errgroup.WithContext(ctx)
	for _, p := range h.partitions {
		group.Go(func() error { return p.run(inner) })
	}
	group.Go(func() error {
		return h.again(inner, "following provisional frames", func(ctx context.Context) error {
			return h.Live.Follow(ctx, h.frame)
		})
	})
	if h.Sessions != nil {
		group.Go(func() error { return h.look(inner) })
	}
	return group.Wait()
}

// Observe has f see every commit from now on of the partitions that are followed, in order, before anybody is told of it.
// It must not block.
func (h *Hub) Observe(f func(streams.Commit)) {
	h.watching.Lock()
	defer h.watching.Unlock()
	var observers []func(streams.Commit)
	if was := h.observers.Load(); was != nil {
		observers = slices.Clone(*was)
	}
	observers = append(observers, f)
	h.observers.Store(&observers)
}

func (h *Hub) observe(c streams.Commit) {
	if observers := h.observers.Load(); observers != nil {
		for _, f := range *observers {
			f(c)
		}
	}
}

// Hold keeps the partition of a scope followed until release is called, once.
func (h *Hub) Hold(scope domain.Scope) (release func()) {
	p := h.of(scope)
	p.hold()
	return p.release
}

// Followed waits until the partition of a scope, which somebody holds, is followed.
func (h *Hub) Followed(ctx context.Context, scope domain.Scope) error { return h.of(scope).begun(ctx) }

// Expect keeps what is provisional of a stream, which need not be there yet, for a subscription that asks for what is
// Recent, until release is called, once.
func (h *Hub) Expect(key streams.StreamKey) (release func()) {
	p := h.of(key.Scope)
	p.hold()
	t := p.pin(key)
	t.mu.Lock()
	t.frames.followers++
	t.mu.Unlock()
	return func() {
		t.mu.Lock()
		t.frames.leave()
		t.mu.Unlock()
		p.unpin(t)
		p.release()
	}
}

func (h *Hub) of(scope domain.Scope) *partition { return h.partitions[h.Tailer.PartitionOf(scope)] }

// frame hands a provisional frame to those who follow its stream.
func (h *Hub) frame(f streams.LiveFrame) {
	p := h.of(f.Scope)
	t := p.find(streams.StreamKey{Scope: f.Scope, Stream: f.Stream})
	if t == nil {
		return
	}
	for _, s := range t.take(f) {
		s.notify()
	}
}

// again does it until it succeeds or ctx ends; a fault is waited out.
func (h *Hub) again(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		h.Log.WarnContext(ctx, what+" failed, trying again", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// errStopped is what is asked of a hub whose Run has ended.
var errStopped = errors.New("fanout: the hub has stopped")

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
