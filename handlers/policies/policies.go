// Package policies runs the policies: quick handlers on the log that turn an event into commands, at least once, and do
// nothing else. Whether something happens, the decider checks. Slow work is an effect, and not here.
package policies

import (
	"context"
	"fmt"

	"github.com/cairnhq/cairn/domain"
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
	// position. Of an error that says nothing about the event (see passing) the event waits; any other, and not to
	// end in time, is tried again a few times, and then the event is parked.
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
	again  refusals
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
