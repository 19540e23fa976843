package live

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	asked "github.com/cairnhq/cairn/projections/requests"
)

// call is what a socket here was given to execute: a step of a run's tool call, or a request outside a run.
type call struct {
	scope   domain.Scope
	stream  domain.Stream // that asked: a thread, or the device
	id      string        // of the effect and of the frame: thread.StepID, or the request's id
	request asked.Kind    // empty: it is a step of a run
	step    thread.Step   // of a request: what a step says as well
	session *session
	seq     uint64 // version of the event that asked for it
	// updated is the row that the step's fields name, for what the answer does not say.
	updated string
	// started must not be sent again, whatever becomes of the socket.
	started bool
	span    trace.Span // nil: none
	trace   string     // the traceparent that the device is told
	offered time.Time  // zero: not here
}

// calls are those that wait for an answer, by their id in a scope.
type calls struct {
	mu      sync.Mutex
	waiting map[callKey]*call
	scopes  map[domain.Scope]int
	claimed map[callKey]struct{} // all that is claimed here, waiting or on its way
}

type callKey struct {
	scope domain.Scope
	id    string
}

func newCalls() *calls {
	return &calls{waiting: map[callKey]*call{}, scopes: map[domain.Scope]int{}, claimed: map[callKey]struct{}{}}
}

// hold remembers that an effect is claimed here, let that it is not any more.
func (t *calls) hold(scope domain.Scope, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claimed[callKey{scope, id}] = struct{}{}
}

func (t *calls) let(scope domain.Scope, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.claimed, callKey{scope, id})
}

func (t *calls) held(scope domain.Scope, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.claimed[callKey{scope, id}]
	return ok
}

// wait registers who waits. It must come before the frame is sent.
func (t *calls) wait(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := callKey{c.scope, c.id}
	if _, ok := t.waiting[key]; !ok {
		t.scopes[c.scope]++
	}
	t.waiting[key] = c
}

// answered is the call that an answer belongs to, nil if none waits here. If the device that was asked gave
// it, the call waits no more, so that the end of the socket does not end it too. Its claim stays until the
// answer is recorded.
func (t *calls) answered(scope domain.Scope, device string, a *answer) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := callKey{scope, a.id}
	c, ok := t.waiting[key]
	if !ok || c.step.DeviceID != device || !a.fits(c) {
		return c
	}
	t.drop(key)
	return c
}

// leave takes the calls of a socket that is gone.
func (t *calls) leave(s *session) []*call {
	t.mu.Lock()
	defer t.mu.Unlock()
	var left []*call
	for key, c := range t.waiting {
		if c.session == s {
			left = append(left, c)
			t.drop(key)
		}
	}
	return left
}

// closed forgets what the log says has an outcome: effects by id, and those of a run.
func (t *calls) closed(scope domain.Scope, ids []string, run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.waiting[callKey{scope, id}].ended("has_outcome")
		t.drop(callKey{scope, id})
		delete(t.claimed, callKey{scope, id})
	}
	if run == "" {
		return
	}
	for key, c := range t.waiting {
		if key.scope == scope && c.step.RunID == run {
			c.ended("run_ended")
			t.drop(key)
			delete(t.claimed, key)
		}
	}
}

// any says whether something waits in a scope.
func (t *calls) any(scope domain.Scope) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scopes[scope] > 0
}

func (t *calls) drop(key callKey) {
	if _, ok := t.waiting[key]; !ok {
		return
	}
	delete(t.waiting, key)
	if t.scopes[key.scope]--; t.scopes[key.scope] == 0 {
		delete(t.scopes, key.scope)
	}
}
