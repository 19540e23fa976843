package device

import (
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/cairnhq/cairn/domain"
)

// State is what a device said last, without its name, and what it is asked. Its slices are shared between states and never
// changed in place.
type State struct {
	known stateJSON
}

type stateJSON struct {
	said
	Seen int64 `json:"seen,omitempty"` // Unix seconds

	Open   []request `json:"open,omitempty"`   // without outcome, oldest first
	Ended  []string  `json:"ended,omitempty"`  // the last requests with one, oldest first
	Forgot bool      `json:"forgot,omitempty"` // there were more
}

// said is the last hello.
type said struct {
	Protocol   int    `json:"protocol,omitempty"` // 0: there was none
	Timezone   string `json:"timezone,omitempty"`
	Journal    bool   `json:"journal,omitempty"`
	Batch      bool   `json:"batch,omitempty"`
	NameDigest string `json:"name_digest,omitempty"`
}

// Decide records a hello that says something new, that the device was seen, and what becomes of a request.
func (s State) Decide(c Command) ([]Event, error) {
	if !c.Target().Valid() {
		return nil, domain.Reject(domain.CodeInvalid, "the device's id is malformed")
	}
	switch c := c.(type) {
	case Introduce:
		return s.introduce(c)
	case See:
		return s.see(c)
	case RequestData:
		return s.requestData(c)
	case RequestMutation:
		return s.requestMutation(c)
	case CancelRequest:
		return s.cancelRequest(c)
	case OfferRequest:
		return s.offerRequest(c)
	case RecordAnswer:
		return s.recordAnswer(c)
	case LoseRequest:
		return s.loseRequest(c)
	case FireTimer:
		return s.fireTimer(c), nil
	default:
		return nil, domain.Reject(domain.CodeInvalid, "a device knows no such command")
	}
}

func (s State) introduce(i Introduce) ([]Event, error) {
	switch {
	case i.Protocol != 2 && i.Protocol != 3:
		return nil, domain.Reject(domain.CodeInvalid, "the protocols are 2 and 3")
	case len(i.Timezone) > 64 || len(i.NameDigest) > 128:
		return nil, domain.Reject(domain.CodeInvalid, "the time zone's name or the name's digest is too long")
	case !utf8.ValidString(i.Name.Text) || utf8.RuneCountInString(i.Name.Text) > 200:
		return nil, domain.Reject(domain.CodeInvalid, "a device's name has at most 200 characters")
	}
	e := introduced(i)
	if s.Evolve(e).known.said == s.known.said {
		return nil, nil
	}
	return []Event{e}, nil
}

// see goes by the times that the commands bring. One that lies before the last, since the clocks of two gateways differ,
// is no reason to record it.
func (s State) see(c See) ([]Event, error) {
	at := c.At.UTC().Truncate(time.Second)
	if at.Unix() <= 0 {
		return nil, domain.Reject(domain.CodeInvalid, "a device is seen at a time")
	}
	if !c.Waiting && at.Unix() < s.known.Seen+int64(SeenEvery/time.Second) {
		return nil, nil
	}
	return []Event{Seen{At: at, Waiting: c.Waiting}}, nil
}

func introduced(i Introduce) Introduced {
	return Introduced{
		Protocol: i.Protocol, Timezone: i.Timezone, Journal: i.Journal, Batch: i.Batch, NameDigest: i.NameDigest, Name: i.Name,
	}
}

// Evolve is the device after an event.
func (s State) Evolve(e Event) State {
	switch e := e.(type) {
	case Introduced:
		s.known.said = said{Protocol: e.Protocol, Timezone: e.Timezone, Journal: e.Journal, Batch: e.Batch, NameDigest: e.NameDigest}
	case Seen:
		s.known.Seen = max(s.known.Seen, e.At.Unix())
	case DataRequested:
		s.known.Open = append(slices.Clone(s.known.Open), request{ID: e.RequestID})
	case MutationRequested:
		s.known.Open = append(slices.Clone(s.known.Open), request{ID: e.RequestID, Write: true})
	case RequestOffered:
		s = s.offered(e)
	case DataAnswered:
		s = s.ended(e.RequestID)
	case DataFailed:
		s = s.ended(e.RequestID)
	case MutationCompleted:
		s = s.ended(e.RequestID)
	case MutationFailed:
		s = s.ended(e.RequestID)
	case LateAnswerRecorded:
	}
	return s
}

// MarshalJSON is the stored form.
func (s State) MarshalJSON() ([]byte, error) { return json.Marshal(s.known) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *State) UnmarshalJSON(b []byte) error {
	*s = State{}
	return json.Unmarshal(b, &s.known)
}
