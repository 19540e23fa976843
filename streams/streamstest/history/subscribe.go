package history

import (
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Subscriber is one reader of a scope or of a stream, with a memory of its own: over all its connections it must be given
// every event once and in order.
type Subscriber struct {
	recorder *Recorder
	name     string
	scope    domain.Scope
	stream   domain.Stream // empty: the whole scope, by position
	after    uint64
	steps    []step
	level    bool
}

type step struct {
	seq  uint64
	id   string
	hash string
	kind stepKind
	why  Why
}

// stepKind says what happened to a subscriber.
type stepKind int

const (
	delivered stepKind = iota
	held               // it told the hash of what it holds
	reset
)

// Why is the reason that a subscriber is given for a reset.
type Why string

// The reasons that a log can bear out.
const (
	Beyond    Why = "beyond"     // the cursor is beyond the head
	OtherHash Why = "other hash" // the event at the cursor is another
	Cut       Why = "cut"        // what follows the cursor is not kept any more
)

// Subscribe records a subscriber that holds everything up to after: a position of the scope, or with a stream a version of it.
func (r *Recorder) Subscribe(name string, scope domain.Scope, stream domain.Stream, after uint64) *Subscriber {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Subscriber{recorder: r, name: name, scope: scope, stream: stream, after: after}
	r.subscribers = append(r.subscribers, s)
	return s
}

// Delivered records that the subscriber was given an event. An empty id or hash is not compared.
func (s *Subscriber) Delivered(seq uint64, id string, hash []byte) {
	s.record(step{seq: seq, id: id, hash: string(hash)})
}

// DeliveredEvent records an event by what the log says of it.
func (s *Subscriber) DeliveredEvent(e streams.Recorded) {
	seq := e.Position
	if s.stream != "" {
		seq = e.Version
	}
	s.Delivered(seq, e.ID, e.Hash)
}

// Holding records that the subscriber says that the last event it holds has this hash. Whether that is so, nobody says.
func (s *Subscriber) Holding(hash []byte) { s.record(step{kind: held, hash: string(hash)}) }

// Reset records that the subscriber was told plainly to reload, and why, and now holds everything up to after.
func (s *Subscriber) Reset(after uint64, why Why) { s.record(step{seq: after, kind: reset, why: why}) }

// Level records that the subscriber waited to the end and must hold everything the log holds.
func (s *Subscriber) Level() {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.level = true
}

func (s *Subscriber) record(at step) {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.steps = append(s.steps, at)
}

// execution is something that was done in the world, as the far side saw it.
type execution struct {
	scope  domain.Scope
	effect string
	once   bool
}

// Executed records that the far side (a model, a device, a mail server) was made to do an effect that may be repeated.
func (r *Recorder) Executed(scope domain.Scope, effect string) {
	r.execute(execution{scope: scope, effect: effect})
}

// ExecutedOnce records the same of an effect that must not be repeated.
func (r *Recorder) ExecutedOnce(scope domain.Scope, effect string) {
	r.execute(execution{scope: scope, effect: effect, once: true})
}

func (r *Recorder) execute(e execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, e)
}
