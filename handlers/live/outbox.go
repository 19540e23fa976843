package live

import "sync"

// What may wait for a client beside what it subscribed to, which waits nowhere. One that is slower is closed: it is never
// fed less.
const (
	outboxFrames = 8192
	outboxBytes  = 24 << 20
)

// outbox is what is to be written to one client: frames that are queued, and subscriptions that may have something. It has
// one writer, who runs only while there is something. What begins a writer where none runs answers start: true.
type outbox struct {
	mu      sync.Mutex
	writing bool // a writer runs, or none may yet
	frames  [][]byte
	bytes   int
	ping    bool
	full    bool // the client is too slow, and will be cut off
	shut    bool // nothing more is taken
	over    bool // the writer has ended for good, or has nobody to write to

	subscriptions map[string]*subscription
	first, last   *subscription // those that may have something, linked by next
}

// newOutbox is an outbox that nobody writes from until it is opened.
func newOutbox() outbox { return outbox{writing: true} }

// open begins the writing.
func (o *outbox) open() (start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	return o.start()
}

// start says whether a writer must begin. The caller holds mu.
func (o *outbox) start() bool {
	if o.writing || o.over || !o.shut && !o.ping && len(o.frames) == 0 && o.first == nil {
		return false
	}
	o.writing = true
	return true
}

// push queues a frame. Not ok: the client has become too slow, and everything queued is gone.
func (o *outbox) push(frame []byte) (ok, start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ok = o.add(frame)
	return ok, o.start()
}

// add queues a frame. The caller holds mu.
func (o *outbox) add(frame []byte) bool {
	if o.shut || o.full {
		return true
	}
	if len(o.frames) >= outboxFrames || o.bytes+len(frame) > outboxBytes {
		o.empty()
		o.full = true
		return false
	}
	o.frames = append(o.frames, frame)
	o.bytes += len(frame)
	return true
}

// empty drops what is queued. The caller holds mu.
func (o *outbox) empty() {
	o.frames, o.bytes, o.ping = nil, 0, false
	for s := o.first; s != nil; {
		s.queued = false
		s, s.next = s.next, nil
	}
	o.first, o.last = nil, nil
}

// pinged has the client pinged, unless the last ping has not left yet.
func (o *outbox) pinged() (start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ping = !o.shut
	return o.start()
}

// close takes nothing more; what is queued still leaves.
func (o *outbox) close() (start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut = true
	return o.start()
}

// cut takes nothing more, and drops what is queued.
func (o *outbox) cut() (start bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.empty()
	o.shut = true
	return o.start()
}

// stop ends all writing, and answers the subscriptions that there were.
func (o *outbox) stop() (left []*subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.empty()
	o.shut, o.over = true, true
	for _, s := range o.subscriptions {
		left = append(left, s)
	}
	o.subscriptions = nil
	return left
}

// due is what is to be written next.
type due struct {
	frames [][]byte
	ping   bool
	first  *subscription // one that may have something; pop answers others
	last   bool          // the outbox is closed, and what was queued has been taken
}

// take answers what is to be written next, frames of about so many bytes. Not more: the writer ends, and begins anew when
// there is something.
func (o *outbox) take(atMost int) (d due, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, n := 0, 0
	for n < len(o.frames) && (n == 0 || size+len(o.frames[n]) <= atMost) {
		size += len(o.frames[n])
		n++
	}
	d.frames, d.ping, o.ping = o.frames[:n:n], o.ping, false
	if o.frames, o.bytes = o.frames[n:], o.bytes-size; len(o.frames) == 0 {
		o.frames = nil
	}
	d.first = o.next()
	if n > 0 || d.ping || d.first != nil {
		return d, true
	}
	d.last = o.shut
	o.writing, o.over = o.shut, o.over || o.shut
	return d, false
}

// pop is the next subscription that may have something, nil if there is none, or if something must leave before.
func (o *outbox) pop() *subscription {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next()
}

// next takes a subscription out of the line. What is queued leaves before what is pulled: a subscription's first frame says
// that there is one. The caller holds mu.
func (o *outbox) next() *subscription {
	if len(o.frames) > 0 {
		return nil
	}
	for s := o.first; s != nil; s = o.first {
		if o.first = s.next; o.first == nil {
			o.last = nil
		}
		s.queued, s.next = false, nil
		if !s.gone {
			return s
		}
	}
	return nil
}
