// Package thread is the conversation: what people and agents said, and the state machine of a run.
// It decides what is to be done next; doing it is an effect.
package thread

import (
	"encoding/json"
	"time"

	"github.com/cairnhq/cairn/domain"
)

// Event is a fact of a thread.
//
//sumtype:decl
type Event interface{ threadEvent() }

// Events are the wire names of a thread's events.
var Events = []domain.Kind{
	domain.Named[Opened]("thread.opened"),
	domain.Named[Titled]("thread.titled"),
	domain.Named[MessagePosted]("thread.message_posted"),
	domain.Named[RunStarted]("thread.run_started"),
	domain.Named[RouteRequested]("thread.route_requested"),
	domain.Named[RouteDecided]("thread.route_decided"),
	domain.Named[RouteFailed]("thread.route_failed"),
	domain.Named[TurnRequested]("thread.turn_requested"),
	domain.Named[TurnCompleted]("thread.turn_completed"),
	domain.Named[TurnFailed]("thread.turn_failed"),
	domain.Named[ToolCallRequested]("thread.tool_call_requested"),
	domain.Named[ToolStepRequested]("thread.tool_step_requested"),
	domain.Named[ToolCallOffered]("thread.tool_call_offered"),
	domain.Named[ToolStepCompleted]("thread.tool_step_completed"),
	domain.Named[ToolCallCompleted]("thread.tool_call_completed"),
	domain.Named[ToolCallFailed]("thread.tool_call_failed"),
	domain.Named[LateResultRecorded]("thread.late_result_recorded"),
	domain.Named[IndexingFailed]("thread.indexing_failed"),
	domain.Named[IndexingEnded]("thread.indexing_ended"),
	domain.Named[RunResumed]("thread.run_resumed"),
	domain.Named[RunCompleted]("thread.run_completed"),
	domain.Named[RunFailed]("thread.run_failed"),
	domain.Named[RunCancelled]("thread.run_cancelled"),
}

// Channel is how a message came, and so how its answer is formatted.
type Channel string

// The channels.
const (
	Chat     Channel = "chat"     // v2: plain text
	Home     Channel = "home"     // v3: JSON objects become text and blocks
	Floating Channel = "floating" // v3: plain text about one entity
	HTTP     Channel = "http"     // POST /api/v1/chat: plain text
)

// OnBusy says what a message does when a run is active.
type OnBusy string

// The choices; the empty one is Queue.
const (
	Queue     OnBusy = "queue"
	Refuse    OnBusy = "refuse"
	Interrupt OnBusy = "interrupt"
)

// Focus is what a floating request is about.
type Focus struct {
	Type string `json:"type"` // task, project, note, checkpoint
	ID   string `json:"id,omitempty"`
}

// Opened is the first event of every thread.
type Opened struct{}

// Titled gives the thread a title.
type Titled struct {
	Title Title `json:"-" sealed:"true"`
}

// Title is the sealed part of Titled.
type Title struct {
	Text string `json:"text"`
}

// MessagePosted is a person's message. Its run starts at once, or when the runs before it have ended.
type MessagePosted struct {
	RunID    string  `json:"run_id"`
	Channel  Channel `json:"channel"`
	Queued   bool    `json:"queued,omitempty"`
	DeviceID string  `json:"device_id,omitempty"` // the device that its tool calls are bound to
	Timezone string  `json:"timezone,omitempty"`  // IANA
	Focus    *Focus  `json:"focus,omitempty"`
	Content  Content `json:"-" sealed:"true"`
}

// Content is the sealed part of MessagePosted.
type Content struct {
	Text string `json:"text"`
	// History is the client's own past conversation; it counts only where it opened the thread.
	History []Said `json:"history,omitempty"`
	// ProjectID is the project the client says the conversation is in.
	ProjectID string `json:"project_id,omitempty"`
}

// Said is one line of a client's conversation history.
type Said struct {
	Role    string `json:"role"` // user or assistant
	Content string `json:"content"`
}

// RunStarted begins the work on a message. At most one run is active.
type RunStarted struct {
	RunID    string  `json:"run_id"`
	Channel  Channel `json:"channel"`
	DeviceID string  `json:"device_id,omitempty"`
	Timezone string  `json:"timezone,omitempty"`
	Focus    *Focus  `json:"focus,omitempty"`
	// MessageVersion is the version of the MessagePosted that the run answers.
	MessageVersion uint64 `json:"message_version"`
}

// RouteRequested asks which agent answers. Its effect is RouteEffect(RunID, Attempt).
type RouteRequested struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt"`
}

// RouteDecided names the agent.
type RouteDecided struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt,omitempty"` // zero: all attempts failed, and nobody was asked
	Agent   string `json:"agent"`
	Model   string `json:"model,omitempty"`
	// Fallback says that the router named no agent.
	Fallback bool `json:"fallback,omitempty"`
}

// RouteFailed is an attempt to route that failed; another follows after RetryAfter, or the fallback agent.
type RouteFailed struct {
	RunID      string        `json:"run_id"`
	Attempt    int           `json:"attempt"`
	Class      FailureClass  `json:"class"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"` // zero: no further attempt
	Detail     Detail        `json:"-" sealed:"true"`
}

// TurnRequested asks for a model call. Its effect is TurnEffect(RunID, Turn, Attempt).
type TurnRequested struct {
	RunID   string `json:"run_id"`
	Turn    int    `json:"turn"`    // 1, 2, 3 …
	Attempt int    `json:"attempt"` // 1, 2, 3 …
	Agent   string `json:"agent"`
	// NoTools says that the model must answer without tools: the rounds are used up.
	NoTools bool `json:"no_tools,omitempty"`
}

// TurnCompleted is a whole model turn: text, or tool calls, or both.
type TurnCompleted struct {
	RunID        string `json:"run_id"`
	Turn         int    `json:"turn"`
	Attempt      int    `json:"attempt"`
	Agent        string `json:"agent"`
	Model        string `json:"model"`
	FinishReason string `json:"finish_reason"`
	InputTokens  int    `json:"input_tokens,omitempty"`
	OutputTokens int    `json:"output_tokens,omitempty"`
	// Calls is how many tool calls the turn asks for; each is a ToolCallRequested in the same commit.
	Calls int `json:"calls,omitempty"`
	// Warnings are what the formatter dropped, in words without content.
	Warnings []string `json:"warnings,omitempty"`
	// Metadata is what the model says of itself, such as that it is the offline one.
	Metadata map[string]string `json:"metadata,omitempty"`
	Content  TurnContent       `json:"-" sealed:"true"`
}

// TurnContent is the sealed part of TurnCompleted.
type TurnContent struct {
	Text  string     `json:"text"`
	Calls []TurnCall `json:"calls,omitempty"`
}

// TurnCall is a tool call in the model's own words.
type TurnCall struct {
	CallID    string `json:"call_id"`   // ours
	ModelID   string `json:"model_id"`  // the model's
	Tool      string `json:"tool"`      // as the model wrote it
	Arguments string `json:"arguments"` // as the model wrote it, valid JSON or not
}

// FailureClass is the sort of a failed attempt.
type FailureClass string

// The classes. Only the first four are tried again, and a deadline once.
const (
	RateLimited  FailureClass = "rate_limited"
	Unavailable  FailureClass = "unavailable" // connection, time-out, 5xx
	Truncated    FailureClass = "truncated"   // the stream ended without a finish reason
	Malformed    FailureClass = "malformed"   // the model's answer can't be read
	Refused      FailureClass = "refused"     // 4xx: key, model name, request
	ContextLimit FailureClass = "context_limit"
	Deadline     FailureClass = "deadline"
)

// TurnFailed is an attempt that failed; another follows after RetryAfter, or RunFailed in the same commit.
type TurnFailed struct {
	RunID      string        `json:"run_id"`
	Turn       int           `json:"turn"`
	Attempt    int           `json:"attempt"`
	Class      FailureClass  `json:"class"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	Detail     Detail        `json:"-" sealed:"true"`
}

// Detail is a failure in the words of whoever failed; it may hold content.
type Detail struct {
	Text string `json:"text"`
}

// Executor is who executes a step of a tool call.
type Executor string

// The executors.
const (
	OnDevice Executor = "device" // the gateway that holds the device's socket
	OnServer Executor = "server" // a worker: computes what the device must do next
	AtOnce   Executor = "none"   // answered by the planner: unknown tool, bad arguments, refusal
)

// Step is one thing to do for a tool call. CallID is "{run}.{turn}.{index}", the step's effect and the
// device's call id StepID(CallID, Number).
type Step struct {
	CallID   string   `json:"call_id"`
	RunID    string   `json:"run_id"`
	Number   int      `json:"step"` // 1, 2 …
	Tool     string   `json:"tool"`
	Executor Executor `json:"executor"`
	// For a device: what it does, and where.
	Action   string `json:"action,omitempty"`
	Table    string `json:"table,omitempty"`
	DeviceID string `json:"device_id,omitempty"`
	// Then names the server step that follows a successful device step, or that this server step is.
	Then string `json:"then,omitempty"`
	// Repeatable device steps may be offered again to a client without a journal.
	Repeatable bool `json:"repeatable,omitempty"`
	// Background steps belong to a call whose result the run already has (indexing a note again).
	Background bool `json:"background,omitempty"`
}

// Payload is the sealed part of a step: the fields of the device's frame (data, filters, vector, limit).
type Payload struct {
	// Arguments are the model's, validated and normalised.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Fields are merged into the tool_call frame.
	Fields json.RawMessage `json:"fields,omitempty"`
	// Answer is the result where the executor is AtOnce.
	Answer string `json:"answer,omitempty"`
}

// ToolCallRequested begins a tool call with its first step. A call AtOnce is followed by its outcome in the same commit.
type ToolCallRequested struct {
	Step
	Turn    int     `json:"turn"`
	Index   int     `json:"index"` // place among the turn's calls, from 0
	Payload Payload `json:"-" sealed:"true"`
}

// ToolStepRequested is a further step of a call.
type ToolStepRequested struct {
	Step
	Payload Payload `json:"-" sealed:"true"`
}

// ToolCallOffered says that a device step is being sent to its device; its 30 s begin.
type ToolCallOffered struct {
	CallID   string `json:"call_id"`
	RunID    string `json:"run_id"`
	Step     int    `json:"step"`
	DeviceID string `json:"device_id"`
	// Started says that it must not be sent again: the action is not repeatable and the client keeps no journal.
	Started bool `json:"started,omitempty"`
	// Background says that the step is one.
	Background bool `json:"background,omitempty"`
}

// Mutation is what a step changed on the device.
type Mutation struct {
	Table  string `json:"table"`
	Action string `json:"action"`
	ID     string `json:"id"`
}

// ToolStepCompleted is the result of a step that is not the last.
type ToolStepCompleted struct {
	CallID    string     `json:"call_id"`
	RunID     string     `json:"run_id"`
	Step      int        `json:"step"`
	Mutations []Mutation `json:"mutations,omitempty"`
	Result    Result     `json:"-" sealed:"true"`
}

// Result is the sealed part of an outcome.
type Result struct {
	// Device is the device's answer: the tool_result frame without type and id.
	Device json.RawMessage `json:"device,omitempty"`
	// Text is an answer in words, where there is no device's.
	Text string `json:"text,omitempty"`
}

// ToolCallCompleted is the result of a call's last step.
type ToolCallCompleted struct {
	CallID    string     `json:"call_id"`
	RunID     string     `json:"run_id"`
	Step      int        `json:"step"`
	Mutations []Mutation `json:"mutations,omitempty"`
	// NotIndexed says that the note was stored but not indexed; it is indexed again after a minute.
	NotIndexed bool   `json:"not_indexed,omitempty"`
	Result     Result `json:"-" sealed:"true"`
}

// FailureReason is why a tool call failed.
type FailureReason string

// The reasons.
const (
	DeviceError    FailureReason = "device_error" // the device answered with an error
	BadResult      FailureReason = "bad_result"   // the answer is not of the action's shape
	ResultTooLarge FailureReason = "result_too_large"
	TimedOut       FailureReason = "deadline"        // offered, not answered in 30 s
	DeviceOffline  FailureReason = "device_offline"  // not online within 24 h
	NoDevice       FailureReason = "no_device"       // the user has none
	OutcomeUnknown FailureReason = "outcome_unknown" // started, and its socket died
	InvalidCall    FailureReason = "invalid_call"    // unknown tool, bad arguments, refused
	ServerError    FailureReason = "server_error"
	RunEnded       FailureReason = "run_ended" // only of indexing: its run was cancelled
)

// ToolCallFailed ends a call with an error that the model reads; it never ends the run.
type ToolCallFailed struct {
	CallID string        `json:"call_id"`
	RunID  string        `json:"run_id"`
	Step   int           `json:"step"`
	Reason FailureReason `json:"reason"`
	Bytes  int64         `json:"bytes,omitempty"` // the size of a result that is too large
	Result Result        `json:"-" sealed:"true"`
}

// LateResultRecorded is a device's answer to a step that had an outcome already. It changes nothing.
type LateResultRecorded struct {
	CallID    string     `json:"call_id"`
	Step      int        `json:"step"`
	DeviceID  string     `json:"device_id"`
	Mutations []Mutation `json:"mutations,omitempty"`
	Result    Result     `json:"-" sealed:"true"`
}

// IndexingFailed is an attempt to index in the background that failed; another follows after RetryAfter, or
// IndexingEnded in the same commit. The first attempt follows a ToolCallCompleted that is NotIndexed.
type IndexingFailed struct {
	CallID     string        `json:"call_id"`
	RunID      string        `json:"run_id"`
	Step       int           `json:"step"`
	Reason     FailureReason `json:"reason"`
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"` // zero: no further attempt
	Result     Result        `json:"-" sealed:"true"`
}

// IndexingEnded ends the background steps of a call.
type IndexingEnded struct {
	CallID string `json:"call_id"`
	Step   int    `json:"step"`
	OK     bool   `json:"ok"`
}

// RunResumed says that the device came online which an active run waited for. Steps are what it waits with: those
// that were not offered to the device yet.
type RunResumed struct {
	RunID    string   `json:"run_id"`
	DeviceID string   `json:"device_id"`
	Steps    []string `json:"steps"`
}

// RunCompleted ends a run whose last turn had no tool calls.
type RunCompleted struct {
	RunID string `json:"run_id"`
	Turns int    `json:"turns"`
}

// RunFailed ends a run.
type RunFailed struct {
	RunID  string       `json:"run_id"`
	Code   FailureClass `json:"code"`
	Reason string       `json:"reason"` // for people, without content
}

// RunCancelled ends a run, active or queued.
type RunCancelled struct {
	RunID string `json:"run_id"`
	// By is "user", or "interrupt" when another message took its place.
	By string `json:"by"`
}
