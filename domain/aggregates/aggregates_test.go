package aggregates_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
)

// view holds one stream's state.
type view struct{ state any }

func (v view) State(domain.Stream) any      { return v.state }
func (v view) Version(domain.Stream) uint64 { return 0 }

// TestNamesAreUnique: a wire name belongs to one type, and begins with its aggregate's kind.
func TestNamesAreUnique(t *testing.T) {
	events, commands := map[string]bool{}, map[string]bool{}
	for _, a := range aggregates.All() {
		for _, set := range []struct {
			kinds []domain.Kind
			seen  map[string]bool
		}{{a.Events, events}, {a.Commands, commands}} {
			for _, k := range set.kinds {
				if set.seen[k.Name()] || !strings.HasPrefix(k.Name(), a.Kind+".") {
					t.Errorf("%s is of %s, or twice", k.Name(), a.Kind)
				}
				set.seen[k.Name()] = true
			}
		}
	}
}

// TestZeroIsTheEmptyStream: the empty state survives its stored form, and every event folds into it.
func TestZeroIsTheEmptyStream(t *testing.T) {
	for _, a := range aggregates.All() {
		state := a.Zero()
		for _, k := range a.Events {
			stored, err := a.EncodeState(a.Evolve(state, k.Fresh().Elem().Interface()))
			if err != nil {
				t.Fatal(a.Kind, k.Name(), err)
			}
			again, err := a.DecodeState(stored)
			if err != nil {
				t.Fatal(a.Kind, k.Name(), err)
			}
			if twice, err := a.EncodeState(again); err != nil || string(twice) != string(stored) {
				t.Errorf("%s after %s: %s became %s, %v", a.Kind, k.Name(), stored, twice, err)
			}
		}
	}
}

// TestNoCommandPanics: the empty command of every kind is answered, on the empty stream.
func TestNoCommandPanics(t *testing.T) {
	for _, a := range aggregates.All() {
		for _, k := range a.Commands {
			c, ok := k.Fresh().Elem().Interface().(domain.Command)
			if !ok {
				t.Errorf("%s is no command", k.Name())
				continue
			}
			if facts, err := a.Decide(view{a.Zero()}, c); err == nil && len(facts) > 0 && !facts[0].Stream.Valid() {
				t.Errorf("%s leads to events of the stream %q", k.Name(), facts[0].Stream)
			}
		}
	}
}

// TestAForeignCommandIsRefused: an aggregate decides its own commands, on its own states.
func TestAForeignCommandIsRefused(t *testing.T) {
	for _, a := range aggregates.All() {
		if a.Kind == "thread" {
			continue
		}
		if _, err := a.Decide(view{a.Zero()}, thread.Open{On: thread.On{Thread: "t"}}); err == nil {
			t.Errorf("%s decided a thread's command", a.Kind)
		}
	}
}
