package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/olahol/melody"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Config is what a Gateway needs. Everything but what has a default is required.
type Config struct {
	Asker    streams.Asker
	Fanout   *fanout.Hub // runs before the gateway does, and longer
	Keys     streams.Keys
	Schema   *codec.Schema
	Events   Events
	Effects  Effects
	Runs     Runs // nil: a device is given its calls at once, whatever waited for it
	Requests Requests
	Work     Work
	Waiter   Changes
	Accounts Verifier
	// Admit refuses a user's request where too many came (*streams.Busy); nil: it never does.
	Admit   func(domain.Scope) error
	Version string
	Now     func() time.Time // default time.Now
	Log     *slog.Logger     // default slog.Default()
	Tracer  tracing.Tracer   // its zero value begins no spans
	// Metrics is where what is measured is registered, once in a process. Nil: nowhere.
	Metrics prometheus.Registerer
	// Timing is for tests that can't wait; the zero value is the protocol's.
	Timing Timing
}

// Timing are the protocol's times.
type Timing struct {
	Hello time.Duration // until device_hello came: 15 s
	Ping  time.Duration // between pings: 30 s
	Pong  time.Duration // until a ping is answered: 10 s
	Write time.Duration // until a client has taken what is written: 10 s
	Drain time.Duration // for what is in hand when the gateway stops: 5 s
	Sweep time.Duration // between looks at open calls that nothing announced: 5 s
	// Resume is how long a device's calls wait until the policy has resumed the runs that waited for it: 30 s.
	Resume time.Duration
}

func (t Timing) withDefaults() Timing {
	return Timing{
		Hello: cmp.Or(t.Hello, 15*time.Second), Ping: cmp.Or(t.Ping, 30*time.Second), Pong: cmp.Or(t.Pong, 10*time.Second),
		Write: cmp.Or(t.Write, 10*time.Second),
		Drain: cmp.Or(t.Drain, 5*time.Second), Sweep: cmp.Or(t.Sweep, 5*time.Second),
		Resume: cmp.Or(t.Resume, 30*time.Second),
	}
}

// Gateway holds the sockets. New makes one, Run makes it live.
type Gateway struct {
	Config

	id       string // of this process among the workers
	metrics  *metrics
	melody   *melody.Melody
	sessions *sessions
	sockets  gate // requests that are or will be sockets
	gate     gate // everything else that runs
	calls    *calls
	erased   string // wire name
	woken    chan struct{}
	writes   writes
	seed     maphash.Seed
	arriving [64]sync.Mutex // by device, by its hash under seed
	// awaiting counts the sockets whose device may have calls that wait for a policy.
	awaiting  atomic.Int64
	sightings sightings
	life      context.Context //nolint:containedctx // ends when Run does; what outlives a socket belongs to it
	die       context.CancelFunc
}

// New makes a gateway. Its Run must be called, and returns when all that the gateway started has stopped.
func New(c Config) *Gateway {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Timing = c.Timing.withDefaults()
	g := &Gateway{Config: c, id: "gateway-" + rand.Text(), sessions: newSessions(), calls: newCalls(), erased: erasedName(), woken: make(chan struct{}, 1), seed: maphash.MakeSeed()}
	g.melody = g.newMelody()
	g.life, g.die = context.WithCancel(context.Background())
	g.metrics = newMetrics(c.Metrics, g)
	g.Fanout.Observe(g.observe)
	g.Fanout.Join(g)
	return g
}

// Run follows the log, claims calls for the devices that are here, and drains when ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return g.touch(inner) })
	group.Go(func() error { return g.claim(inner) })
	group.Go(func() error { return g.pings(inner) })
	err := group.Wait()
	g.drain()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// bound is ctx, ended also by the gateway's end.
func (g *Gateway) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(g.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// Handler serves GET /api/v1/ws/device.
func (g *Gateway) Handler() http.Handler { return http.HandlerFunc(g.serve) }

// leave frees at once what this gateway still holds.
func (g *Gateway) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := g.Work.Leave(ctx, g.id); err != nil {
		g.Log.Warn("saying that the gateway ends failed", "error", err)
	}
}
