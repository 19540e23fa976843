package fanout

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// load is the read of a page for all who need it.
type load struct {
	topic   *topic
	after   uint64
	place   *streams.Checkpoint // from which on the log has what comes after; nil: not known
	waiters []*Subscription
}

// load has a subscription given the page after its cursor. The caller holds the subscription's mu.
func (s *Subscription) load() {
	if s.loading {
		return
	}
	t, h := s.topic, s.hub
	if p := h.pages.get(t.key, s.cursor); p != nil {
		s.turn(p)
		return
	}
	s.loading = true
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.loads {
		if l.after <= s.cursor && s.cursor < l.after+pageEvents {
			l.waiters = append(l.waiters, s)
			return
		}
	}
	l := &load{topic: t, after: s.cursor, place: s.place, waiters: []*Subscription{s}}
	if h.tasks.begin(l.run) {
		t.loads = append(t.loads, l)
	}
}

// run reads until it succeeds, or nobody waits for it any more.
func (l *load) run(ctx context.Context) {
	h := l.topic.partition.hub
	for ctx.Err() == nil {
		p, reset, err := h.read(ctx, l.topic, l.after, l.place)
		if err == nil {
			for _, s := range l.finish() {
				s.loaded(p, reset, l.after)
			}
			return
		}
		if ctx.Err() == nil {
			h.Log.WarnContext(ctx, "reading what a subscriber lacks failed, trying again", "stream", l.topic.key.Stream, "after", l.after, "error", err)
		}
		if l.unwanted() || pause(ctx, time.Second/2) != nil {
			return
		}
	}
}

// finish takes the load from its topic, and answers who waits for it.
func (l *load) finish() []*Subscription {
	l.topic.mu.Lock()
	defer l.topic.mu.Unlock()
	l.leave()
	return l.waiters
}

// unwanted takes the load from its topic if nobody waits for it any more. In one step: who came between the look and the
// leaving would wait for nothing.
func (l *load) unwanted() bool {
	l.topic.mu.Lock()
	defer l.topic.mu.Unlock()
	for _, s := range l.waiters {
		if !s.closed.Load() {
			return false
		}
	}
	l.leave()
	return true
}

// leave takes the load from its topic, of which the caller holds mu.
func (l *load) leave() {
	t := l.topic
	if i := slices.Index(t.loads, l); i >= 0 {
		t.loads = slices.Delete(t.loads, i, i+1)
	}
}

// read answers the page after a cursor. A page without events says that the ring has what comes after, or a reset that
// nothing can be had.
func (h *Hub) read(ctx context.Context, t *topic, after uint64, place *streams.Checkpoint) (*page, *Reset, error) {
	stored, err := h.page(ctx, t.key, after, pageEvents)
	if err != nil {
		return nil, nil, err
	}
	p := &page{key: t.key, after: after, source: sourceEvents}
	for _, r := range stored.Rows {
		e := newEvent(r, nil)
		if t.cursor(e) != after+uint64(len(p.events))+1 {
			break
		}
		h.agents.learn(e)
		p.events, p.size = append(p.events, e), p.size+e.size
		if p.size >= pageBytes {
			break
		}
	}
	switch {
	case len(p.events) > 0:
		h.pages.put(p)
		return p, nil, nil
	case after < stored.Head && pruned(t.key, after, stored.Floor):
		head, hash, known := t.newest()
		if !known || head < stored.Head {
			head, hash = stored.Head, stored.HeadHash
		}
		return nil, &Reset{Reason: Pruned, Head: head, HeadHash: hash}, nil
	case after < stored.Head:
		return nil, nil, fmt.Errorf("what is stored of %s %s has a hole after %d", t.key.Scope, t.key.Stream, after)
	}
	return h.join(ctx, t, after, stored, place)
}

func pruned(key streams.StreamKey, after, floor uint64) bool {
	if key.Stream == "" {
		return after < floor
	}
	return after+1 < floor
}

func (h *Hub) page(ctx context.Context, key streams.StreamKey, after uint64, limit int) (events.Page, error) {
	select {
	case h.reads <- struct{}{}:
		defer func() { <-h.reads }()
	case <-ctx.Done():
		return events.Page{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return h.Events.Page(ctx, key, after, limit)
}

// join goes on where what is stored ends: in the ring, or, where that begins later, in the log.
func (h *Hub) join(ctx context.Context, t *topic, after uint64, stored events.Page, place *streams.Checkpoint) (*page, *Reset, error) {
	p := t.partition
	from := stored.From
	p.mu.Lock()
	if from.Next >= p.from {
		t.establish(stored.Head, stored.HeadHash)
		p.mu.Unlock()
		if !t.reaches(after) { // to be asked again at once would be for ever
			return nil, nil, fmt.Errorf("neither what is stored of %s %s nor the ring has what comes after %d", t.key.Scope, t.key.Stream, after)
		}
		return &page{key: t.key, after: after}, nil, nil
	}
	p.mu.Unlock()
	if place != nil && place.Next > from.Next {
		from = *place
	}
	found, err := p.seeks.seek(ctx, &seek{topic: t, after: after, from: from, head: max(after, stored.Head), hash: stored.HeadHash})
	if err != nil {
		return nil, nil, err
	}
	read := &page{key: t.key, after: after, events: found, source: sourceLog}
	for _, e := range found {
		read.size += e.size
	}
	h.pages.put(read)
	return read, nil, nil
}

// know finds out where a topic stands that the ring does not know.
func (h *Hub) know(ctx context.Context, t *topic) error {
	if _, _, known := t.newest(); known {
		return nil
	}
	stored, err := h.page(ctx, t.key, math.MaxInt64, 0)
	if err != nil {
		return err
	}
	after := stored.Head
	var place *streams.Checkpoint
	for failed := 0; ; {
		if _, _, known := t.newest(); known {
			return nil
		}
		p, _, err := h.join(ctx, t, after, stored, place)
		if err != nil { // as when the partition moves: whoever subscribes need not know
			if failed++; failed == triesTail || pause(ctx, time.Second/5) != nil {
				return err
			}
			continue
		}
		if n := len(p.events); n > 0 {
			last := p.events[n-1]
			after, place = t.cursor(last), last.place
			stored.Head, stored.HeadHash = after, last.Hash
		}
	}
}
