package effects

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cairnhq/cairn/projections/openeffects"
)

// How long an effect waits whose handler failed. The effects of a thread have deadlines of their own.
const (
	firstPause = 300 * time.Millisecond
	mostPause  = 20 * time.Second
)

// waiting is how many effects, for each slot, may wait to be tried again.
const waiting = 16

// take claims effects while there are free slots, and starts them.
func (r *Runner) take(ctx context.Context) {
	for {
		changed := r.Waiter.Changed(openeffects.Name)
		pause, freed := r.Tick, r.freed
		if free := r.free(); free > 0 {
			taken, err := r.Effects.Take(ctx, r.id, r.kinds, nil, free)
			if err != nil && ctx.Err() == nil {
				r.Log.WarnContext(ctx, "effects can't be taken", "error", err)
				pause = min(pause, time.Second)
			}
			for _, e := range taken {
				r.start(ctx, e)
			}
			if len(taken) == free {
				continue // there may be more; the next round waits if no slot is free
			}
			freed = nil // all there is was taken: a slot that becomes free brings no more
		}
		if !r.wait(ctx, changed, freed, pause) {
			return
		}
	}
}

func (r *Runner) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, min(r.Parallel-len(r.slots), r.Parallel*waiting-len(r.held)))
}

func key(e openeffects.Effect) string { return string(e.Scope) + "/" + e.ID }

func (r *Runner) start(ctx context.Context, e openeffects.Effect) {
	r.mu.Lock()
	r.held[key(e)] = e
	r.mu.Unlock()
	r.slots <- struct{}{} // free said that there is one, and only take fills them, but for those tried again
	r.wg.Go(func() { r.work(ctx, e) })
}

// work does an effect until it has an outcome or ctx ends. While it waits to be tried again it takes no slot.
func (r *Runner) work(ctx context.Context, e openeffects.Effect) {
	ctx = under(ctx, e)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		began := time.Now()
		err := r.traced(ctx, e, r.do)
		r.metrics.tried(e.Kind, time.Since(began), err)
		<-r.slots
		if err == nil {
			r.mu.Lock()
			delete(r.held, key(e))
			r.mu.Unlock()
		}
		select {
		case r.freed <- struct{}{}:
		default:
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		r.Log.WarnContext(ctx, "an effect failed and is tried again", "effect", e.ID, "kind", e.Kind, "error", err)
		if !r.wait(ctx, nil, nil, pause) {
			return
		}
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// do calls the handler. One that panics has failed; the process goes on.
func (r *Runner) do(ctx context.Context, e openeffects.Effect) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s: %v\n%s", errPanicked, e.Kind, p, debug.Stack())
		}
	}()
	return r.Kinds[e.Kind].Do(ctx, e)
}
