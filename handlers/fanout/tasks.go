package fanout

import (
	"context"
	"sync"
)

// tasks are the reads under way: short-lived goroutines that end with the hub, which waits for them.
type tasks struct {
	life context.Context //nolint:containedctx // ends when Run does
	die  context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

func (t *tasks) init() { t.life, t.die = context.WithCancel(context.Background()) }

// begin runs f on its own, unless the hub has stopped.
func (t *tasks) begin(f func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(func() { f(t.life) })
	return true
}

func (t *tasks) stop() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.die()
	t.wg.Wait()
}
