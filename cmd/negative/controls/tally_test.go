package controls_test

import (
	"encoding/json"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// tally is the aggregate of these tests: it counts its events.
type tally struct{ n int }

type added struct {
	N int `json:"n"`
}

type add struct {
	Tally string `json:"tally"`
}

func (a add) Target() domain.Stream { return domain.NewStream("tally", a.Tally) }

func (t tally) Evolve(added) tally { return tally{t.n + 1} }

func (t tally) MarshalJSON() ([]byte, error) { return json.Marshal(t.n) }

func (t *tally) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &t.n) }

// release is the schema of a program that makes so many events of an add: two releases decide differently.
func release(t testing.TB, events int) *codec.Schema {
	t.Helper()
	schema, err := codec.New(domain.Across[tally, add, added]("tally", 1,
		[]domain.Kind{domain.Named[add]("tally.add")}, []domain.Kind{domain.Named[added]("tally.added")},
		func(v domain.View, c add) ([]domain.Fact, error) {
			n := v.State(c.Target()).(tally).n
			var facts []domain.Fact
			for i := range events {
				facts = append(facts, domain.Fact{Stream: c.Target(), Event: added{N: n + i + 1}})
			}
			return facts, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// scope is whose commands these are.
const scope domain.Scope = "user-a"

func wish(request, to string) codec.Envelope {
	return codec.Envelope{
		Scope: scope, ID: streams.CommandID(scope, request), Actor: domain.Actor{Kind: domain.ActorUser, ID: "a"},
		Fingerprint: []byte(request), Body: add{Tally: to},
	}
}
