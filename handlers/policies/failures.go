package policies

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// passing reports whether an error says nothing about the event: something that the policy needs is away, or busy, or
// nobody knows the answer yet. Then the event waits, and is never parked. That a try was out of time says something:
// the event of which every try is would else hold up its partition for ever, and in silence.
func passing(err error) bool {
	var waits *waiting
	var busy *streams.Busy
	var behind *projections.Behind
	switch {
	case errors.As(err, &waits), errors.Is(err, errNotYet):
		return true
	case errors.Is(err, streams.ErrOutcomeUnknown), errors.Is(err, streams.ErrKeysUnreachable), errors.Is(err, streams.ErrKeyAbsent):
		return true
	case errors.As(err, &busy), errors.As(err, &behind), errors.Is(err, projections.ErrStopped):
		return true
	}
	return projections.Away(err)
}

// waiting is an error that says nothing about the event because of when it came.
type waiting struct{ err error }

// Error says what for.
func (w *waiting) Error() string { return w.err.Error() }

// Unwrap is what came.
func (w *waiting) Unwrap() error { return w.err }

// whileFed is the outermost of what knows a try's failure: none counts once the source has taken the event back, because
// the process ends or another has the partition.
func whileFed(h message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		source := m.Context()
		out, err := h(m)
		if err != nil && source.Err() != nil {
			err = &waiting{err}
		}
		return out, err
	}
}

// within gives a try its time. One that was out of time counts as failed if Postgres and Kafka answer: what waits for
// them may not say so, but only that its time was over.
func (r *Runner) within(h message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		source := m.Context()
		ctx, cancel := context.WithTimeout(source, r.config.Within)
		defer cancel()
		m.SetContext(ctx)
		defer m.SetContext(source)
		out, err := h(m)
		if err == nil || passing(err) || ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			return out, err
		}
		if away := r.away(source, m); away != nil {
			return out, &waiting{fmt.Errorf("%w (%w)", err, away)}
		}
		return out, fmt.Errorf("it was out of time (a try has %v): %w", r.config.Within, err)
	}
}

// away is why Postgres or Kafka does not answer just now, if that is so.
func (r *Runner) away(ctx context.Context, m *message.Message) error {
	ctx, cancel := context.WithTimeout(ctx, min(r.config.Within, 5*time.Second))
	defer cancel()
	recorded, err := recordedOf(m.Payload)
	if err != nil {
		return nil //nolint:nilerr // it says something of the event
	}
	if _, _, err := r.config.Places.Load(ctx, "", recorded.Place.Partition); err != nil {
		return err
	}
	_, err = r.config.Tailer.End(ctx, recorded.Place.Partition)
	return err
}
