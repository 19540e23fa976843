// Package transcript is a thread as the effects see it: its events, opened and folded into runs, turns
// and tool calls. It decides nothing and stores nothing.
package transcript

import (
	"encoding/json"

	"github.com/cairnhq/cairn/domain/output"
	"github.com/cairnhq/cairn/domain/thread"
)

// Thread is the newest part of a conversation, reaching back at least to the start of the run it was loaded for.
type Thread struct {
	ID   string
	Runs []*Run // in the order in which they started
	// Whole says that it reaches back to the thread's first event.
	Whole bool
	// Version is that of the last event.
	Version uint64

	posted map[string]*thread.MessagePosted
	calls  map[string]*Call
}

// Run is a message and the work on it.
type Run struct {
	ID       string
	Channel  thread.Channel
	Focus    *thread.Focus
	Timezone string
	Message  thread.Content
	// First says that the run's message opened the thread.
	First   bool
	Agent   string
	Turns   []*Turn
	End     End
	Reason  string // of a failed run
	Pending Pending
	// Tables are what its tools returned.
	Tables output.Tables
}

// Pending is the request of the run that waits for an outcome.
type Pending struct {
	Route, Turn, Attempt int
	NoTools              bool
}

// End is how a run ended.
type End string

// The ends; the empty one is a run that goes on.
const (
	Completed End = "completed"
	Failed    End = "failed"
	Cancelled End = "cancelled"
)

// Turn is a committed turn of the model.
type Turn struct {
	Number int
	Text   string
	Calls  []*Call
}

// Call is a tool call of a turn.
type Call struct {
	ID, RunID string
	// ModelID, Named and Arguments are in the model's own words.
	ModelID, Named, Arguments string
	// Tool is the tool's name, or "unknown".
	Tool string
	// Checked are the arguments after validation.
	Checked json.RawMessage
	Steps   map[int]Step
	// Last is the number of the step that ended the call.
	Last       int
	Done       bool
	Failure    thread.FailureReason
	Bytes      int64
	NotIndexed bool
	Result     thread.Result
}

// Step is a step of a call and its result.
type Step struct {
	thread.Step
	Payload thread.Payload
	Done    bool
	Result  thread.Result
}

// Run is the run with that id, or nil.
func (t *Thread) Run(id string) *Run {
	for _, r := range t.Runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Call is the call with that id, or nil.
func (t *Thread) Call(id string) *Call { return t.calls[id] }

// Before is the run that started before the run with that id, or nil.
func (t *Thread) Before(id string) *Run {
	var last *Run
	for _, r := range t.Runs {
		if r.ID == id {
			return last
		}
		last = r
	}
	return nil
}

// Answers are the device's answers to the steps of the call that succeeded, in order.
func (c *Call) Answers() []json.RawMessage {
	var answers []json.RawMessage
	for n := 1; n <= c.Last || n <= len(c.Steps); n++ {
		step := c.Steps[n]
		if step.Done && len(step.Result.Device) > 0 {
			answers = append(answers, step.Result.Device)
		}
	}
	return answers
}
