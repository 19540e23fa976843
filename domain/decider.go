package domain

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Decider is a state with two verbs; its zero value is the empty stream. Only Decide may refuse, with
// a *Rejection; Evolve cannot fail and never sees sealed content. Methods have value receivers.
type Decider[S, C, E any] interface {
	Decide(C) ([]E, error)
	Evolve(E) S
}

// Command is a wish. Target names the one stream it concerns, from its content alone.
type Command interface{ Target() Stream }

// Reader is a command that must hold across streams of its scope: it names them all, from its content alone.
type Reader interface {
	Command
	Reads() []Stream
}

// View is what a scope decider may look at: the states of the streams its command named.
type View interface {
	// State is the state of a stream that Reads named, the zero state if it is empty.
	State(Stream) any
	// Version is the number of events of that stream.
	Version(Stream) uint64
}

// Fact is an event and the stream it belongs to.
type Fact struct {
	Stream Stream
	Event  any
}

// Aggregate is a decider with its types erased, for the writer and for projectors.
type Aggregate struct {
	// Kind is the first part of the stream ids, such as "thread".
	Kind string
	// Fold is raised when Evolve or the state's stored form changes; stored states of another fold are folded again.
	Fold     int
	Commands []Kind
	Events   []Kind

	// Zero is the state of the empty stream.
	Zero func() any
	// Decide may look only at the streams that Reads returned.
	Decide func(View, Command) ([]Fact, error)
	Evolve func(state, event any) any
	// DecodeState and EncodeState are the stored form of the state (JSON).
	DecodeState func([]byte) (any, error)
	EncodeState func(any) ([]byte, error)
}

// Reads are the streams that c needs: its own, or those it names.
func Reads(c Command) []Stream {
	if r, ok := c.(Reader); ok {
		return r.Reads()
	}
	return []Stream{c.Target()}
}

// Single makes an Aggregate of a decider of one stream. C and E are the aggregate's sealed interfaces.
// S stores itself as JSON (MarshalJSON and UnmarshalJSON where its fields are unexported).
func Single[S Decider[S, C, E], C Command, E any](kind string, fold int, commands, events []Kind) Aggregate {
	a := erased[S, E](kind, fold, commands, events, func(s S, e E) S { return s.Evolve(e) })
	a.Decide = func(v View, c Command) ([]Fact, error) {
		command, ok := c.(C)
		if !ok {
			return nil, fmt.Errorf("domain: %T is no command of %s", c, kind)
		}
		state, ok := v.State(c.Target()).(S)
		if !ok {
			return nil, fmt.Errorf("domain: state of %s is %T", c.Target(), v.State(c.Target()))
		}
		events, err := state.Decide(command)
		if err != nil {
			return nil, err
		}
		facts := make([]Fact, len(events))
		for i, e := range events {
			facts[i] = Fact{Stream: c.Target(), Event: e}
		}
		return facts, nil
	}
	return a
}

// Evolver is the half of a decider that folds.
type Evolver[S, E any] interface{ Evolve(E) S }

// Across makes an Aggregate whose commands decide on a view of several streams.
func Across[S Evolver[S, E], C Command, E any](kind string, fold int, commands, events []Kind, decide func(View, C) ([]Fact, error)) Aggregate {
	a := erased[S, E](kind, fold, commands, events, func(s S, e E) S { return s.Evolve(e) })
	a.Decide = func(v View, c Command) ([]Fact, error) {
		command, ok := c.(C)
		if !ok {
			return nil, fmt.Errorf("domain: %T is no command of %s", c, kind)
		}
		return decide(v, command)
	}
	return a
}

func erased[S, E any](kind string, fold int, commands, events []Kind, evolve func(S, E) S) Aggregate {
	return Aggregate{
		Kind: kind, Fold: fold, Commands: commands, Events: events,
		Zero:   func() any { var s S; return s },
		Evolve: func(state, event any) any { return evolve(state.(S), event.(E)) },
		DecodeState: func(b []byte) (any, error) {
			var s S
			err := json.Unmarshal(b, &s)
			return s, err
		},
		EncodeState: func(state any) ([]byte, error) { return json.Marshal(state) },
	}
}

// Fresh is a new pointer to the struct of k, for decoding.
func (k Kind) Fresh() reflect.Value { return reflect.New(k.typ) }
