package live

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cairnhq/cairn/handlers/fanout"
)

// subscribedAtOnce is how many subscriptions a socket may have.
const subscribedAtOnce = 256

// subscription is what a socket follows. Nothing is queued for it: the writer pulls.
type subscription struct {
	id     string
	member []byte // of its frames: `"subscription":"id",`
	form   fanout.Form
	batch  bool               // several events may be in one frame
	stream bool               // one stream: its cursor is a version
	cancel context.CancelFunc // ends the asking for it
	// cursor is where the client is, once what is being written has arrived.
	cursor atomic.Uint64

	// The outbox's.
	feed   *fanout.Subscription // nil: not there yet
	queued bool
	gone   bool
	next   *subscription

	// The writer's.
	told    uint64 // the newest cursor that the client was told
	toldAt  time.Time
	telling bool // it will be told in a moment
}

// begin makes a subscription's id known, unless it is taken or there are too many.
func (o *outbox) begin(s *subscription) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, taken := o.subscriptions[s.id]; taken {
		return &refusal{code: "id_in_use", words: "this socket has a subscription with this id"}
	}
	if len(o.subscriptions) >= subscribedAtOnce {
		return &refusal{code: "busy", words: "this socket has too many subscriptions"}
	}
	if o.subscriptions == nil {
		o.subscriptions = map[string]*subscription{}
	}
	o.subscriptions[s.id] = s
	return nil
}

// follow makes a subscription one that the writer pulls from, after a frame that says so. Not ok: it has ended meanwhile.
func (o *outbox) follow(s *subscription, feed *fanout.Subscription, frame []byte) (ok, fast, start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.gone || o.shut {
		return false, true, false
	}
	s.feed = feed
	fast = o.add(frame)
	o.queue(s)
	return true, fast, o.start()
}

// ready says that a subscription may have something.
func (o *outbox) ready(s *subscription) (start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue(s)
	return o.start()
}

// queue lines a subscription up. The caller holds mu.
func (o *outbox) queue(s *subscription) {
	if s.feed == nil || s.queued || s.gone || o.shut || o.full {
		return
	}
	s.queued, s.next = true, nil
	if o.last == nil {
		o.first = s
	} else {
		o.last.next = s
	}
	o.last = s
}

// end forgets a subscription, and queues a frame that says so. Nil: there is none with this id.
func (o *outbox) end(id string, frame []byte) (ended *subscription, fast, start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.subscriptions[id]
	if s == nil {
		return nil, true, false
	}
	o.forget(s)
	fast = o.add(frame)
	return s, fast, o.start()
}

// drop forgets a subscription that has ended by itself.
func (o *outbox) drop(s *subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(s)
}

func (o *outbox) forget(s *subscription) {
	s.gone = true
	if o.subscriptions[s.id] == s {
		delete(o.subscriptions, s.id)
	}
}

// places are the subscriptions that there are, and where each is.
func (o *outbox) places() (all []*subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.subscriptions {
		if s.feed != nil {
			all = append(all, s)
		}
	}
	return all
}

// place is where a client is that has an event.
func (s *subscription) place(e *fanout.Event) uint64 {
	if s.stream {
		return e.Seq
	}
	return e.Position
}

// close ends what a subscription holds.
func (s *subscription) close() {
	s.cancel()
	if s.feed != nil {
		s.feed.Close()
	}
}
