package history

import (
	"errors"
	"sync"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Recorder keeps, in one order, what clients asked and were told, what subscribers were given and which effects were
// done. It is safe for concurrent use; everything it is told must be told at the moment it happened.
type Recorder struct {
	now func() time.Time

	mu          sync.Mutex
	turn        int64
	ops         []*Op
	subscribers []*Subscriber
	done        []execution
}

// Option changes a Recorder.
type Option func(*Recorder)

// WithClock stamps with now in place of time.Now. The order of what happened never comes from it.
func WithClock(now func() time.Time) Option { return func(r *Recorder) { r.now = now } }

// New is an empty history.
func New(options ...Option) *Recorder {
	r := &Recorder{now: time.Now}
	for _, o := range options {
		o(r)
	}
	return r
}

// Request is what a client asks.
type Request struct {
	Scope domain.Scope
	// CommandID is what the request becomes in the log: streams.CommandID(scope, request id) for a client's own.
	CommandID string
	// Fingerprint says which request it is, in any form: two of one id and one fingerprint are the same request, of two
	// fingerprints another. Empty: like every other of the id.
	Fingerprint string
	// What names it in a report, in words without content.
	What string
}

// How an Op ended.
type ending int

const (
	pending  ending = iota // nobody heard an answer; as good as unknown
	accepted               // decided: yes
	rejected               // decided: no
	unknown                // it may have been decided, now or later
	refused                // it was not sent, and so never will be decided
)

// Op is one request of one client, from the moment it was sent until its answer came. A repeat is another Op.
type Op struct {
	recorder *Recorder
	client   string
	request  Request
	invoked  int64
	ended    int64 // zero: never
	from, to time.Time
	ending   ending
	answer   streams.Answer
	no       *domain.Rejection
	err      error
}

// Invoke records that a client is about to send a request.
func (r *Recorder) Invoke(client string, q Request) *Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	op := &Op{recorder: r, client: client, request: q, invoked: r.turn, from: r.now()}
	r.ops = append(r.ops, op)
	return op
}

// Accepted records the answer yes. What the client was not told stays zero in a and is not compared.
func (o *Op) Accepted(a streams.Answer) { o.end(accepted, a, nil, nil) }

// Rejected records the decision no.
func (o *Op) Rejected(no *domain.Rejection) { o.end(rejected, streams.Answer{}, no, nil) }

// Unknown records that no answer came, or outcome_unknown: the request may be decided or not, also later.
func (o *Op) Unknown(err error) { o.end(unknown, streams.Answer{}, nil, err) }

// Refused records that the request was turned away before it was sent (429, 503 before sending, 4xx of the edge): it
// is never decided.
func (o *Op) Refused(err error) { o.end(refused, streams.Answer{}, nil, err) }

// Ended records what a streams.Asker answered.
func (o *Op) Ended(a streams.Answer, err error) {
	var no *domain.Rejection
	var busy *streams.Busy
	switch {
	case err == nil:
		o.Accepted(a)
	case errors.As(err, &no):
		o.end(rejected, a, no, nil)
	case errors.As(err, &busy):
		o.Refused(err)
	default:
		o.Unknown(err)
	}
}

func (o *Op) end(how ending, a streams.Answer, no *domain.Rejection, err error) {
	r := o.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.ending != pending {
		panic("history: an operation ended twice")
	}
	r.turn++
	o.ending, o.answer, o.no, o.err, o.ended, o.to = how, a, no, err, r.turn, r.now()
}

// Counts are how requests ended.
type Counts struct {
	Asked, Accepted, Rejected, Unknown, Refused int
}

// Counts are those of the operations that began in [from, to); two zero times mean all.
func (r *Recorder) Counts(from, to time.Time) Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	var c Counts
	for _, o := range r.ops {
		if !from.IsZero() && o.from.Before(from) || !to.IsZero() && !o.from.Before(to) {
			continue
		}
		c.Asked++
		switch o.ending {
		case accepted:
			c.Accepted++
		case rejected:
			c.Rejected++
		case refused:
			c.Refused++
		case pending, unknown:
			c.Unknown++
		}
	}
	return c
}

// snapshot copies what is known now, so that a check does not race with what still goes on.
func (r *Recorder) snapshot() (ops []Op, subscribers []Subscriber, done []execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.ops {
		ops = append(ops, *o)
	}
	for _, s := range r.subscribers {
		c := *s
		c.steps = c.steps[:len(c.steps):len(c.steps)]
		subscribers = append(subscribers, c)
	}
	return ops, subscribers, r.done[:len(r.done):len(r.done)]
}
