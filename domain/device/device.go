// Package device is an installed client: what it said of itself, and what it is asked to do outside a run.
// Whether it is online is presence, a work table, and not here.
package device

import (
	"time"

	"github.com/cairnhq/cairn/domain"
)

// SeenEvery is the time within which a device that comes again and again is recorded once.
const SeenEvery = time.Hour

// Event is a fact of a device.
//
//sumtype:decl
type Event interface{ deviceEvent() }

// Events are the wire names of a device's events.
var Events = []domain.Kind{
	domain.Named[Introduced]("device.introduced"),
	domain.Named[Seen]("device.seen"),
	domain.Named[DataRequested]("device.data_requested"),
	domain.Named[MutationRequested]("device.mutation_requested"),
	domain.Named[RequestOffered]("device.request_offered"),
	domain.Named[DataAnswered]("device.data_answered"),
	domain.Named[DataFailed]("device.data_failed"),
	domain.Named[MutationCompleted]("device.mutation_completed"),
	domain.Named[MutationFailed]("device.mutation_failed"),
	domain.Named[LateAnswerRecorded]("device.late_answer_recorded"),
}

// Introduced is what a device said in its hello; a later one replaces it.
type Introduced struct {
	Protocol int    `json:"protocol"` // 2 or 3
	Timezone string `json:"timezone,omitempty"`
	Journal  bool   `json:"journal,omitempty"`
	Batch    bool   `json:"batch,omitempty"`
	// NameDigest is HMAC-SHA-256 of the name under the scope's index key, hex: how a change is seen.
	NameDigest string `json:"name_digest,omitempty"`
	Name       Name   `json:"-" sealed:"true"`
}

// Name is the sealed part of Introduced.
type Name struct {
	Text string `json:"text"`
}

// Seen says that a device came online. It is recorded at most once in SeenEvery, but always when work waits for the
// device: the policy that resumes runs begins with it.
type Seen struct {
	At      time.Time `json:"at"`
	Waiting bool      `json:"waiting,omitempty"` // a run waited for the device
}

func (Introduced) deviceEvent() {}
func (Seen) deviceEvent()       {}

// Command is a wish about a device.
//
//sumtype:decl
type Command interface {
	domain.Command
	deviceCommand()
}

// Commands are the wire names of a device's commands.
var Commands = []domain.Kind{
	domain.Named[Introduce]("device.introduce"),
	domain.Named[See]("device.see"),
	domain.Named[RequestData]("device.request_data"),
	domain.Named[RequestMutation]("device.request_mutation"),
	domain.Named[CancelRequest]("device.cancel_request"),
	domain.Named[OfferRequest]("device.offer_request"),
	domain.Named[RecordAnswer]("device.record_answer"),
	domain.Named[LoseRequest]("device.lose_request"),
	domain.Named[FireTimer]("device.fire_timer"),
}

// Introduce records a hello; one that says nothing new: accepted, no events.
type Introduce struct {
	Device   string `json:"device"`
	Protocol int    `json:"protocol"`
	Timezone string `json:"timezone,omitempty"`
	Journal  bool   `json:"journal,omitempty"`
	Batch    bool   `json:"batch,omitempty"`
	// NameDigest is HMAC-SHA-256 of the name under the scope's index key, hex: how a change is seen.
	NameDigest string `json:"name_digest,omitempty"`
	Name       Name   `json:"-" sealed:"true"`
}

// Target is the device's stream.
func (i Introduce) Target() domain.Stream { return domain.NewStream("device", i.Device) }

// See says that a device came online. Less than SeenEvery after the last Seen, and where nothing waits: accepted, no
// events.
type See struct {
	Device  string    `json:"device"`
	At      time.Time `json:"at"`
	Waiting bool      `json:"waiting,omitempty"`
}

// Target is the device's stream.
func (s See) Target() domain.Stream { return domain.NewStream("device", s.Device) }

func (Introduce) deviceCommand() {}
func (See) deviceCommand()       {}
