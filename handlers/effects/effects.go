// Package effects does the slow work that events ask for: it takes open effects, hands each to the handler
// of its kind, fires timers, and says of work that was begun and lost that its outcome is unknown. What
// comes next is never decided here; every outcome is a command.
package effects

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/handlers/effects/steps"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Handler does the effects of a kind. It returns nil when the effect has an outcome, whoever gave it, and
// an error to be called again later. It may be called twice for the same effect, also at the same time in
// two processes, and must not do harm by it.
type Handler interface {
	Do(ctx context.Context, e openeffects.Effect) error
}

// Waiter wakes when a read model may have moved.
type Waiter interface {
	Changed(model string) <-chan struct{}
}

// Config is what a runner works with.
type Config struct {
	// ID begins the worker's id; each start gets one of its own.
	ID      string
	Asker   streams.Asker
	Effects *openeffects.Model
	Timers  *timers.Model
	Work    *work.Tables
	Events  *events.Model
	Waiter  Waiter
	Schema  *codec.Schema
	Keys    streams.Keys
	Live    streams.Live
	// Kinds are the handlers; see BuiltIn.
	Kinds map[string]Handler
	// Parallel is how many handlers run at once. 0: 32.
	Parallel int
	// Tick is how often it looks without being woken. 0: 5 s.
	Tick time.Duration
	Log  *slog.Logger
	// Metrics is where what is measured is registered, once in a process. Nil: nowhere.
	Metrics prometheus.Registerer
	// Tracer begins a span for each try of an effect. Its zero value begins none.
	Tracer tracing.Tracer
}

// BuiltIn are the handlers of the kinds route, turn and server.
func BuiltIn(c Config, provider model.Provider, embedder embed.Embedder) map[string]Handler {
	source := transcript.Source{
		Events: c.Events, Schema: c.Schema, Keys: c.Keys,
		Changed: func() <-chan struct{} { return c.Waiter.Changed(events.Name) },
	}
	m := model.New(model.Config{Provider: provider, Asker: c.Asker, Source: source, Live: c.Live, Log: c.Log, Metrics: c.Metrics, Tracer: c.Tracer})
	return map[string]Handler{
		"route": m.Route(), "turn": m.Turn(),
		"server": &steps.Server{Asker: c.Asker, Source: source, Embedder: embedder, Tracer: c.Tracer},
	}
}

// Runner is one worker.
type Runner struct {
	Config
	id      string
	metrics *metrics
	kinds   []string
	slots   chan struct{} // one token for each handler that runs
	freed   chan struct{} // a hint that a token came back

	mu   sync.Mutex
	held map[string]openeffects.Effect // taken and without outcome, by scope and id
	wg   sync.WaitGroup
}

// New completes the defaults.
func New(c Config) *Runner {
	c.Parallel, c.Tick = cmp.Or(c.Parallel, 32), cmp.Or(c.Tick, 5*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	r := &Runner{
		Config: c, id: cmp.Or(c.ID, "effects") + "-" + hex.EncodeToString(id[:]), kinds: slices.Sorted(maps.Keys(c.Kinds)),
		slots: make(chan struct{}, c.Parallel), freed: make(chan struct{}, 1), held: map[string]openeffects.Effect{},
	}
	r.metrics = newMetrics(c.Metrics, r)
	return r
}

// Run works until ctx ends, and then gives back what has no outcome yet. It never fails: what can't be
// done now is tried again.
func (r *Runner) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range []func(context.Context){r.live, r.take, r.fire, r.mourn} {
		group.Go(func() error { loop(ctx); return ctx.Err() })
	}
	err := group.Wait()
	r.wg.Wait()
	r.leave(context.WithoutCancel(ctx))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("effects: %w", err)
}

// live touches the worker's row each second: without it the worker counts as dead after 10 s, and others
// take what it holds.
func (r *Runner) live(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := r.Work.Touch(ctx, r.id); err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "the worker can't show that it lives", "worker", r.id, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// leave gives the claims back at once, so that nobody waits for this worker to be dead.
func (r *Runner) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var failed error
	for _, e := range r.held {
		failed = errors.Join(failed, r.Effects.Release(ctx, r.id, e.Scope, e.ID))
	}
	if failed = errors.Join(failed, r.Work.Leave(ctx, r.id)); failed != nil {
		r.Log.Warn("giving back claims failed; others take them in 10 s", "worker", r.id, "error", failed)
	}
}

// wait waits for a change, a hint, the tick, or the end. It answers false at the end.
func (r *Runner) wait(ctx context.Context, changed <-chan struct{}, hint <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-hint:
	case <-timer.C:
	}
	return ctx.Err() == nil
}
