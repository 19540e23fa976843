package account

import (
	"encoding/json"

	"github.com/cairnhq/cairn/domain"
)

// State is what an account needs to decide. Its zero value is the account that does not exist.
type State struct {
	tier   Tier
	erased bool
}

func (t Tier) valid() bool {
	switch t {
	case Free, Pro, Power, Team:
		return true
	default:
		return false
	}
}

// Decide is what a command leads to. After an erasure Register and ChangeTier are rejected
// "scope_erased"; Erase is accepted and changes nothing.
func (s State) Decide(c Command) ([]Event, error) {
	switch c := c.(type) {
	case Register:
		tier := c.Tier
		if tier == "" {
			tier = Free
		}
		switch {
		case s.erased:
			return nil, domain.Reject(domain.CodeScopeErased, "the account was erased")
		case !c.Target().Valid():
			return nil, domain.Reject(domain.CodeInvalid, "the account's id is malformed")
		case !tier.valid():
			return nil, domain.Reject(domain.CodeInvalid, "the tiers are free, pro, power and team")
		case s.tier != "":
			return nil, nil
		}
		return []Event{Registered{Tier: tier}}, nil
	case ChangeTier:
		switch {
		case s.erased:
			return nil, domain.Reject(domain.CodeScopeErased, "the account was erased")
		case s.tier == "":
			return nil, domain.Reject(domain.CodeNotFound, "there is no such account")
		case !c.To.valid():
			return nil, domain.Reject(domain.CodeInvalid, "the tiers are free, pro, power and team")
		case s.tier == c.To:
			return nil, nil
		}
		return []Event{TierChanged{From: s.tier, To: c.To}}, nil
	case Erase:
		switch {
		case s.erased:
			return nil, nil
		case s.tier == "":
			return nil, domain.Reject(domain.CodeNotFound, "there is no such account")
		}
		return []Event{Erased{}}, nil
	case On: // a target is no wish by itself
	}
	return nil, domain.Reject(domain.CodeInvalid, "an account knows no such command")
}

// Evolve is the account after an event.
func (s State) Evolve(e Event) State {
	switch e := e.(type) {
	case Registered:
		s.tier = e.Tier
	case TierChanged:
		s.tier = e.To
	case Erased:
		s.erased = true
	}
	return s
}

type stateJSON struct {
	Tier   Tier `json:"tier,omitempty"`
	Erased bool `json:"erased,omitempty"`
}

// MarshalJSON is the stored form.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(stateJSON{Tier: s.tier, Erased: s.erased})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *State) UnmarshalJSON(b []byte) error {
	var stored stateJSON
	err := json.Unmarshal(b, &stored)
	*s = State{tier: stored.Tier, erased: stored.Erased}
	return err
}
