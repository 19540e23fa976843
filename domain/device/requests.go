package device

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
)

// The bounds of what is asked of a device outside a run.
const (
	MaxOpen      = 100              // requests without outcome
	MaxEnded     = 64               // ended requests that are remembered, to tell a late answer from an unknown one
	MaxFields    = 1 << 20          // bytes of what a request holds
	MaxResult    = 1 << 20          // bytes of an answer that is kept
	OfferFor     = 30 * time.Second // from the moment a request is sent to its device
	DataWait     = 30 * time.Second // for a device that is absent, where the request does not say
	WriteWait    = 24 * time.Hour
	LeastWait    = time.Second
	LongestRead  = 24 * time.Hour
	LongestWrite = 7 * 24 * time.Hour
)

// The codes of rejections.
const (
	CodeTooMany     = "device_busy" // MaxOpen requests are open
	CodeStarted     = "started"     // begun, and must not be sent again
	CodeNotStarted  = "not_started"
	CodeEnded       = "request_ended"
	CodeOffered     = "already_offered" // the device has it: it can't be taken back
	CodeWrongDevice = "wrong_device"
)

// Tables are the tables that every device has. A request names one in the clear, where a text of the user's may not get.
func Tables() []string {
	return []string{"tasks", "projects", "checkpoints", "notes", "taskComments", "clients"}
}

// Request is what a device is asked to do outside a run.
type Request struct {
	RequestID string `json:"request_id"` // the id of the device's frame, and of the effect
	DeviceID  string `json:"device_id"`
	Action    string `json:"action"`
	Table     string `json:"table,omitempty"`
	// Wait is how long an absent device is waited for.
	Wait time.Duration `json:"wait_ns"`
	// Repeatable requests may be sent again to a client without a journal.
	Repeatable bool `json:"repeatable,omitempty"`
}

// Payload is the sealed part of a request: the fields of the device's frame (data, filters, vector, limit).
type Payload struct {
	Fields json.RawMessage `json:"fields,omitempty"`
}

// Result is the sealed part of an outcome.
type Result struct {
	// Device is the device's answer: its frame without type and id.
	Device json.RawMessage `json:"device,omitempty"`
	// Text is an answer in words, where there is no device's.
	Text string `json:"text,omitempty"`
}

// Mutation is what a request changed on the device.
type Mutation struct {
	Table  string `json:"table"`
	Action string `json:"action"`
	ID     string `json:"id"`
}

// FailureReason is why a request failed.
type FailureReason string

// The reasons.
const (
	DeviceError    FailureReason = "device_error" // the device answered with an error
	BadResult      FailureReason = "bad_result"   // the answer is not of the action's shape
	ResultTooLarge FailureReason = "result_too_large"
	TimedOut       FailureReason = "deadline"        // sent, not answered in 30 s
	Offline        FailureReason = "device_offline"  // it did not come in time
	OutcomeUnknown FailureReason = "outcome_unknown" // begun, and its socket died
	Cancelled      FailureReason = "cancelled"       // before it was sent
)

// DataRequested asks for rows: the action is select or get.
type DataRequested struct {
	Request
	Payload Payload `json:"-" sealed:"true"`
}

// MutationRequested asks for a write that somebody approved: insert, update, delete or vector_upsert.
type MutationRequested struct {
	Request
	Payload Payload `json:"-" sealed:"true"`
}

// RequestOffered says that a request is being sent to its device; its 30 s begin.
type RequestOffered struct {
	RequestID string `json:"request_id"`
	// Started says that it must not be sent again: the action is not repeatable and the client keeps no journal.
	Started bool `json:"started,omitempty"`
}

// DataAnswered is the answer to a DataRequested.
type DataAnswered struct {
	RequestID string `json:"request_id"`
	Result    Result `json:"-" sealed:"true"`
}

// DataFailed ends a DataRequested without rows.
type DataFailed struct {
	RequestID string        `json:"request_id"`
	Reason    FailureReason `json:"reason"`
	Bytes     int64         `json:"bytes,omitempty"` // the size of an answer that is too large
	Result    Result        `json:"-" sealed:"true"`
}

// MutationCompleted says that a write was done.
type MutationCompleted struct {
	RequestID string     `json:"request_id"`
	Mutations []Mutation `json:"mutations,omitempty"` // none: there was no such row
	Result    Result     `json:"-" sealed:"true"`
}

// MutationFailed ends a MutationRequested; whether it was done is open where the reason is outcome_unknown or deadline.
type MutationFailed struct {
	RequestID string        `json:"request_id"`
	Reason    FailureReason `json:"reason"`
	Bytes     int64         `json:"bytes,omitempty"`
	Result    Result        `json:"-" sealed:"true"`
}

// LateAnswerRecorded is a device's answer to a request that had an outcome already. It changes nothing.
type LateAnswerRecorded struct {
	RequestID string     `json:"request_id"`
	Mutations []Mutation `json:"mutations,omitempty"`
	Result    Result     `json:"-" sealed:"true"`
}

func (DataRequested) deviceEvent()      {}
func (MutationRequested) deviceEvent()  {}
func (RequestOffered) deviceEvent()     {}
func (DataAnswered) deviceEvent()       {}
func (DataFailed) deviceEvent()         {}
func (MutationCompleted) deviceEvent()  {}
func (MutationFailed) deviceEvent()     {}
func (LateAnswerRecorded) deviceEvent() {}

// reads are the actions of a DataRequested, writes those of a MutationRequested.
func reads() []string  { return []string{"select", "get"} }
func writes() []string { return []string{"insert", "update", "delete", "vector_upsert"} }

// repeats reports whether doing an action twice is as good as once.
func repeats(action string) bool { return action != "insert" }

// wrong says what can't be asked.
func (r Request) wrong(p Payload, actions []string, longest time.Duration) error {
	var fields map[string]json.RawMessage
	switch {
	case !isRequestID(r.RequestID):
		return domain.Reject(domain.CodeInvalid, "the request's id is malformed")
	case !slices.Contains(actions, r.Action):
		return domain.Reject(domain.CodeInvalid, "the action must be one of %v", actions)
	case r.Action == "vector_upsert" && r.Table != "":
		return domain.Reject(domain.CodeInvalid, "vector_upsert has no table")
	case r.Action != "vector_upsert" && !slices.Contains(Tables(), r.Table):
		return domain.Reject(domain.CodeInvalid, "the table must be one of %v", Tables())
	case r.Wait < LeastWait || r.Wait > longest:
		return domain.Reject(domain.CodeInvalid, "an absent device is waited for between %s and %s", LeastWait, longest)
	case len(p.Fields) > MaxFields:
		return &domain.Rejection{Code: domain.CodeTooLarge, Reason: "a request may hold 1 MiB", Numbers: map[string]int64{
			"limit_bytes": MaxFields, "bytes": int64(len(p.Fields)),
		}}
	case len(p.Fields) > 0 && json.Unmarshal(p.Fields, &fields) != nil:
		return domain.Reject(domain.CodeInvalid, "the fields of a request must be a JSON object")
	}
	return nil
}

// isRequestID keeps requests apart from the calls of runs, whose ids have dots.
func isRequestID(id string) bool {
	return len(id) <= 64 && domain.NewStream("request", id).Valid() && !strings.Contains(id, ".")
}
