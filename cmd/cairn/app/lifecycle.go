// Package app puts the parts of Cairn together in one process: which roles it plays, on which brokers and
// databases, in which order they start and stop. It decides nothing about the domain.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// lifecycle runs parts and stops them in the reverse of the order in which they started, each one's
// stop awaited before the next, so that what a part needs outlives it.
type lifecycle struct {
	log    *slog.Logger
	mu     sync.Mutex
	parts  []*part
	failed chan error
}

type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func newLifecycle(log *slog.Logger) *lifecycle {
	return &lifecycle{log: log, failed: make(chan error, 1)}
}

// start runs a part until stop. A part that returns before it was asked to fails the whole.
func (l *lifecycle) start(name string, run func(context.Context) error) {
	// The part's context is not the caller's: the caller's ends all at once, and the order is the point.
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
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
		select {
		case l.failed <- fmt.Errorf("%s: %w", name, p.err):
		default:
		}
	}()
}

// closing registers what must be closed when everything started after it has stopped.
func (l *lifecycle) closing(name string, closer func()) {
	l.start(name, func(ctx context.Context) error {
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
		<-p.done
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			l.log.Warn("stopped with an error", "part", p.name, "error", p.err)
		}
	}
	l.parts = nil
}
