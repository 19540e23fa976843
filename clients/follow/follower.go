package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// ErrUnauthorized ends Run: the backend refused a token that was just fetched, twice in a row.
var ErrUnauthorized = errors.New("follow: the backend refuses the token")

// ErrClosed ends Run: the backend closed the socket for good; another would be closed, too.
var ErrClosed = errors.New("follow: the backend closed the socket for good")

// Close codes that connecting again does not mend.
const (
	codeReplaced = 4001
	// codeSlow is one that it does mend.
	codeSlow = 4008
)

// Follower keeps subscriptions over one socket. Run keeps it connected; Follow may be called before and at any time.
type Follower struct {
	o Options

	mu            sync.Mutex
	socket        *socket // nil while disconnected
	subscriptions map[string]*Subscription

	connects, slow, told atomic.Uint64
}

// New checks the options.
func New(o Options) (*Follower, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	o.MinBackoff, o.MaxBackoff = cmp.Or(o.MinBackoff, 500*time.Millisecond), cmp.Or(o.MaxBackoff, 20*time.Second)
	o.Silence = cmp.Or(o.Silence, 75*time.Second)
	o.Dialer = cmp.Or(o.Dialer, &websocket.Dialer{HandshakeTimeout: 15 * time.Second, Proxy: http.ProxyFromEnvironment})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Follower{o: o, subscriptions: map[string]*Subscription{}}, nil
}

// Connects is how often it has connected; Slow how often the backend closed the socket because it was not read fast
// enough, and Told how often it announced that it would close it.
func (f *Follower) Connects() uint64 { return f.connects.Load() }

// Slow is how often the backend closed the socket because it was not read fast enough.
func (f *Follower) Slow() uint64 { return f.slow.Load() }

// Told is how often the backend said that it was about to close the socket.
func (f *Follower) Told() uint64 { return f.told.Load() }

// Follow begins a subscription, now or when Run connects. Its functions are called in Run's goroutine.
func (f *Follower) Follow(w Want) (*Subscription, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscriptions[w.ID] != nil {
		return nil, fmt.Errorf("follow: there is a subscription %s", w.ID)
	}
	s := newSubscription(f, w)
	f.subscriptions[w.ID] = s
	if f.socket != nil {
		f.socket.queue(s.subscribe())
	}
	return s, nil
}

func (f *Follower) forget(s *Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscriptions[s.want.ID] != s {
		return
	}
	delete(f.subscriptions, s.want.ID)
	if f.socket != nil {
		f.socket.queue(map[string]any{"type": "unsubscribe", "id": s.name()})
	}
}

// of is the subscription of a name on the wire, nil if that is over.
func (f *Follower) of(name string) *Subscription {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '#' {
			if s := f.subscriptions[name[:i]]; s != nil && s.name() == name {
				return s
			}
			break
		}
	}
	return nil
}

// Cut kills the socket without a word, as a lost network does. Run connects again.
func (f *Follower) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.socket != nil {
		f.socket.kill()
	}
}

// Run connects and stays connected until ctx ends, or something happens that connecting again does not mend: a *Reset
// without OnReset, a *Refusal, a *Violation, ErrUnauthorized, ErrClosed, or what a subscription's function answered.
func (f *Follower) Run(ctx context.Context) error {
	refused, backoff := 0, f.o.MinBackoff
	for {
		began := time.Now()
		err := f.session(ctx)
		var end *final
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &end):
			return end.error
		case errors.Is(err, errRefused):
			if refused++; refused > 1 {
				return ErrUnauthorized
			}
		case websocket.IsCloseError(err, websocket.ClosePolicyViolation, websocket.CloseInvalidFramePayloadData, codeReplaced):
			return fmt.Errorf("%w: %w", ErrClosed, err)
		default:
			refused = 0
		}
		if websocket.IsCloseError(err, codeSlow) {
			f.slow.Add(1)
		}
		if time.Since(began) > f.o.MaxBackoff {
			backoff = f.o.MinBackoff
		}
		// Full jitter, or the server's: one that restarts is not met by all its clients at once.
		wait := rand.N(backoff) //nolint:gosec // no secret
		var told *announced
		if errors.As(err, &told) {
			wait = told.after
			f.told.Add(1)
		}
		f.o.Log.Debug("disconnected", "device", f.o.DeviceID, "error", err, "again_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		backoff = min(2*backoff, f.o.MaxBackoff)
	}
}

// final is an error that ends Run.
type final struct{ error }

// announced is the end of a socket that the backend has announced.
type announced struct {
	error
	after time.Duration
}
