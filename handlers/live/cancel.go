package live

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
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
	run := f.RunID
	if run == "" {
		run = streams.Derive(streams.CommandID(s.scope, f.RequestID), "run")
	}
	s.gate.Go(func() {
		err := s.cancelRun(f.RequestID, run)
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

func (s *session) cancelRun(request, run string) error {
	var id string
	if r := s.requests.find(request, run); r != nil {
		select { // a cancel may not overtake its request
		case <-r.accepted:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		id = r.request.thread
	} else {
		events, err := s.gateway.Events.Run(s.ctx, s.scope, run)
		if err != nil {
			return fmt.Errorf("live: looking for a run: %w", err)
		}
		if len(events) == 0 {
			return &refusal{code: domain.CodeNotFound, words: "there is no such request or run"}
		}
		id = events[0].Stream.ID()
	}
	_, err := s.gateway.insist(s.ctx, streams.Command{
		Scope: s.scope, ID: streams.CommandID(s.scope, "cancel:"+run), Actor: s.actor(),
		Body: thread.Cancel{On: thread.On{Thread: id}, RunID: run},
	})
	return err
}
