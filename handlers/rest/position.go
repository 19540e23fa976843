package rest

import (
	"context"
	"errors"
	"time"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// HeaderPosition carries where the caller's scope stood: after a write, or at least at a read.
const HeaderPosition = "Position"

// glance is how long a read looks for the newest position without being asked to.
const glance = 100 * time.Millisecond

// await waits until the models have the request's min_position, and sets the answer's Position: one that
// the models have already when they are read afterwards, and so a safe "after" for a subscription.
func (s *server) await(ctx context.Context, minimum *string, models ...string) error {
	call := callOf(ctx)
	at := streams.Position{Scope: call.scope()}
	if minimum != nil {
		p, err := streams.ParsePosition(*minimum)
		if err != nil {
			return fail("malformed_position", "min_position is not a text that a Position header carried")
		}
		if p.Scope != at.Scope {
			return fail("foreign_position", "min_position belongs to another scope")
		}
		if err := s.Waiter.Wait(ctx, p, models...); err != nil {
			return s.notThere(ctx, p, err)
		}
		at = p
	}
	head, err := s.Events.Head(ctx, at.Scope)
	if err != nil {
		return err
	}
	if head.Position > at.Position {
		// A model that is behind events answers with what it surely has.
		short, cancel := context.WithTimeout(ctx, glance)
		defer cancel()
		if s.Waiter.Wait(short, head, models...) == nil {
			at = head
		}
	}
	call.header().Set(HeaderPosition, at.String())
	return nil
}

// notThere says of a model that is behind, or stands still, where the caller wants it and how far it is.
func (s *server) notThere(ctx context.Context, want streams.Position, err error) error {
	p := &problem{MinPosition: want.String(), Numbers: map[string]int64{"wanted_position": int64(want.Position)}}
	var behind *projections.Behind
	var stopped *projections.Stopped
	model := ""
	switch {
	case errors.As(err, &stopped):
		model, p.Code, p.retryAfter = stopped.Projection, "stopped", 30*time.Second
		p.Detail = "the read model " + model + " has stopped before min_position; an operator must look at it"
	case errors.As(err, &behind):
		model, p.Code, p.retryAfter = behind.Model, "behind", time.Second
		p.Detail = "the read model " + model + " has not reached min_position"
	default:
		return err
	}
	head, err := s.Events.Head(ctx, want.Scope)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	if s.Waiter.Wait(short, head, model) == nil { // else it lags behind events, too
		p.Position, p.Numbers["reached_position"] = head.String(), int64(head.Position)
	}
	return p
}
