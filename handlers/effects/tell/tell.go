// Package tell sends the outcome of an effect to its stream until it is known to be decided. It never
// does the effect's work again.
package tell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// How long it waits between attempts.
const (
	first = 200 * time.Millisecond
	most  = 5 * time.Second
)

// Outcome sends the command, again under the same id while nobody knows whether it was decided or it
// could not be sent. It answers the rejection if the decision is no, nil if it is yes, and an error only
// when ctx ends.
func Outcome(ctx context.Context, asker streams.Asker, c streams.Command) (*domain.Rejection, error) {
	for wait := first; ; wait = min(2*wait, most) {
		_, err := asker.Ask(ctx, c)
		var rejected *domain.Rejection
		var busy *streams.Busy
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, &rejected):
			return rejected, nil
		case errors.As(err, &busy) && busy.RetryAfter > wait:
			wait = min(busy.RetryAfter, most)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("tell the outcome: %w (last: %w)", ctx.Err(), err)
		case <-timer.C:
		}
	}
}

// Unheard says whether a rejection means that the stream did not take the outcome and still waits for
// one, rather than that it has one already.
func Unheard(r *domain.Rejection) bool {
	switch r.Code {
	case domain.CodeTooLarge, domain.CodeInvalid, domain.CodeInternal:
		return true
	}
	return false
}
