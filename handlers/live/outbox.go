package live

import "sync"

// What may wait for a client. One that is slower is closed: it is never fed less.
const (
	outboxFrames = 8192
	outboxBytes  = 24 << 20
)

// outbox is what is queued for one client, with one writer who takes all of it at once.
type outbox struct {
	wake chan struct{}

	mu     sync.Mutex
	frames [][]byte
	bytes  int
	shut   bool
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// push queues a frame. It answers false when the client has become too slow; then everything queued is gone.
func (o *outbox) push(frame []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.signal()
	if o.shut {
		return true
	}
	if len(o.frames) >= outboxFrames || o.bytes+len(frame) > outboxBytes {
		o.frames, o.shut = nil, true
		return false
	}
	o.frames = append(o.frames, frame)
	o.bytes += len(frame)
	return true
}

// close takes nothing more; what is queued still leaves.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut = true
	o.signal()
}

// take answers all that is queued, and whether something can still come.
func (o *outbox) take() (frames [][]byte, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, o.frames, o.bytes = o.frames, nil, 0
	return frames, !o.shut
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
