package fanout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

const (
	ringEvents = 1 << 16 // how many events a partition's ring has at most
	maxTopics  = 1 << 14 // from so many on, a topic without events and subscriptions is forgotten
	triesTail  = 5       // after so many failures without progress a tail begins anew at the end of the log
)

// partition is the one reader of a partition: its ring of recent events, and who waits for more.
type partition struct {
	hub    *Hub
	number int32
	wanted chan struct{}
	seeks  seeks

	mu     sync.Mutex
	users  int
	linger *time.Timer
	cancel context.CancelFunc // ends the tail; nil: there is none
	epoch  int                // counts the tails
	ready  chan struct{}      // closed when next is known
	next   streams.Checkpoint // everything before it is in the ring or was
	from   int64              // the ring has every commit from this offset on
	ring   []*Event
	bytes  int
	grown  atomic.Int64 // what the ring's events take beyond bytes since they were prepared
	topics map[streams.StreamKey]*topic
	moved  chan struct{} // closed when next moves; nil: nobody waits for it
	// The tail's own.
	touched  []*topic
	notified []*Subscription
}

func newPartition(h *Hub, number int32) *partition {
	p := &partition{hub: h, number: number, wanted: make(chan struct{}, 1), ready: make(chan struct{}), topics: map[streams.StreamKey]*topic{}}
	p.seeks.partition = p
	return p
}

// hold has the partition followed until release is called as often.
func (p *partition) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	if p.linger != nil {
		p.linger.Stop()
		p.linger = nil
	}
	select {
	case p.wanted <- struct{}{}:
	default:
	}
}

func (p *partition) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		p.linger = time.AfterFunc(p.hub.Linger, p.leave)
	}
}

// leave ends the tail if nobody came meanwhile.
func (p *partition) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users > 0 || p.cancel == nil {
		return
	}
	p.cancel()
	p.cancel = nil
	p.forgetAll()
	p.ready = make(chan struct{})
}

// forgetAll empties the ring. The caller holds mu.
func (p *partition) forgetAll() {
	p.epoch++
	for _, e := range p.ring {
		e.leave()
	}
	p.ring, p.bytes = nil, 0
	for key, t := range p.topics {
		if t.pins == 0 {
			delete(p.topics, key)
		}
		t.forget()
	}
}

func (p *partition) run(ctx context.Context) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.linger != nil {
			p.linger.Stop()
		}
	}()
	for {
		select {
		case <-p.wanted:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.follow(ctx)
	}
}

// follow tails the partition while anybody needs it.
func (p *partition) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	if p.users == 0 {
		p.mu.Unlock()
		return
	}
	p.cancel = cancel
	epoch := p.epoch
	p.mu.Unlock()
	for ctx.Err() == nil {
		var err error
		if epoch, err = p.begin(ctx, epoch); err != nil {
			return
		}
		for failed, at := 0, p.checkpoint().Next; failed < triesTail; failed++ {
			err := p.hub.Tailer.Tail(ctx, p.number, p.checkpoint(), func(_ context.Context, b streams.Batch) error {
				p.take(b, epoch)
				return nil
			})
			if ctx.Err() != nil {
				return
			}
			p.hub.Log.WarnContext(ctx, "following the log failed, trying again", "partition", p.number, "error", err)
			if now := p.checkpoint().Next; now != at {
				failed, at = 0, now
			}
			if pause(ctx, time.Second) != nil {
				return
			}
		}
		// What the tail needs may be gone. Everybody reads on from what is stored, to a new ring.
	}
}

// begin has a new ring begin at the end of the log, in one step: a ring that is forgotten, but still said to reach back to
// where it began, would have somebody who reads on take the end of what is stored for the end of all. Whoever follows is
// woken: what was committed since the last tail is in neither ring.
func (p *partition) begin(ctx context.Context, epoch int) (next int, err error) {
	err = p.hub.again(ctx, "finding the end of the log", func(ctx context.Context) error {
		end, err := p.hub.Tailer.Live(ctx, p.number)
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.epoch != epoch || p.cancel == nil {
			return ctx.Err()
		}
		p.forgetAll()
		next, p.next, p.from = p.epoch, end, end.Next
		for _, t := range p.topics {
			p.touched = append(p.touched, t)
		}
		select {
		case <-p.ready:
		default:
			close(p.ready)
		}
		return nil
	})
	if err == nil {
		p.wake()
	}
	return next, err
}

func (p *partition) checkpoint() streams.Checkpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// take puts a batch into the ring and wakes who waits for something of it.
func (p *partition) take(b streams.Batch, epoch int) {
	first := p.checkpoint().Next
	for _, c := range b.Commits {
		if c.Place.Offset >= first {
			p.hub.observe(c)
		}
	}
	if !p.append(b, epoch) {
		return
	}
	p.wake()
}

// wake tells those who follow what was touched. Only the tail calls it.
func (p *partition) wake() {
	p.notified = p.notified[:0]
	for i, t := range p.touched {
		p.notified = t.wake(p.notified)
		p.touched[i] = nil
	}
	p.touched = p.touched[:0]
	for i, s := range p.notified {
		s.notify()
		p.notified[i] = nil
	}
}

func (p *partition) append(b streams.Batch, epoch int) bool {
	place := &b.From
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch != epoch {
		return false
	}
	for i := range b.Commits {
		c := &b.Commits[i]
		if c.Place.Offset < p.next.Next {
			continue // a read that began again
		}
		for _, r := range c.Events {
			e := newEvent(r, place)
			p.hub.agents.learn(e)
			p.put(e)
			if r.Type == p.hub.metrics.erased {
				p.erase(r.Scope)
			}
		}
	}
	p.next = b.Next
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
	p.evict()
	return true
}

// put indexes an event by its stream and its scope. The caller holds mu.
func (p *partition) put(e *Event) {
	e.topics = [2]*topic{p.topic(streams.StreamKey{Scope: e.Scope, Stream: e.Stream}), p.topic(streams.StreamKey{Scope: e.Scope})}
	p.ring = append(p.ring, e)
	p.bytes += e.size
	e.keep(&p.grown)
	for _, t := range e.topics {
		if t.append(e) {
			p.touched = append(p.touched, t)
		}
	}
}

// evict takes the oldest commits out of a ring that is full. The caller holds mu.
func (p *partition) evict() {
	drop := 0
	for len(p.ring)-drop > ringEvents || (p.bytes+int(p.grown.Load()) > p.hub.Ring && drop < len(p.ring)) {
		e := p.ring[drop]
		p.ring[drop] = nil
		drop++
		p.bytes -= e.size
		e.leave()
		p.from = e.recorded.Place.Offset + 1 // a commit of which some are out is out
		for _, t := range e.topics {
			t.evict(e)
			p.tidy(t)
		}
	}
	p.ring = p.ring[drop:]
}

// shrink evicts what is too much since events were prepared.
func (p *partition) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.evict()
}

// erase forgets what the ring has of a scope that was erased, and ends who follows it. The caller holds mu.
func (p *partition) erase(scope domain.Scope) {
	kept := p.ring[:0:0]
	for _, e := range p.ring {
		if e.Scope != scope {
			kept = append(kept, e)
			continue
		}
		p.bytes -= e.size
		e.leave()
		p.from = e.recorded.Place.Offset + 1 // as of one that was evicted: it must be looked for in the log
		for _, t := range e.topics {
			t.evict(e)
		}
	}
	p.ring = kept
	p.hub.pages.drop(scope)
	for key, t := range p.topics {
		if key.Scope != scope {
			continue
		}
		if t.endAll(&Reset{Reason: NoAccess}) {
			p.touched = append(p.touched, t)
		}
	}
}

// topic is the index of a stream or scope. The caller holds mu.
func (p *partition) topic(key streams.StreamKey) *topic {
	t := p.topics[key]
	if t == nil {
		t = newTopic(p, key)
		p.topics[key] = t
	}
	return t
}

// pin is topic for somebody who unpins it.
func (p *partition) pin(key streams.StreamKey) *topic {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.topic(key)
	t.pins++
	return t
}

func (p *partition) unpin(t *topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.pins--
	p.tidy(t)
}

// tidy forgets a topic that is empty, where there are many. What is known of it spares a read when it is asked for again.
func (p *partition) tidy(t *topic) {
	if t.pins == 0 && len(p.topics) > maxTopics && t.empty() && p.topics[t.key] == t {
		delete(p.topics, t.key)
	}
}

func (p *partition) find(key streams.StreamKey) *topic {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics[key]
}

// begun waits until the partition is followed.
func (p *partition) begun(ctx context.Context) error {
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.hub.tasks.life.Done():
		return errStopped
	}
}

// level waits until the ring has all that the log has now.
func (p *partition) level(ctx context.Context) error {
	end, err := p.hub.Tailer.End(ctx, p.number)
	if err != nil {
		return err
	}
	for {
		p.mu.Lock()
		if p.next.Next >= end {
			p.mu.Unlock()
			return nil
		}
		if p.moved == nil {
			p.moved = make(chan struct{})
		}
		moved := p.moved
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-p.hub.tasks.life.Done():
			return errStopped
		}
	}
}

func (p *partition) subscriptions(pick func(*Subscription) bool) (found []*Subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.topics {
		found = t.pick(found, pick)
	}
	return found
}
