package kafka_test

import (
	"encoding/json"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/codec"
)

// tally is the aggregate of these tests: a number that grows.
type tally struct{ n, count int }

func (t tally) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{t.n, t.count}) }

func (t *tally) UnmarshalJSON(b []byte) error {
	var v [2]int
	err := json.Unmarshal(b, &v)
	t.n, t.count = v[0], v[1]
	return err
}

type tallyEvent interface{ tallyEvent() }

type added struct {
	By   int  `json:"by"`
	Sour bool `json:"sour,omitempty"` // folding it panics
	Note note `json:"-" sealed:"true"`
}

type note struct {
	Text string `json:"text"`
}

func (added) tallyEvent() {}

type tallyCommand interface {
	domain.Command
	tallyCommand()
}

// add grows a tally, and the others named by Also; by zero is refused.
type add struct {
	Tally string   `json:"tally"`
	By    int      `json:"by"`
	Also  []string `json:"also,omitempty"`
	Do    string   `json:"do,omitempty"`
	Note  note     `json:"-" sealed:"true"`
}

func (add) tallyCommand() {}

func (a add) Target() domain.Stream { return domain.NewStream("tally", a.Tally) }

func (a add) Reads() []domain.Stream {
	all := []domain.Stream{a.Target()}
	for _, other := range a.Also {
		all = append(all, domain.NewStream("tally", other))
	}
	return all
}

func (t tally) Evolve(e tallyEvent) tally {
	a := e.(added)
	if a.Sour {
		panic("sour")
	}
	if a.Note.Text != "" {
		panic("Evolve sees sealed content")
	}
	return tally{t.n + a.By, t.count + 1}
}

// decideTally splits what it adds in as many events as its release says.
func decideTally(release int) func(domain.View, tallyCommand) ([]domain.Fact, error) {
	return func(v domain.View, c tallyCommand) ([]domain.Fact, error) {
		a := c.(add)
		switch {
		case a.By == 0:
			return nil, domain.Reject("nothing", "nothing to add to %d", v.State(a.Target()).(tally).n)
		case a.Do == "panic":
			panic("a decider that was asked to")
		case a.Do == "look":
			v.State("tally-unnamed")
		case a.Do == "stray":
			return []domain.Fact{{Stream: "tally-unnamed", Event: added{By: 1}}}, nil
		}
		var facts []domain.Fact
		for _, s := range a.Reads() {
			for range release {
				facts = append(facts, domain.Fact{Stream: s, Event: added{By: a.By, Sour: a.Do == "sour", Note: a.Note}})
			}
		}
		return facts, nil
	}
}

// life is the aggregate whose erasure ends a scope.
type life struct{}

type erased struct{}

type erase struct{ Who string }

func (e erase) Target() domain.Stream { return domain.NewStream("account", e.Who) }

func (l life) Decide(erase) ([]erased, error) { return []erased{{}}, nil }
func (l life) Evolve(erased) life             { return l }

// release is the schema of a program that splits what it adds in n events.
func release(t testing.TB, n, fold int) *codec.Schema {
	t.Helper()
	schema, err := codec.New(
		domain.Across[tally, tallyCommand, tallyEvent]("tally", fold,
			[]domain.Kind{domain.Named[add]("tally.add")}, []domain.Kind{domain.Named[added]("tally.added")}, decideTally(n)),
		domain.Single[life, erase, erased]("account", 1,
			[]domain.Kind{domain.Named[erase]("account.erase")}, []domain.Kind{domain.Named[erased]("account.erased")}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
