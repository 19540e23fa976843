package thread

import (
	"time"

	"github.com/cairnhq/cairn/domain"
)

// Command is a wish about one thread.
//
//sumtype:decl
type Command interface {
	domain.Command
	threadCommand()
}

// Commands are the wire names of a thread's commands.
var Commands = []domain.Kind{
	domain.Named[Open]("thread.open"),
	domain.Named[Rename]("thread.rename"),
	domain.Named[PostMessage]("thread.post_message"),
	domain.Named[Cancel]("thread.cancel"),
	domain.Named[DecideRoute]("thread.decide_route"),
	domain.Named[FailRoute]("thread.fail_route"),
	domain.Named[CompleteTurn]("thread.complete_turn"),
	domain.Named[FailTurn]("thread.fail_turn"),
	domain.Named[OfferCall]("thread.offer_call"),
	domain.Named[RecordResult]("thread.record_result"),
	domain.Named[FailStep]("thread.fail_step"),
	domain.Named[AdvanceCall]("thread.advance_call"),
	domain.Named[FireTimer]("thread.fire_timer"),
}

// On says which thread a command concerns.
type On struct {
	Thread string `json:"thread"` // the id, without "thread-"
}

// Target is the thread's stream.
func (o On) Target() domain.Stream { return domain.NewStream("thread", o.Thread) }

func (On) threadCommand() {}

// Open makes an empty thread.
type Open struct {
	On
}

// Rename gives the thread a title of 1 to 200 characters.
type Rename struct {
	On
	Title Title `json:"-" sealed:"true"`
}

// PostMessage posts a person's message and asks for a run. New opens the thread and is refused if it
// exists; without it the thread must exist (not_found). Busy threads queue (at most MaxQueued, then
// "queue_full"), refuse ("busy") or interrupt.
type PostMessage struct {
	On
	New      bool    `json:"new,omitempty"`
	RunID    string  `json:"run_id"` // minted at the edge
	Channel  Channel `json:"channel"`
	OnBusy   OnBusy  `json:"on_busy,omitempty"`
	DeviceID string  `json:"device_id,omitempty"`
	Timezone string  `json:"timezone,omitempty"`
	Focus    *Focus  `json:"focus,omitempty"`
	Content  Content `json:"-" sealed:"true"`
}

// Cancel ends a run, active or queued. A run that has ended already: rejected "run_ended".
type Cancel struct {
	On
	RunID string `json:"run_id"`
}

// DecideRoute is the outcome of a route effect.
type DecideRoute struct {
	On
	RunID    string `json:"run_id"`
	Attempt  int    `json:"attempt"`
	Agent    string `json:"agent"`
	Model    string `json:"model,omitempty"`
	Fallback bool   `json:"fallback,omitempty"`
}

// FailRoute is its other outcome.
type FailRoute struct {
	On
	RunID      string        `json:"run_id"`
	Attempt    int           `json:"attempt"`
	Class      FailureClass  `json:"class"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"` // what the far side asked for
	Detail     Detail        `json:"-" sealed:"true"`
}

// CompleteTurn is the outcome of a turn effect. Calls and Plans have the same order and length.
type CompleteTurn struct {
	On
	RunID        string            `json:"run_id"`
	Turn         int               `json:"turn"`
	Attempt      int               `json:"attempt"`
	Model        string            `json:"model"`
	FinishReason string            `json:"finish_reason"`
	InputTokens  int               `json:"input_tokens,omitempty"`
	OutputTokens int               `json:"output_tokens,omitempty"`
	Warnings     []string          `json:"warnings,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Plans        []Plan            `json:"plans,omitempty"`
	Content      PlannedTurn       `json:"-" sealed:"true"`
}

// Plan is the clear half of a planned tool call: its first step.
type Plan struct {
	Tool       string   `json:"tool"` // "unknown" where the model named no tool of ours
	Executor   Executor `json:"executor"`
	Action     string   `json:"action,omitempty"`
	Table      string   `json:"table,omitempty"`
	Then       string   `json:"then,omitempty"`
	Repeatable bool     `json:"repeatable,omitempty"`
}

// PlannedTurn is the sealed half.
type PlannedTurn struct {
	Text     string     `json:"text"`
	Calls    []TurnCall `json:"calls,omitempty"` // CallID is set by the decider
	Payloads []Payload  `json:"payloads,omitempty"`
}

// FailTurn is the other outcome of a turn effect.
type FailTurn struct {
	On
	RunID      string        `json:"run_id"`
	Turn       int           `json:"turn"`
	Attempt    int           `json:"attempt"`
	Class      FailureClass  `json:"class"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	Detail     Detail        `json:"-" sealed:"true"`
}

// OfferCall is sent by the gateway before a device step's frame goes out the first time (StartEffect of a
// device step). Started is accepted once: a second OfferCall of a started step is rejected "started".
// A step that has an outcome: rejected "call_ended". Offered again when not started: no events, accepted.
type OfferCall struct {
	On
	CallID   string `json:"call_id"`
	Step     int    `json:"step"`
	DeviceID string `json:"device_id"`
	Started  bool   `json:"started,omitempty"`
}

// RecordResult is a device's answer to a step. For a step that has an outcome it becomes LateResultRecorded.
// From another device than the step is bound to: rejected "wrong_device".
type RecordResult struct {
	On
	CallID    string        `json:"call_id"`
	Step      int           `json:"step"`
	DeviceID  string        `json:"device_id"`
	Failure   FailureReason `json:"failure,omitempty"` // device_error, bad_result, result_too_large
	Bytes     int64         `json:"bytes,omitempty"`
	Mutations []Mutation    `json:"mutations,omitempty"`
	Result    Result        `json:"-" sealed:"true"`
}

// FailStep ends a step that got no answer: outcome_unknown (only of a started step), server_error, no_device.
type FailStep struct {
	On
	CallID string        `json:"call_id"`
	Step   int           `json:"step"`
	Reason FailureReason `json:"reason"`
	Result Result        `json:"-" sealed:"true"`
}

// AdvanceCall is the outcome of a server step: a device step that follows, or the call's result.
type AdvanceCall struct {
	On
	CallID string `json:"call_id"`
	Step   int    `json:"step"` // the server step that is done
	// Next is the device step that follows; nil: Result is the call's.
	Next *Plan `json:"next,omitempty"`
	// NotIndexed says that indexing failed; the call's result stands and it is tried again later.
	NotIndexed bool      `json:"not_indexed,omitempty"`
	Content    Advancing `json:"-" sealed:"true"`
}

// Advancing is the sealed half of AdvanceCall.
type Advancing struct {
	Payload Payload `json:"payload"`
	Result  Result  `json:"result"`
}

// FireTimer says that a timer of the thread is due. One that nothing waits for changes nothing.
type FireTimer struct {
	On
	Timer string `json:"timer"`
}
