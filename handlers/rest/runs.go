package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// runView is a run's record with its content opened: what was asked, what each turn said, what each tool
// was given and answered.
type runView struct {
	runs.Run
	SessionID string     `json:"session_id"`
	Message   string     `json:"message"`
	Answer    string     `json:"answer"`
	Turns     []turnView `json:"turns"`
	Calls     []callView `json:"calls"`
}

type turnView struct {
	runs.Turn
	Text     string        `json:"text,omitempty"`
	Failures []failureView `json:"failures,omitempty"`
}

type failureView struct {
	runs.Failure
	Detail string `json:"detail,omitempty"`
}

type callView struct {
	runs.Call
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Device    json.RawMessage `json:"device_answer,omitempty"`
	Text      string          `json:"text,omitempty"`
}

func (s *server) getRun(c echo.Context) error {
	q, name, err := single(c, "run")
	if err != nil {
		return err
	}
	if err := s.await(c, q, modelRuns, modelEvents); err != nil {
		return err
	}
	ctx, scope := c.Request().Context(), principal(c).Scope
	run, err := s.Runs.Get(ctx, scope, name)
	if err != nil {
		return err
	}
	events, err := s.Events.Run(ctx, scope, name)
	if err != nil {
		return err
	}
	if n := len(events); n > 0 {
		if done, err := etag(c, events[n-1].Version); done {
			return err
		}
	}
	v, err := s.viewRun(ctx, scope, run, events)
	if err != nil {
		return err
	}
	return s.json(c, http.StatusOK, v)
}

func (s *server) viewRun(ctx context.Context, scope domain.Scope, run runs.Run, events []streams.Recorded) (runView, error) {
	v := runView{Run: run, SessionID: run.Thread, Turns: []turnView{}, Calls: []callView{}}
	opened := map[uint64]any{}
	for _, r := range events {
		event, err := s.Schema.Open(ctx, s.Keys, r)
		if errors.Is(err, codec.ErrUnknownType) {
			continue
		}
		if err != nil {
			return v, fmt.Errorf("rest: open event %s: %w", r.ID, err)
		}
		opened[r.Version] = event
	}
	if e, ok := opened[run.MessageVersion].(thread.MessagePosted); ok {
		v.Message = e.Content.Text
	}
	o := s.opener(scope)
	for _, t := range run.Turns {
		turn := turnView{Turn: t}
		for _, f := range t.Failures {
			failure := failureView{Failure: f}
			if e, ok := opened[f.Version].(thread.TurnFailed); ok {
				failure.Detail = e.Detail.Text
			}
			turn.Failures = append(turn.Failures, failure)
		}
		if e, ok := opened[t.Version].(thread.TurnCompleted); ok {
			item, err := o.assistant(ctx, e)
			if err != nil {
				return v, err
			}
			turn.Text = item.Text
			if t.Version == run.AnswerVersion {
				v.Answer = item.Text
			}
		}
		v.Turns = append(v.Turns, turn)
	}
	for _, one := range run.Calls {
		call := callView{Call: one}
		if e, ok := opened[one.RequestVersion].(thread.ToolCallRequested); ok {
			call.Arguments = e.Payload.Arguments
		}
		switch e := opened[one.ResultVersion].(type) {
		case thread.ToolCallCompleted:
			call.Device, call.Text = e.Result.Device, e.Result.Text
		case thread.ToolCallFailed:
			call.Device, call.Text = e.Result.Device, e.Result.Text
		}
		v.Calls = append(v.Calls, call)
	}
	return v, nil
}

// listRuns lists a thread's runs, the newest first, without content.
func (s *server) listRuns(c echo.Context) error {
	q, err := parameters(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, before := q.limit(50, 200), q.number("cursor", 0)
	if err := q.err(); err != nil {
		return err
	}
	t, err := s.own(c, q, modelRuns)
	if err != nil {
		return err
	}
	found, err := s.Runs.ByThread(c.Request().Context(), t.Scope, t.ID, before, limit+1)
	if err != nil {
		return err
	}
	next := ""
	if len(found) > limit {
		found = found[:limit]
		next = strconv.FormatUint(found[limit-1].MessageVersion, 10)
	}
	return paged(s, c, found, next)
}

// cancelRun ends a run that is active or waits.
func (s *server) cancelRun(c echo.Context) error {
	q, name, err := single(c, "run")
	if err != nil {
		return err
	}
	key, err := requestID(c)
	if err != nil {
		return err
	}
	if err := s.await(c, q, modelRuns); err != nil {
		return err
	}
	run, err := s.Runs.Get(c.Request().Context(), principal(c).Scope, name)
	if err != nil {
		return err
	}
	answer, err := s.ask(c, asked(c, key, nil, thread.Cancel{On: thread.On{Thread: run.Thread}, RunID: name}))
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/api/v1/runs/"+url.PathEscape(name))
	return s.json(c, http.StatusOK, struct {
		RunID     string    `json:"run_id"`
		SessionID string    `json:"session_id"`
		Status    string    `json:"status"`
		At        time.Time `json:"at"`
	}{name, run.Thread, string(runs.Cancelled), answer.DecidedAt.UTC()})
}
