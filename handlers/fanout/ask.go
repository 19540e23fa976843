package fanout

import (
	"context"
	"math"
	"time"

	"github.com/cairnhq/cairn/streams"
)

// ask finds out which agent answers a run that the tail has not met. The caller holds the subscription's mu.
func (s *Subscription) ask(run string) {
	if s.asking {
		return
	}
	s.asking = s.hub.tasks.begin(func(ctx context.Context) {
		for ctx.Err() == nil && !s.closed.Load() {
			err := s.hub.lookUp(ctx, runKey{s.want.Scope, run})
			if err == nil {
				break
			}
			s.hub.Log.WarnContext(ctx, "asking which agent answers a run failed, trying again", "run", run, "error", err)
			_ = pause(ctx, time.Second/2) // ctx is looked at above
		}
		s.mu.Lock()
		s.asking = false
		s.mu.Unlock()
		s.signal()
	})
}

// lookUp learns who answers a run, from what is stored and from the log between that and the ring. What the ring has was
// learnt when it came.
func (h *Hub) lookUp(ctx context.Context, key runKey) error {
	if _, ok := h.agents.of(key); ok {
		return nil
	}
	rows, err := h.Events.Run(ctx, key.scope, key.run)
	if err != nil {
		return err
	}
	for _, r := range rows {
		h.agents.learn(newEvent(r, nil))
	}
	if _, ok := h.agents.of(key); ok {
		return nil
	}
	p := h.of(key.scope)
	t := p.pin(streams.StreamKey{Scope: key.scope})
	defer p.unpin(t)
	stored, err := h.page(ctx, t.key, math.MaxInt64, 0)
	if err != nil {
		return err
	}
	from, after := stored.From, stored.Head
	for {
		p.mu.Lock()
		met := from.Next >= p.from
		p.mu.Unlock()
		if met {
			break
		}
		found, err := p.seeks.seek(ctx, &seek{topic: t, after: after, from: from, head: after, hash: stored.HeadHash})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			break
		}
		last := found[len(found)-1]
		after, from, stored.HeadHash = last.Position, *last.place, last.Hash
	}
	h.agents.set(key, answered{})
	return nil
}
