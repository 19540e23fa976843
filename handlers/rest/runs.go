package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections/events"
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

// GetRun answers a run's whole record.
func (s *server) GetRun(ctx context.Context, r contract.GetRunRequestObject) (contract.GetRunResponseObject, error) {
	if err := nameable(r.Run); err != nil {
		return nil, err
	}
	if err := s.await(ctx, r.Params.MinPosition, modelRuns, modelEvents); err != nil {
		return nil, err
	}
	call := callOf(ctx)
	run, err := s.Runs.Get(ctx, call.scope(), r.Run)
	if err != nil {
		return nil, err
	}
	rows, err := s.Events.Run(ctx, call.scope(), r.Run)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0].Version > run.MessageVersion { // or the events model is behind this one
		floor, err := s.Events.Floor(ctx, threadKey(call.scope(), run.Thread))
		if err != nil {
			return nil, err
		}
		if floor > run.MessageVersion {
			return nil, events.ErrPruned
		}
	}
	// The record may be behind its events: then it is not that version, and one who kept it under that tag
	// would never see the end.
	if n := len(rows); n > 0 && rows[n-1].Position <= call.at && call.fresh(rows[n-1].Version, r.Params.IfNoneMatch) {
		return contract.GetRun304Response{}, nil
	}
	v, err := s.viewRun(ctx, call.scope(), run, rows)
	if err != nil {
		return nil, err
	}
	return reply{http.StatusOK, v}, nil
}

func (s *server) viewRun(ctx context.Context, scope domain.Scope, run runs.Run, rows []streams.Recorded) (runView, error) {
	v := runView{Run: run, SessionID: run.Thread, Turns: []turnView{}, Calls: []callView{}}
	opened := map[uint64]any{}
	for _, r := range rows {
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

// ListThreadRuns lists a thread's runs, the newest first, without content.
func (s *server) ListThreadRuns(ctx context.Context, r contract.ListThreadRunsRequestObject) (contract.ListThreadRunsResponseObject, error) {
	before := uint64(0)
	if r.Params.Cursor != nil {
		var err error
		if before, err = strconv.ParseUint(*r.Params.Cursor, 10, 63); err != nil {
			return nil, invalid(wrong{Pointer: "cursor", Detail: notGivenOut})
		}
	}
	t, err := s.own(ctx, r.Thread, r.Params.MinPosition, modelRuns)
	if err != nil {
		return nil, err
	}
	limit := or(r.Params.Limit, defaultLimit)
	found, err := s.Runs.ByThread(ctx, t.Scope, t.ID, before, limit+1)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(found) > limit {
		found = found[:limit]
		next = strconv.FormatUint(found[limit-1].MessageVersion, 10)
	}
	return reply{http.StatusOK, page[runs.Run]{present(found), callOf(ctx).next(next)}}, nil
}

// ListRuns lists an agent's runs, the newest first, without content.
func (s *server) ListRuns(ctx context.Context, r contract.ListRunsRequestObject) (contract.ListRunsResponseObject, error) {
	if err := s.await(ctx, r.Params.MinPosition, modelRuns); err != nil {
		return nil, err
	}
	call := callOf(ctx)
	found, next, err := s.Runs.ByAgent(ctx, call.scope(), r.Params.Agent, or(r.Params.Cursor, ""), or(r.Params.Limit, defaultLimit))
	if errors.Is(err, runs.ErrCursor) {
		return nil, invalid(wrong{Pointer: "cursor", Detail: notGivenOut})
	}
	if err != nil {
		return nil, err
	}
	return reply{http.StatusOK, page[runs.Run]{present(found), call.next(next)}}, nil
}

// CancelRun ends a run that is active or waits.
func (s *server) CancelRun(ctx context.Context, r contract.CancelRunRequestObject) (contract.CancelRunResponseObject, error) {
	if err := nameable(r.Run); err != nil {
		return nil, err
	}
	if err := s.await(ctx, r.Params.MinPosition, modelRuns); err != nil {
		return nil, err
	}
	call := callOf(ctx)
	run, err := s.Runs.Get(ctx, call.scope(), r.Run)
	if err != nil {
		return nil, err
	}
	_, command := asked(ctx, r.Params.IdempotencyKey, thread.Cancel{On: thread.On{Thread: run.Thread}, RunID: r.Run})
	answer, err := s.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	call.header().Set("Location", "/api/v1/runs/"+url.PathEscape(r.Run))
	return contract.CancelRun200JSONResponse{Body: contract.CancelledRun{RunID: r.Run, SessionID: run.Thread, Status: string(runs.Cancelled),
		At: answer.DecidedAt.UTC()}}, nil
}
