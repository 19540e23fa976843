package account_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
)

func TestDecide(t *testing.T) {
	on := account.On{Account: "a"}
	free := []account.Event{account.Registered{Tier: account.Free}}
	pro := append(free, account.TierChanged{From: account.Free, To: account.Pro})
	erased := append(free, account.Erased{})
	for name, c := range map[string]struct {
		given []account.Event
		when  account.Command
		then  []account.Event
		code  string
	}{
		"register":                    {nil, account.Register{On: on}, free, ""},
		"register on a tier":          {nil, account.Register{On: on, Tier: account.Team}, []account.Event{account.Registered{Tier: account.Team}}, ""},
		"register on no tier":         {nil, account.Register{On: on, Tier: "gold"}, nil, domain.CodeInvalid},
		"register under a bad id":     {nil, account.Register{On: account.On{Account: "A@b"}}, nil, domain.CodeInvalid},
		"register again":              {free, account.Register{On: on, Tier: account.Pro}, nil, ""},
		"register what was erased":    {erased, account.Register{On: on}, nil, domain.CodeScopeErased},
		"change the tier":             {free, account.ChangeTier{On: on, To: account.Pro}, pro[1:], ""},
		"change it to what it is":     {pro, account.ChangeTier{On: on, To: account.Pro}, nil, ""},
		"change it to nothing":        {free, account.ChangeTier{On: on}, nil, domain.CodeInvalid},
		"change nobody's":             {nil, account.ChangeTier{On: on, To: account.Pro}, nil, domain.CodeNotFound},
		"change that of one erased":   {erased, account.ChangeTier{On: on, To: account.Pro}, nil, domain.CodeScopeErased},
		"erase":                       {pro, account.Erase{On: on}, []account.Event{account.Erased{}}, ""},
		"erase nobody":                {nil, account.Erase{On: on}, nil, domain.CodeNotFound},
		"erase again changes nothing": {erased, account.Erase{On: on}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var state account.State
			for _, e := range c.given {
				b, err := json.Marshal(state.Evolve(e))
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(b, &state); err != nil {
					t.Fatal(err)
				}
			}
			got, err := state.Decide(c.when)
			code := ""
			if no := (*domain.Rejection)(nil); errors.As(err, &no) {
				code = no.Code
			}
			if code != c.code || (err == nil) != (c.code == "") {
				t.Errorf("answered %v, want %q", err, c.code)
			}
			if diff := cmp.Diff(c.then, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
