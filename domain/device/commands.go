package device

import (
	"time"

	"github.com/cairnhq/cairn/domain"
)

// RequestData asks for rows. Wait zero: DataWait. The same request again is refused: repeats are told apart by the
// command's id.
type RequestData struct {
	Device    string        `json:"device"`
	RequestID string        `json:"request_id"`
	Action    string        `json:"action"`
	Table     string        `json:"table"`
	Wait      time.Duration `json:"wait_ns,omitempty"`
	Payload   Payload       `json:"-" sealed:"true"`
}

// RequestMutation asks for a write that somebody approved: who sends it. Wait zero: WriteWait.
type RequestMutation struct {
	Device    string        `json:"device"`
	RequestID string        `json:"request_id"`
	Action    string        `json:"action"`
	Table     string        `json:"table,omitempty"`
	Wait      time.Duration `json:"wait_ns,omitempty"`
	Payload   Payload       `json:"-" sealed:"true"`
}

// CancelRequest takes a request back that was not sent yet. One that was cancelled already: accepted, no events.
type CancelRequest struct {
	Device    string `json:"device"`
	RequestID string `json:"request_id"`
}

// OfferRequest is told before a request is sent. Offered before and repeatable: accepted, no events. One that was started
// is refused with CodeStarted, one with an outcome with CodeEnded.
type OfferRequest struct {
	Device    string `json:"device"`
	RequestID string `json:"request_id"`
	Started   bool   `json:"started,omitempty"`
}

// RecordAnswer is the device's answer. To a request with an outcome: a LateAnswerRecorded.
type RecordAnswer struct {
	Device    string        `json:"device"` // which was asked
	RequestID string        `json:"request_id"`
	By        string        `json:"by"` // the device that answers; another than Device is refused
	Failure   FailureReason `json:"failure,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"`
	Mutations []Mutation    `json:"mutations,omitempty"`
	Result    Result        `json:"-" sealed:"true"`
}

// LoseRequest says that a request was started and that nobody will tell its outcome. One that has an outcome: accepted, no
// events.
type LoseRequest struct {
	Device    string `json:"device"`
	RequestID string `json:"request_id"`
	Result    Result `json:"-" sealed:"true"`
}

// FireTimer says that a timer is due. One that nothing waits for: accepted, no events.
type FireTimer struct {
	Device string `json:"device"`
	Timer  string `json:"timer"`
}

// Target is the device's stream.
func (c RequestData) Target() domain.Stream { return domain.NewStream("device", c.Device) }

// Target is the device's stream.
func (c RequestMutation) Target() domain.Stream { return domain.NewStream("device", c.Device) }

// Target is the device's stream.
func (c CancelRequest) Target() domain.Stream { return domain.NewStream("device", c.Device) }

// Target is the device's stream.
func (c OfferRequest) Target() domain.Stream { return domain.NewStream("device", c.Device) }

// Target is the device's stream.
func (c RecordAnswer) Target() domain.Stream { return domain.NewStream("device", c.Device) }

// Target is the device's stream.
func (c LoseRequest) Target() domain.Stream { return domain.NewStream("device", c.Device) }

// Target is the device's stream.
func (c FireTimer) Target() domain.Stream { return domain.NewStream("device", c.Device) }

func (RequestData) deviceCommand()     {}
func (RequestMutation) deviceCommand() {}
func (CancelRequest) deviceCommand()   {}
func (OfferRequest) deviceCommand()    {}
func (RecordAnswer) deviceCommand()    {}
func (LoseRequest) deviceCommand()     {}
func (FireTimer) deviceCommand()       {}
