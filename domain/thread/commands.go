package thread

import (
	"time"

	"github.com/cairnhq/cairn/domain"
)

// Command is a wish about one thread. A command about something that is over is harmless: an outcome or a
// timer that nothing waits for is accepted and changes nothing, whatever else is said below. All but Open
// and a New PostMessage are rejected "not_found" where there is no such thread.
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
	domain.Named[ResumeRun]("thread.resume_run"),
	domain.Named[FireTimer]("thread.fire_timer"),
}

// On says which thread a command concerns.
type On struct {
	Thread string `json:"thread"` // the id, without "thread-"
}

// Target is the thread's stream.
func (o On) Target() domain.Stream { return domain.NewStream("thread", o.Thread) }

func (On) threadCommand() {}

// Open makes an empty thread. One that exists: accepted, no events.
type Open struct {
	On
}

// Rename gives the thread a title of 1 to 200 characters; otherwise it is rejected "invalid".
type Rename struct {
	On
	Title Title `json:"-" sealed:"true"`
}

// PostMessage posts a person's message and asks for a run. New opens the thread and is refused if it
// exists; without it the thread must exist (not_found). Busy threads queue (at most MaxQueued, then
// "queue_full"), refuse ("busy") or interrupt: then the active run is cancelled and this one begins before
// those that wait. A run id in use: rejected "conflict". An empty message or one that is not UTF-8: "invalid";
// message and history over MaxMessage: "too_large".
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

// Cancel ends a run, active or queued. A run that has ended already: rejected "run_ended"; one that never
// was: "not_found", or "run_ended" where the thread has forgotten which runs it had.
type Cancel struct {
	On
	RunID string `json:"run_id"`
}

// DecideRoute is the outcome of a route effect. An empty agent is FallbackAgent. Of another attempt than the
// one awaited: accepted, no events.
type DecideRoute struct {
	On
	RunID    string `json:"run_id"`
	Attempt  int    `json:"attempt"`
	Agent    string `json:"agent"`
	Model    string `json:"model,omitempty"`
	Fallback bool   `json:"fallback,omitempty"`
}

// FailRoute is its other outcome: it is tried again at most MaxRouteAttempts times, then FallbackAgent answers.
type FailRoute struct {
	On
	RunID      string        `json:"run_id"`
	Attempt    int           `json:"attempt"`
	Class      FailureClass  `json:"class"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"` // what the far side asked for
	Detail     Detail        `json:"-" sealed:"true"`
}

// CompleteTurn is the outcome of a turn effect. Calls, Plans and Payloads have the same order and length. It
// counts as a FailTurn: without a finish reason (truncated); where it says nothing, asks for tools in a turn
// without, or its plans don't match its calls (malformed). Calls over MaxCalls are dropped with a warning. Of
// another turn or attempt than the one awaited: accepted, no events.
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

// FailTurn is the other outcome of a turn effect. The turn is tried again after 0.5 s, 1 s, 2 s, 4 s, or
// RetryAfter if that is longer; the run fails at the fifth attempt, at a class of no use to repeat, at the
// second deadline, and where the far side wants more than MaxRetryAfter. Of another turn or attempt than the
// one awaited: accepted, no events.
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
// Another device than the step is bound to: "wrong_device". A step that never was, or is a server's: "not_found".
type OfferCall struct {
	On
	CallID   string `json:"call_id"`
	Step     int    `json:"step"`
	DeviceID string `json:"device_id"`
	Started  bool   `json:"started,omitempty"`
}

// RecordResult is a device's answer to a step. For a step that has an outcome it becomes LateResultRecorded.
// From another device than the step is bound to: rejected "wrong_device". A call that never was: "not_found";
// of runs that the thread has forgotten (it knows the last MaxEnded) any call may have been. A result over
// MaxResult becomes result_too_large.
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

// FailStep ends a step that got no answer: outcome_unknown (only of a started step, else rejected
// "not_started"), server_error, no_device; another reason: "invalid". A step that has an outcome or never
// was: accepted, no events.
type FailStep struct {
	On
	CallID string        `json:"call_id"`
	Step   int           `json:"step"`
	Reason FailureReason `json:"reason"`
	Result Result        `json:"-" sealed:"true"`
}

// AdvanceCall is the outcome of a server step: a device step that follows, or the call's result. A step that
// has an outcome, never was, or is a device's: accepted, no events. A Next that is no device step, or would
// be the call's ninth: the step fails with server_error.
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

// ResumeRun says that the device came online which a run waits for. A run that does not wait for it, or is not
// active: accepted, no events.
type ResumeRun struct {
	On
	RunID    string `json:"run_id"`
	DeviceID string `json:"device_id"`
}

// FireTimer says that a timer of the thread is due. One that nothing waits for changes nothing.
type FireTimer struct {
	On
	Timer string `json:"timer"`
}
