package device

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/cairnhq/cairn/domain"
)

// State is what a device said last, without its name.
type State struct {
	known stateJSON
}

type stateJSON struct {
	Protocol   int    `json:"protocol,omitempty"`
	Timezone   string `json:"timezone,omitempty"`
	Journal    bool   `json:"journal,omitempty"`
	Batch      bool   `json:"batch,omitempty"`
	NameDigest string `json:"name_digest,omitempty"`
	Seen       int64  `json:"seen,omitempty"` // Unix seconds
}

// Decide records a hello that says something new, and that the device was seen.
func (s State) Decide(c Command) ([]Event, error) {
	if !c.Target().Valid() {
		return nil, domain.Reject(domain.CodeInvalid, "the device's id is malformed")
	}
	switch c := c.(type) {
	case Introduce:
		return s.introduce(c)
	case See:
		return s.see(c)
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
	if s.Evolve(e) == s {
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
		s.known = stateJSON{
			Protocol: e.Protocol, Timezone: e.Timezone, Journal: e.Journal, Batch: e.Batch, NameDigest: e.NameDigest, Seen: s.known.Seen,
		}
	case Seen:
		s.known.Seen = max(s.known.Seen, e.At.Unix())
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
