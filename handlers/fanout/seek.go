package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cairnhq/cairn/streams"
)

// What a read of the log keeps for one that seeks, and for all.
const (
	seekBytes = 4 << 20
	seeksHold = 64 << 20
)

// seek is somebody who needs what the log has of a topic between what is stored and the ring.
type seek struct {
	topic *topic
	after uint64 // only events with a later cursor are wanted
	from  streams.Checkpoint
	// head and hash are where the topic stands if nothing of it is found.
	head uint64
	hash []byte

	events []*Event
	size   int
	err    error
	done   chan struct{}
}

// seeks is the one reader of a partition's older log, for all who seek in it.
type seeks struct {
	partition *partition

	mu      sync.Mutex
	waiting []*seek
	reading bool
}

// seek answers the topic's events from its place on, up to the ring, or fewer where they are many: at least one then.
func (q *seeks) seek(ctx context.Context, s *seek) ([]*Event, error) {
	s.done = make(chan struct{})
	q.mu.Lock()
	q.waiting = append(q.waiting, s)
	if !q.reading {
		q.reading = q.partition.hub.tasks.begin(q.run)
	}
	reading := q.reading
	q.mu.Unlock()
	if !reading {
		return nil, errStopped
	}
	select {
	case <-s.done:
		return s.events, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run reads for all who wait, until nobody does.
func (q *seeks) run(ctx context.Context) {
	for {
		r := &reading{queue: q, wants: map[streams.StreamKey][]*seek{}}
		if !r.begin() {
			return
		}
		err := q.partition.hub.Tailer.Tail(ctx, q.partition.number, r.from, func(_ context.Context, b streams.Batch) error {
			return r.take(b)
		})
		if errors.Is(err, errMet) {
			err = nil
		} else {
			err = fmt.Errorf("fanout: reading the log: %w", err)
		}
		r.end(err)
	}
}

// errMet ends a reading where nobody needs more of it.
var errMet = errors.New("fanout: the reading met the ring")

// reading is one pass over the log.
type reading struct {
	queue *seeks
	from  streams.Checkpoint
	wants map[streams.StreamKey][]*seek
	count int
	size  int
}

// begin takes all who wait, and says whether there are any.
func (r *reading) begin() bool {
	q := r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.reading = false
		return false
	}
	r.from = q.waiting[0].from
	for _, s := range q.waiting {
		if s.from.Next < r.from.Next {
			r.from = s.from
		}
		r.add(s)
	}
	q.waiting = nil
	return true
}

func (r *reading) add(s *seek) {
	r.wants[s.topic.key] = append(r.wants[s.topic.key], s)
	r.count++
}

// join takes those who came meanwhile and whose place is still ahead.
func (r *reading) join(at int64) {
	q := r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.waiting[:0]
	for _, s := range q.waiting {
		if s.from.Next >= at {
			r.add(s)
		} else {
			kept = append(kept, s)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
}

func (r *reading) take(b streams.Batch) error {
	r.join(b.From.Next)
	place := &b.From
	for i := range b.Commits {
		c := &b.Commits[i]
		for _, e := range c.Events {
			r.event(e, place, streams.StreamKey{Scope: e.Scope, Stream: e.Stream})
			r.event(e, place, streams.StreamKey{Scope: e.Scope})
		}
	}
	r.partial()
	p := r.queue.partition
	p.mu.Lock()
	met := b.Next.Next >= p.from
	if met {
		for _, seeks := range r.wants {
			for _, s := range seeks {
				s.topic.establish(s.head, s.hash)
			}
		}
	}
	p.mu.Unlock()
	if met || r.count == 0 {
		return errMet
	}
	return nil
}

func (r *reading) event(e streams.Recorded, place *streams.Checkpoint, key streams.StreamKey) {
	var made *Event
	for _, s := range r.wants[key] {
		if e.Place.Offset < s.from.Next {
			continue
		}
		if made == nil {
			made = newEvent(e, place)
			r.queue.partition.hub.agents.learn(made)
		}
		if at := s.topic.cursor(made); at == s.after+uint64(len(s.events))+1 {
			s.events, s.size = append(s.events, made), s.size+made.size
			s.head, s.hash = at, made.Hash
			r.size += made.size
		}
	}
}

// partial answers those who have much already.
func (r *reading) partial() {
	for key, seeks := range r.wants {
		kept := seeks[:0]
		for _, s := range seeks {
			if s.size > seekBytes || (r.size > seeksHold && s.size > 0) {
				r.count--
				r.size -= s.size
				close(s.done)
				continue
			}
			kept = append(kept, s)
		}
		clear(seeks[len(kept):])
		if r.wants[key] = kept; len(kept) == 0 {
			delete(r.wants, key)
		}
	}
}

// end answers the others.
func (r *reading) end(err error) {
	for _, seeks := range r.wants {
		for _, s := range seeks {
			s.err = err
			close(s.done)
		}
	}
}
