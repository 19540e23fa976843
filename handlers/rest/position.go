package rest

import (
	"context"
	"errors"
	"math"
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
	call.at = at.Position
	call.header().Set(HeaderPosition, at.String())
	return nil
}

// notThere says of a model that is behind, or stands still, where the caller wants it and how far it is; and
// of a position that there is not, that there is not.
func (s *server) notThere(ctx context.Context, want streams.Position, err error) error {
	var (
		behind  *projections.Behind
		stopped *projections.Stopped
		paused  *projections.Paused
		unknown *projections.Unknown
	)
	p := &problem{MinPosition: want.String(), Numbers: map[string]int64{"wanted_position": int64(want.Position)}}
	var next int64 // the offset that the model reads next
	switch {
	case errors.As(err, &unknown):
		p.Code, p.Detail = "position_unknown", "min_position lies beyond the end of the log"
		next = math.MaxInt64 // what there is of the scope
	case errors.As(err, &stopped):
		p.Code, p.retryAfter, next = "stopped", 30*time.Second, stopped.Offset
		p.Detail = "the read model " + stopped.Projection + " has stopped before min_position; an operator must look at it"
	case errors.As(err, &paused):
		p.Code, p.retryAfter, next = "paused", 30*time.Second, paused.Next
		p.Detail = "an operator paused the read model " + paused.Projection + " before min_position"
	case errors.As(err, &behind):
		p.Code, p.retryAfter, next = "behind", time.Second, behind.Next
		p.Detail = "the read model " + behind.Model + " has not reached min_position"
	default:
		return err
	}
	reached, err := s.Events.Reached(ctx, want.Scope, want.Era, next)
	if err != nil {
		return err
	}
	p.Position, p.Numbers["reached_position"] = reached.String(), int64(reached.Position)
	return p
}
