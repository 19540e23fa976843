package fanout

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Subscription is a cursor into what is committed of a stream or a scope. It keeps at most one page.
type Subscription struct {
	hub   *Hub
	topic *topic
	want  Want
	head  uint64
	index int // in the topic's list; guarded by the topic's mu

	notify    func()
	signalled atomic.Bool // notify was called, and Pull was not since
	closed    atomic.Bool
	reset     atomic.Pointer[Reset]

	mu      sync.Mutex
	over    bool   // the reset was told
	cursor  uint64 // everything up to it was given
	rest    []*Event
	source  string
	place   *streams.Checkpoint // from which on the log has what comes after the cursor; nil: not known
	check   []byte              // what the hash of the next event must be, which is not given
	loading bool
	asking  bool   // which agent answers a run
	frames  uint64 // the number of the next provisional frame
}

// Subscribe follows a stream or a scope of somebody. It may wait for reads of the database and of the log, where the ring
// does not know what is asked for; for a projector it never waits. Errors: ErrNotFound, a fault of the database, ctx's.
//
// Notify is called when Pull may have more, from any goroutine, once until the next Pull; it must not block. It is not
// called for what is there already: Pull once at first.
func (h *Hub) Subscribe(ctx context.Context, w Want, notify func()) (*Subscription, error) {
	if err := h.Access.May(ctx, w.Who, w.Scope, w.Stream); err != nil {
		return nil, err
	}
	if w.Stream != "" && !w.Stream.Valid() {
		return nil, ErrNotFound
	}
	w.Filter.Types = slices.Clone(w.Filter.Types)
	p := h.of(w.Scope)
	p.hold()
	s, err := h.subscribe(ctx, p, w, notify)
	if err != nil {
		p.release()
	}
	return s, err
}

func (h *Hub) subscribe(ctx context.Context, p *partition, w Want, notify func()) (*Subscription, error) {
	if err := p.begun(ctx); err != nil {
		return nil, err
	}
	t := p.pin(streams.StreamKey{Scope: w.Scope, Stream: w.Stream})
	s := &Subscription{hub: h, topic: t, want: w, notify: notify, cursor: w.From.after}
	if err := s.begin(ctx); err != nil {
		p.unpin(t)
		return nil, err
	}
	return s, nil
}

// begin finds the place of a new subscription.
func (s *Subscription) begin(ctx context.Context) error {
	if err := s.hub.know(ctx, s.topic); err != nil {
		return err
	}
	head, hash, _ := s.topic.newest()
	if s.want.From.set && s.want.From.after > head || head == 0 && s.want.Stream != "" {
		// Whoever asks may have seen more than the tail here has.
		if err := s.topic.partition.level(ctx); err != nil {
			return err
		}
		if head, hash, _ = s.topic.newest(); head == 0 && s.want.Stream != "" {
			return ErrNotFound
		}
	}
	s.topic.add(s)
	if !s.want.From.set {
		// What comes from here on wakes it, so that nothing is between head and the cursor.
		head, hash, _ = s.topic.newest()
		s.cursor = head
	}
	s.head = head
	switch after := s.want.From.after; {
	case !s.want.From.set:
	case after > head:
		s.reset.Store(&Reset{Reason: BeyondHead, Head: head, HeadHash: hash})
	case s.want.Stream == "" && s.hub.Most > 0 && head-after > s.hub.Most:
		s.reset.Store(&Reset{Reason: TooOld, Head: head, HeadHash: hash})
	case len(s.want.AfterHash) > 0:
		s.verify(after)
	}
	return nil
}

// verify holds the hash of the event at the cursor against what the subscriber has.
func (s *Subscription) verify(after uint64) {
	hash := s.topic.hash(after)
	if after == 0 {
		if hash = nil; s.want.Stream != "" {
			hash = codec.Genesis(s.want.Stream)
		}
	} else if hash == nil {
		s.check, s.cursor = s.want.AfterHash, after-1 // the page tells
		return
	}
	if hash != nil && !same(hash, s.want.AfterHash) {
		s.otherHash()
	}
}

func (s *Subscription) otherHash() {
	head, hash, _ := s.topic.newest()
	s.reset.CompareAndSwap(nil, &Reset{Reason: OtherHash, Head: head, HeadHash: hash})
}

// Head is the newest version, or position, when it was subscribed.
func (s *Subscription) Head() uint64 { return s.head }

// Close ends it. Notify may be called once more by who began to before.
func (s *Subscription) Close() {
	if s.closed.Swap(true) {
		return
	}
	s.topic.remove(s)
	p := s.topic.partition
	p.unpin(s.topic)
	p.release()
}

// end has the subscription told that it has ended.
func (s *Subscription) end(r *Reset) {
	s.reset.CompareAndSwap(nil, r)
	s.signal()
}

func (s *Subscription) signal() {
	if !s.closed.Load() && s.signalled.CompareAndSwap(false, true) {
		s.notify()
	}
}

// loaded takes the page that was read, or the reason why what comes after a cursor can't be had. Who is further on and only
// shared the read asks again for itself.
func (s *Subscription) loaded(p *page, reset *Reset, after uint64) {
	s.mu.Lock()
	s.loading = false
	if p != nil {
		s.turn(p)
	}
	switch {
	case reset == nil || s.cursor != after:
	case reset.Reason == Pruned && s.check != nil:
		s.check, s.cursor = nil, s.cursor+1 // what was pruned is the event that the subscriber has, and perhaps no later one
	default:
		s.reset.CompareAndSwap(nil, reset)
	}
	s.mu.Unlock()
	s.signal()
}

// turn takes what a page has after the cursor.
func (s *Subscription) turn(p *page) {
	if p.has(s.cursor) && len(s.rest) == 0 {
		s.rest, s.source = slices.Clone(p.events[s.cursor-p.after:]), p.source // its own: what was given is not kept
	}
}
