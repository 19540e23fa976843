package thread

import (
	"slices"

	"github.com/cairnhq/cairn/domain/safety"
)

// Bounds of a thread. They keep its state, and so the cost of a decision, small whatever its history.
const (
	MaxQueued   = 100 // messages that wait for the active run
	MaxRounds   = 5   // turns with tool calls in one run; then the model must answer without
	MaxCalls    = 32  // tool calls in one turn
	MaxSteps    = 8   // steps of one call, without those in the background
	MaxIndexing = 64  // calls whose note waits to be indexed
	MaxEnded    = 16  // ended runs that are remembered, to tell a late result from an unknown one
)

// State is what a thread needs to decide: ids, counters, and what is pending; never a text.
// Its zero value is the thread that does not exist.
type State struct {
	version  uint64
	waiting  []waiting // messages whose run has not begun, oldest first
	run      *run      // the active one
	ended    []ended   // oldest first
	forgot   bool      // a run ended that is no longer in ended
	indexing []indexing
}

// waiting is a message whose run has not begun.
type waiting struct {
	run     string
	version uint64 // of its MessagePosted
	channel Channel
	device  string
	zone    string
	focus   *Focus
}

// stage is what the active run waits for.
type stage string

const (
	routing     stage = "route"       // an agent
	routeRetry  stage = "route_retry" // the next attempt to route
	thinking    stage = "turn"        // the model
	thinkRetry  stage = "turn_retry"  // the next attempt of the turn
	callingTool stage = "tools"       // calls
)

// run is the active run. Values are shared between states and never changed in place.
type run struct {
	id, device, agent string
	stage             stage
	turn, attempt     int // of the turn; while routing, attempt counts the routes
	deadlines         int // attempts of this turn that met their deadline
	noTools           bool
	rounds            int
	calls             []int // how many calls each completed turn had
	open              []call
}

// call is a tool call without outcome.
type call struct {
	id   string
	tool string
	step step
	// indexing says that the call has done its work and only its note's index is missing.
	indexing bool
}

// step is the step of a call that is open.
type step struct {
	number           int
	executor         Executor
	then             string
	offered, started bool
}

// indexing is a call whose note is indexed in the background.
type indexing struct {
	call    call
	device  string
	attempt int
	due     bool // the step has begun; otherwise a timer is waited for
}

// ended is what is remembered of a run that ended.
type ended struct {
	id, device string
	calls      []int
}

func (s State) opened() bool { return s.version > 0 }

// remembered is the run of that id, active or ended, as far as it is remembered.
func (s State) remembered(id string) (ended, bool) {
	if s.run != nil && s.run.id == id {
		return ended{id: id, device: s.run.device, calls: s.run.calls}, true
	}
	if i := slices.IndexFunc(s.ended, func(e ended) bool { return e.id == id }); i >= 0 {
		return s.ended[i], true
	}
	return ended{}, false
}

func (s State) queued(run string) (waiting, bool) {
	if i := slices.IndexFunc(s.waiting, func(w waiting) bool { return w.run == run }); i >= 0 {
		return s.waiting[i], true
	}
	return waiting{}, false
}

// pending is a step that waits for an outcome.
type pending struct {
	call       call
	device     string
	background bool
	attempt    int // to index, in the background
}

// pending finds the open step of a call.
func (s State) pending(id string, number int) (pending, bool) {
	if s.run != nil {
		for _, c := range s.run.open {
			if c.id == id && c.step.number == number {
				return pending{call: c, device: s.run.device}, true
			}
		}
	}
	for _, x := range s.indexing {
		if x.call.id == id && x.call.step.number == number && x.due {
			return pending{call: x.call, device: x.device, background: true, attempt: x.attempt}, true
		}
	}
	if safety.Off(safety.OneOutcome) && s.run != nil && s.run.id == RunOf(id) { // what was answered may be answered again
		return pending{call: call{id: id, step: step{number: number, executor: OnDevice}}, device: s.run.device}, true
	}
	return pending{}, false
}
