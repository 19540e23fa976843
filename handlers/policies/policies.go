// Package policies runs the policies: quick handlers on the log that turn an event into commands, at least once, and do
// nothing else. Whether something happens, the decider checks. Slow work is an effect, and not here.
package policies

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Policy says which commands follow from which events.
type Policy struct {
	// Name never changes: the policy's place in the log and the ids of its commands hang on it.
	Name string
	// Types are the wire names of the events that it looks at.
	Types []string
	// React answers the commands that follow from an event. It may read what a read model says at the event's
	// position. Of an error that says nothing about the event (see passing) the event waits; any other is tried
	// again a few times, and then the event is parked.
	React func(ctx context.Context, e Event) ([]Wish, error)
}

// Event is an event, with its clear data decoded.
type Event struct {
	streams.Recorded
	Value any
}

// Wish is a command that follows from an event, in the event's scope.
type Wish struct {
	// For tells the wishes that follow from one event apart; one alone needs none.
	For  string
	Body domain.Command
}

// reactor carries out what a policy says.
type reactor struct {
	policy Policy
	schema *codec.Schema
	asker  streams.Asker
}

// handle asks for what follows from an event. It may be done again: the commands have the same ids then.
func (r *reactor) handle(ctx context.Context, recorded streams.Recorded) error {
	value, err := r.schema.Decode(recorded)
	if err != nil {
		return err
	}
	wishes, err := r.policy.React(ctx, Event{Recorded: recorded, Value: value})
	if err != nil {
		return err
	}
	for _, w := range wishes {
		if err := r.ask(ctx, recorded, w); err != nil {
			return fmt.Errorf("asking for what follows from event %s: %w", recorded.ID, err)
		}
	}
	return nil
}

// ask sends a command. A rejection is an answer like any other: the decider has looked.
func (r *reactor) ask(ctx context.Context, e streams.Recorded, w Wish) error {
	_, err := r.asker.Ask(ctx, streams.Command{
		Scope: e.Scope, ID: commandID(r.policy.Name, e, w.For), Actor: domain.Actor{Kind: domain.ActorPolicy, ID: r.policy.Name},
		CorrelationID: e.CorrelationID, CausationID: e.ID, Body: w.Body,
	})
	var rejected *domain.Rejection
	if errors.As(err, &rejected) || errors.Is(err, streams.ErrScopeErased) {
		return nil
	}
	return err
}

// commandID follows from the policy and the event, so that a repeat is known as one.
func commandID(policy string, e streams.Recorded, target string) string {
	return streams.OwnID(e.Scope, "policy:"+policy+":"+e.ID+":"+target)
}

// passing reports whether an error says nothing about the event: something that the policy needs is away, or busy, or
// nobody knows the answer yet. Then the event waits, and is never parked.
func passing(err error) bool {
	var busy *streams.Busy
	var behind *projections.Behind
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return true
	case errors.Is(err, streams.ErrOutcomeUnknown), errors.Is(err, streams.ErrKeysUnreachable), errors.Is(err, streams.ErrKeyAbsent):
		return true
	case errors.As(err, &busy), errors.As(err, &behind), errors.Is(err, projections.ErrStopped):
		return true
	}
	return projections.Away(err)
}
