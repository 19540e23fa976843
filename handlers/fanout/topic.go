package fanout

import (
	"bytes"
	"sync"

	"github.com/cairnhq/cairn/streams"
)

// topic is what the ring has of one stream, or of one scope, and who follows it.
type topic struct {
	partition *partition
	key       streams.StreamKey
	pins      int // guarded by the partition's mu

	mu sync.RWMutex
	// known: all events after floor are in events. Else nothing is known but what pages say.
	known     bool
	floor     uint64
	floorHash []byte // of the event at floor; nil: not known
	events    []*Event
	subs      []*Subscription
	loads     []*load
	opening   []*Subscription // wait for a key; nil: nobody fetches one
	frames    frames
}

func newTopic(p *partition, key streams.StreamKey) *topic { return &topic{partition: p, key: key} }

// cursor is an event's place in the topic.
func (t *topic) cursor(e *Event) uint64 {
	if t.key.Stream == "" {
		return e.Position
	}
	return e.Seq
}

// append adds the next event, and reports whether anybody follows the topic.
func (t *topic) append(e *Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.cursor(e)
	switch {
	case !t.known:
		t.known, t.floor, t.floorHash = true, at-1, nil
	case at <= t.head():
		return false
	case at != t.head()+1: // what lies between is read from what is stored
		t.events, t.floor, t.floorHash = nil, at-1, nil
	}
	t.events = append(t.events, e)
	t.frames.ends(e, t.partition.hub.Schema)
	return len(t.subs) > 0
}

func (t *topic) evict(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) > 0 && t.events[0] == e {
		t.floor, t.floorHash = t.cursor(e), e.Hash
		t.events[0] = nil
		t.events = t.events[1:]
		if len(t.events) == 0 {
			t.events = nil
		}
	}
}

// establish says where a topic of which the ring has nothing stands.
func (t *topic) establish(head uint64, hash []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		t.known, t.floor, t.floorHash = true, head, hash
	}
}

// reaches reports whether the ring has all that comes after a cursor.
func (t *topic) reaches(cursor uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return !t.known || cursor >= t.floor
}

func (t *topic) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.events, t.floor, t.floorHash = false, nil, 0, nil
}

// head is the newest cursor. The caller holds mu, and the topic is known.
func (t *topic) head() uint64 { return t.floor + uint64(len(t.events)) }

// newest is the head and its hash, if the topic is known.
func (t *topic) newest() (head uint64, hash []byte, known bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.top()
}

func (t *topic) top() (head uint64, hash []byte, known bool) {
	if n := len(t.events); n > 0 {
		hash = t.events[n-1].Hash
	} else {
		hash = t.floorHash
	}
	return t.head(), hash, t.known
}

// hash is that of the event at a cursor, nil if the ring does not know it.
func (t *topic) hash(cursor uint64) []byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case !t.known || cursor < t.floor || cursor > t.head():
		return nil
	case cursor == t.floor:
		return t.floorHash
	}
	return t.events[cursor-t.floor-1].Hash
}

// after copies what the ring has after a cursor; false: the ring does not reach back to it.
func (t *topic) after(cursor uint64, into []*Event) (n int, more, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.known || cursor < t.floor {
		return 0, false, false
	}
	skip := cursor - t.floor
	if skip >= uint64(len(t.events)) {
		return 0, false, true
	}
	rest := t.events[skip:]
	n = copy(into, rest)
	return n, len(rest) > n, true
}

func (t *topic) add(s *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.index = len(t.subs)
	t.subs = append(t.subs, s)
	s.frames = t.frames.end()
	if s.want.Live == Recent {
		s.frames = t.frames.first
	}
	if s.want.Live != Committed {
		t.frames.followers++
	}
}

func (t *topic) remove(s *Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.subs) - 1
	t.subs[s.index] = t.subs[last]
	t.subs[s.index].index = s.index
	t.subs[last] = nil
	t.subs = t.subs[:last]
	if s.want.Live != Committed {
		t.frames.leave()
	}
}

// wake adds those who must be told that there is more.
func (t *topic) wake(to []*Subscription) []*Subscription {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.subs {
		if s.signalled.CompareAndSwap(false, true) {
			to = append(to, s)
		}
	}
	return to
}

// take keeps a provisional frame, and answers those who must be told of it.
func (t *topic) take(f streams.LiveFrame) (wake []*Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frames.followers == 0 {
		return nil
	}
	t.frames.add(f)
	for _, s := range t.subs {
		if s.want.Live != Committed && s.signalled.CompareAndSwap(false, true) {
			wake = append(wake, s)
		}
	}
	return wake
}

func (t *topic) endAll(r *Reset) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.subs {
		s.reset.CompareAndSwap(nil, r)
	}
	return len(t.subs) > 0
}

func (t *topic) empty() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.events) == 0 && len(t.subs) == 0
}

func (t *topic) pick(found []*Subscription, pick func(*Subscription) bool) []*Subscription {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, s := range t.subs {
		if pick(s) {
			found = append(found, s)
		}
	}
	return found
}

func same(a, b []byte) bool { return bytes.Equal(a, b) }
