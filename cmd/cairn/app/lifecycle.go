// Package app puts the parts of Cairn together in one process: which roles it plays, on which brokers and
// databases, in which order they start and stop. It decides nothing about the domain.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// lifecycle runs parts and stops them in the reverse of the order in which they started, each one's
// stop awaited before the next, so that what a part needs outlives it.
type lifecycle struct {
	log    *slog.Logger
	mu     sync.Mutex
	parts  []*part
	failed chan error
	broken atomic.Bool // see breakOff
}

// How long a part may take to stop. Then the rest is stopped without it: all that counts is in the log, as
// after a kill.
const (
	stopWithin         = 8 * time.Second
	stopPoolWithin     = 2 * time.Second // a database that hangs is not waited for
	stopWithinBroken   = time.Second
	stopPostgresWithin = 25 * time.Second // it kills the server in the end, and needs this long at most
)

type part struct {
	name   string
	within time.Duration
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func newLifecycle(log *slog.Logger) *lifecycle {
	return &lifecycle{log: log, failed: make(chan error, 1)}
}

// start runs a part until stop. A part that returns before it was asked to fails the whole.
func (l *lifecycle) start(name string, run func(context.Context) error) {
	l.startFor(name, 0, run)
}

// startFor is start for a part that may take so long to stop; zero: as long as any.
func (l *lifecycle) startFor(name string, within time.Duration, run func(context.Context) error) {
	// The part's context is not the caller's: the caller's ends all at once, and the order is the point.
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, within: within, cancel: cancel, done: make(chan struct{})}
	l.mu.Lock()
	l.parts = append(l.parts, p)
	l.mu.Unlock()
	go func() {
		defer close(p.done)
		p.err = run(ctx)
		if ctx.Err() != nil {
			return
		}
		if p.err == nil {
			p.err = errors.New("ended by itself")
		}
		l.fail(fmt.Errorf("%s: %w", name, p.err))
	}()
}

// fail ends wait. Only the first failure is told.
func (l *lifecycle) fail(err error) {
	select {
	case l.failed <- err:
	default:
	}
}

// breakOff is fail where what the parts stand on is gone: nothing that waits for it can be expected to stop, and
// nobody waits for it any more.
func (l *lifecycle) breakOff(err error) {
	l.broken.Store(true)
	l.fail(err)
}

// closing registers what must be closed when everything started after it has stopped.
func (l *lifecycle) closing(name string, closer func()) { l.closingFor(name, 0, closer) }

// closingFor is closing for what may take so long.
func (l *lifecycle) closingFor(name string, within time.Duration, closer func()) {
	l.startFor(name, within, func(ctx context.Context) error {
		<-ctx.Done()
		closer()
		return nil
	})
}

// wait returns when ctx ends (nil) or a part fails (its error).
func (l *lifecycle) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.failed:
		return err
	}
}

// stop ends every part, the last started first.
func (l *lifecycle) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.parts) - 1; i >= 0; i-- {
		p := l.parts[i]
		p.cancel()
		if !p.stopped(l.broken.Load()) {
			l.log.Warn("a part does not stop, and the rest is stopped without it", "part", p.name)
			continue
		}
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			l.log.Warn("stopped with an error", "part", p.name, "error", p.err)
		}
	}
	l.parts = nil
}

// stopped waits for the part's end, but not for ever.
func (p *part) stopped(broken bool) bool {
	within := cmp.Or(p.within, stopWithin)
	if broken && p.within == 0 {
		within = stopWithinBroken
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}
