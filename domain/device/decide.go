package device

import (
	"encoding/json"
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
}

// Decide records a hello that says something new.
func (s State) Decide(c Command) ([]Event, error) {
	i, ok := c.(Introduce)
	if !ok {
		return nil, domain.Reject(domain.CodeInvalid, "a device knows no such command")
	}
	switch {
	case !i.Target().Valid():
		return nil, domain.Reject(domain.CodeInvalid, "the device's id is malformed")
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

func introduced(i Introduce) Introduced {
	return Introduced{
		Protocol: i.Protocol, Timezone: i.Timezone, Journal: i.Journal, Batch: i.Batch, NameDigest: i.NameDigest, Name: i.Name,
	}
}

// Evolve is the device after an event.
func (s State) Evolve(e Event) State {
	if e, ok := e.(Introduced); ok {
		s.known = stateJSON{
			Protocol: e.Protocol, Timezone: e.Timezone, Journal: e.Journal, Batch: e.Batch, NameDigest: e.NameDigest,
		}
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
