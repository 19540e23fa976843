package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// stop takes a cancel. The request's end comes as any other.
func (s *session) stop(frame []byte) error {
	var f struct {
		RequestID string `json:"request_id"`
		RunID     string `json:"run_id"`
	}
	if err := json.Unmarshal(frame, &f); err != nil {
		return errors.New("the fields of cancel are not of their types")
	}
	if f.RequestID == "" && f.RunID == "" {
		s.fail(errorFrame{Code: domain.CodeInvalid, Message: "cancel needs a request_id or a run_id"})
		return nil
	}
	if err := s.admit(); err != nil {
		problem := refused(err)
		problem.RequestID = f.RequestID
		s.fail(problem)
		return nil
	}
	run := f.RunID
	if run == "" {
		run = streams.Derive(streams.CommandID(s.scope, f.RequestID), "run")
	}
	s.gate.Go(func() {
		ctx, span := s.gateway.received(s.ctx, "cancel", traceparentOf(frame), run)
		defer span.End()
		err := s.cancelRun(ctx, f.RequestID, run)
		var rejected *domain.Rejection
		if errors.As(err, &rejected) && rejected.Code == thread.CodeRunEnded {
			return // it has its end
		}
		if err != nil && s.ctx.Err() == nil {
			problem := refused(err)
			problem.RequestID = f.RequestID
			s.fail(problem)
		}
	})
	return nil
}

func (s *session) cancelRun(ctx context.Context, request, run string) error {
	var id string
	if r := s.requests.find(request, run); r != nil {
		select { // a cancel may not overtake its request
		case <-r.accepted:
		case <-ctx.Done():
			return ctx.Err()
		}
		id = r.request.thread
	} else {
		stream, err := s.gateway.streamOf(ctx, s.scope, run)
		if err != nil {
			return err
		}
		id = stream.ID()
	}
	// A wish of its own each time: what was answered before the run was there says nothing of it.
	_, err := s.gateway.insist(ctx, streams.Command{
		Scope: s.scope, ID: uuid.NewString(), Actor: s.actor(),
		Body: thread.Cancel{On: thread.On{Thread: id}, RunID: run},
	})
	return err
}

// lookFor is how long a run is looked for: stored events lag behind the log a little.
const lookFor = time.Second

// streamOf is the thread's stream that a run belongs to.
func (g *Gateway) streamOf(ctx context.Context, scope domain.Scope, run string) (domain.Stream, error) {
	late := time.NewTimer(lookFor)
	defer late.Stop()
	for {
		changed := g.Waiter.Changed(events.Name)
		found, err := g.Events.Run(ctx, scope, run)
		if err != nil {
			return "", fmt.Errorf("live: looking for a run: %w", err)
		}
		if len(found) > 0 {
			return found[0].Stream, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return "", &refusal{code: domain.CodeNotFound, words: "there is no such request or run"}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
