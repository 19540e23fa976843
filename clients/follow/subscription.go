package follow

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Subscription is one that a Follower keeps.
type Subscription struct {
	follower *Follower
	want     Want
	round    int // how often it was asked for; guarded by the follower's mu

	// Only Run's goroutine uses it.
	chains map[string]link

	mu     sync.Mutex
	place  Place
	placed bool // the place is known
	head   uint64
	moved  chan struct{} // closed when the place moves

	counts struct{ events, duplicates, holes, resets atomic.Uint64 }
}

// Counts are what a subscription has met.
type Counts struct {
	Events uint64
	// Duplicates came again and were not handed on; Holes were met and filled by asking again. A backend that keeps its
	// promises sends neither.
	Duplicates, Holes uint64
	Resets            uint64
}

// Counts are what it has met so far.
func (s *Subscription) Counts() Counts {
	return Counts{s.counts.events.Load(), s.counts.duplicates.Load(), s.counts.holes.Load(), s.counts.resets.Load()}
}

// Place is the last that was taken; ok is false while a subscription from now on has not begun.
func (s *Subscription) Place() (p Place, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place, s.placed
}

// Head is the newest seq or position that the backend had when it was last subscribed.
func (s *Subscription) Head() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

// Reached waits until the cursor is at least so far.
func (s *Subscription) Reached(ctx context.Context, cursor uint64) error {
	return s.until(ctx, func() bool { return s.placed && s.place.Cursor >= cursor })
}

// Begun waits until its place is known.
func (s *Subscription) Begun(ctx context.Context) error {
	return s.until(ctx, func() bool { return s.placed })
}

func (s *Subscription) until(ctx context.Context, there func() bool) error {
	for {
		s.mu.Lock()
		done, moved, at := there(), s.moved, s.place.Cursor
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("follow: %s is at %d: %w", s.want.ID, at, context.Cause(ctx))
		}
	}
}

// Close ends the subscription. What is being handed on meanwhile still is.
func (s *Subscription) Close() { s.follower.forget(s) }

func newSubscription(f *Follower, w Want) *Subscription {
	w.Types = slices.Clone(w.Types)
	s := &Subscription{follower: f, want: w, moved: make(chan struct{})}
	if w.From != nil {
		s.place, s.placed = *w.From, true
	}
	s.anew()
	return s
}

// anew forgets the chains but for what the place says.
func (s *Subscription) anew() {
	s.chains = map[string]link{}
	if s.want.Stream != "" && s.placed {
		if hash, err := hex.DecodeString(s.place.Hash); err == nil && len(hash) > 0 {
			s.chains[s.want.Stream] = link{s.place.Cursor, hash}
		}
	}
}

// name is that of its round on the wire: what an earlier one still brings is known by it.
func (s *Subscription) name() string { return fmt.Sprintf("%s#%d", s.want.ID, s.round) }

// subscribe is the frame that asks for it, from where it is.
func (s *Subscription) subscribe() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	f := map[string]any{"type": "subscribe", "id": s.name()}
	if s.want.Stream != "" {
		f["stream"] = s.want.Stream
	} else {
		f["scope"] = s.want.Scope
	}
	if s.placed {
		f["after"] = s.place.Cursor
		if s.place.Hash != "" {
			f["after_hash"] = s.place.Hash
		}
	}
	if s.want.Proof == Verified {
		f["stored"] = true
	}
	filter := map[string]any{}
	if s.want.AgentID != "" {
		filter["agent_id"] = s.want.AgentID
	}
	if len(s.want.Types) > 0 {
		filter["types"] = s.want.Types
	}
	if len(filter) > 0 {
		f["filter"] = filter
	}
	return f
}

// begin takes a `subscribed` frame.
func (s *Subscription) begin(head uint64) {
	s.mu.Lock()
	s.head = head
	placed := s.placed
	s.mu.Unlock()
	if !placed {
		s.move(Place{Cursor: head})
	}
}

// move says that everything up to p was taken.
func (s *Subscription) move(p Place) {
	s.mu.Lock()
	s.place, s.placed = p, true
	s.wake()
	s.mu.Unlock()
	if s.want.OnPlace != nil {
		s.want.OnPlace(p)
	}
}

// wake tells those who wait. The caller holds mu.
func (s *Subscription) wake() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// take takes an event. whole is false where something is missing before it: nothing of the event was taken.
func (s *Subscription) take(e Event) (whole bool, err error) {
	at := e.Position
	if s.want.Stream != "" {
		at = e.Seq
	}
	here, _ := s.Place()
	if at <= here.Cursor {
		s.counts.duplicates.Add(1)
		return true, nil
	}
	if !s.want.filtered() && at != here.Cursor+1 {
		s.counts.holes.Add(1)
		return false, nil
	}
	if why := s.judge(e); why != "" {
		return true, &Violation{s.want.ID, e.Stream, e.Seq, e.Position, why}
	}
	if err := s.want.OnEvent(e); err != nil {
		return true, err
	}
	s.counts.events.Add(1)
	s.move(Place{at, e.Hash})
	return true, nil
}

// judge says why an event can't be what comes next of its stream, or "".
func (s *Subscription) judge(e Event) string {
	if s.want.Stream != "" && e.Stream != s.want.Stream {
		return "is of a stream that was not asked for"
	}
	if len(s.want.Types) > 0 && !slices.Contains(s.want.Types, e.Type) {
		return "is a " + e.Type + ", and only " + strings.Join(s.want.Types, ", ") + " were asked for"
	}
	prev, known := s.chains[e.Stream]
	if !known && e.Seq == 1 {
		prev, known = genesis(e.Stream), true
	}
	switch {
	case known && e.Seq <= prev.seq:
		return fmt.Sprintf("comes after version %d", prev.seq)
	case known && e.Seq != prev.seq+1 && !s.want.filtered():
		return fmt.Sprintf("comes after version %d", prev.seq)
	case !known && s.complete():
		return "is the first of its stream that came"
	}
	next := link{seq: e.Seq}
	if s.want.Proof == Verified {
		before := &prev
		if !known || e.Seq != prev.seq+1 {
			before = nil
		}
		var why string
		if next, why = follows(before, e); why != "" {
			return why
		}
	}
	s.chains[e.Stream] = next
	return ""
}

// complete says that all events from the first on were asked for.
func (s *Subscription) complete() bool {
	return !s.want.filtered() && s.want.From != nil && s.want.From.Cursor == 0 && s.counts.resets.Load() == 0
}

// over takes a frame's cursor: it moves over what the filter left out.
func (s *Subscription) over(cursor uint64) (whole bool) {
	here, _ := s.Place()
	switch {
	case cursor <= here.Cursor:
		return true
	case !s.want.filtered():
		s.counts.holes.Add(1)
		return false
	}
	s.move(Place{Cursor: cursor})
	return true
}

// restart takes a reset.
func (s *Subscription) restart(r Reset) error {
	s.counts.resets.Add(1)
	if s.want.OnReset == nil {
		return &r
	}
	p, err := s.want.OnReset(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.place, s.placed = p, true
	s.wake()
	s.mu.Unlock()
	s.anew()
	return nil
}
