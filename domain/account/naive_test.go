package account_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
)

// naive decides by looking at everything that ever happened to the account.
func naive(past []account.Event, c account.Command) (events []string, code string) {
	var tier account.Tier
	erased := false
	for _, e := range past {
		switch e := e.(type) {
		case account.Registered:
			tier = e.Tier
		case account.TierChanged:
			tier = e.To
		case account.Erased:
			erased = true
		}
	}
	known := func(t account.Tier) bool {
		return t == account.Free || t == account.Pro || t == account.Power || t == account.Team
	}
	_, ending := c.(account.Erase)
	switch {
	case erased && ending:
		return nil, ""
	case erased:
		return nil, domain.CodeScopeErased
	}
	switch c := c.(type) {
	case account.Register:
		if c.Tier == "" {
			c.Tier = account.Free
		}
		switch {
		case !known(c.Tier):
			return nil, domain.CodeInvalid
		case len(past) == 0:
			return []string{fmt.Sprintf("%+v", account.Registered{Tier: c.Tier})}, ""
		}
	case account.ChangeTier:
		switch {
		case len(past) == 0:
			return nil, domain.CodeNotFound
		case !known(c.To):
			return nil, domain.CodeInvalid
		case c.To != tier:
			return []string{fmt.Sprintf("%+v", account.TierChanged{From: tier, To: c.To})}, ""
		}
	case account.Erase:
		if len(past) == 0 {
			return nil, domain.CodeNotFound
		}
		return []string{fmt.Sprintf("%+v", account.Erased{})}, ""
	case account.On: // a target is no wish by itself
	}
	return nil, ""
}

// TestDecidesAsTheNaiveAccount: after any commands, stored and loaded in between, the decider answers what somebody answers who
// remembers everything.
func TestDecidesAsTheNaiveAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var state account.State
		var past []account.Event
		on := account.On{Account: "a"}
		for range rapid.IntRange(1, 20).Draw(t, "commands") {
			tier := rapid.SampledFrom([]account.Tier{account.Free, account.Pro, account.Power, account.Team, "", "gold"}).Draw(t, "tier")
			c := rapid.SampledFrom([]account.Command{
				account.Register{On: on, Tier: tier}, account.ChangeTier{On: on, To: tier}, account.ChangeTier{On: on, To: tier}, account.Erase{On: on},
			}).Draw(t, "command")
			want, wantCode := naive(past, c)
			events, err := state.Decide(c)
			var got []string
			for _, e := range events {
				got = append(got, fmt.Sprintf("%+v", e))
				past, state = append(past, e), state.Evolve(e)
			}
			code := ""
			var no *domain.Rejection
			if errors.As(err, &no) {
				code = no.Code
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got) + cmp.Diff(wantCode, code); diff != "" {
				t.Fatalf("%+v after %+v (-naive +decided):\n%s", c, past, diff)
			}
			stored, err := json.Marshal(state)
			if err == nil {
				err = json.Unmarshal(stored, &state)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
