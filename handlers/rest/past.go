package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/streams"
)

// pastThread answers a thread as it was after one of its events.
func (s *server) pastThread(ctx context.Context, r contract.GetThreadRequestObject, at uint64) (contract.GetThreadResponseObject, error) {
	if err := nameable(r.Thread); err != nil {
		return nil, err
	}
	if err := s.await(ctx, r.Params.MinPosition, modelEvents); err != nil {
		return nil, err
	}
	key := threadKey(callOf(ctx).scope(), r.Thread)
	window, err := s.Events.Window(ctx, key)
	if err != nil {
		return nil, err
	}
	if at > window.Max {
		return nil, invalid(wrong{Pointer: "at", Detail: fmt.Sprintf("%d does not exist yet; the newest is %d", at, window.Max)})
	}
	if window.Min > 1 {
		return nil, events.ErrPruned
	}
	if callOf(ctx).fresh(at, r.Params.IfNoneMatch) {
		return contract.GetThread304Response{}, nil
	}
	past, _, err := s.Events.Past(ctx, key, at, s.Schema, threads.New(nil).Projector())
	if err != nil {
		return nil, err
	}
	found := threads.Past(past)
	if len(found) == 0 {
		return nil, projections.ErrNotFound // an operator stepped over all of its events
	}
	v, err := s.viewThread(ctx, found[0])
	if err != nil {
		return nil, err
	}
	return contract.GetThread200JSONResponse{Body: v}, nil
}

// pastLength is how many elements a list of a past scope has at most.
const pastLength = 200

// pastScope is a scope as it was.
type pastScope struct {
	Scope       domain.Scope          `json:"scope"`
	Position    uint64                `json:"position"`
	At          *string               `json:"at"`
	Counts      contract.ScopeCounts  `json:"counts"`
	Threads     []contract.Thread     `json:"threads"`
	OpenRuns    []runs.Run            `json:"open_runs"`
	Devices     []contract.PastDevice `json:"devices"`
	OpenEffects []contract.PastEffect `json:"open_effects"`
	Timers      []contract.Timer      `json:"timers"`
}

// GetScope answers the caller's whole account as it was at a position.
func (s *server) GetScope(ctx context.Context, r contract.GetScopeRequestObject) (contract.GetScopeResponseObject, error) {
	scope := callOf(ctx).scope()
	if r.Scope != string(scope) {
		return nil, fail("not_found", "there is nothing with that name that belongs to you")
	}
	if err := s.await(ctx, r.Params.MinPosition, modelEvents); err != nil {
		return nil, err
	}
	head, err := s.Events.Head(ctx, scope)
	if err != nil {
		return nil, err
	}
	at := or(r.Params.At, head.Position)
	if at > head.Position {
		return nil, invalid(wrong{Pointer: "at", Detail: fmt.Sprintf("%d does not exist yet; the newest is %d", at, head.Position)})
	}
	past, last, err := s.Events.Past(ctx, streams.StreamKey{Scope: scope}, at, s.Schema, threads.New(nil).Projector(), runs.New(nil).Projector(),
		devices.New(nil).Projector(), openeffects.New(nil).Projector(), timers.New(nil).Projector())
	if err != nil {
		return nil, err
	}
	v, err := s.viewPast(ctx, past)
	if err != nil {
		return nil, err
	}
	v.Scope, v.Position, v.At = scope, at, some(last.At)
	return reply{http.StatusOK, v}, nil
}

func (s *server) viewPast(ctx context.Context, past *projections.Past) (pastScope, error) {
	v := pastScope{Threads: []contract.Thread{}, OpenRuns: []runs.Run{}, Devices: []contract.PastDevice{}, OpenEffects: []contract.PastEffect{}, Timers: []contract.Timer{}}
	v.Counts.Runs = map[string]int{}
	for i, t := range threads.Past(past) {
		v.Counts.Threads, v.Counts.Messages = v.Counts.Threads+1, v.Counts.Messages+t.Messages
		if i >= pastLength {
			continue
		}
		view, err := s.viewThread(ctx, t)
		if err != nil {
			return v, err
		}
		v.Threads = append(v.Threads, view)
	}
	for _, run := range runs.Past(past) {
		v.Counts.Runs[string(run.Status)]++
		if !run.Status.Ended() && len(v.OpenRuns) < pastLength {
			v.OpenRuns = append(v.OpenRuns, run)
		}
	}
	for _, d := range devices.Past(past) {
		if v.Counts.Devices++; v.Counts.Devices <= pastLength {
			v.Devices = append(v.Devices, contract.PastDevice{ID: d.ID, Protocol: d.Protocol, Timezone: some(d.Timezone), Journal: d.Journal, Batch: d.Batch,
				IntroducedAt: d.IntroducedAt, UpdatedAt: d.UpdatedAt, Version: d.Version})
		}
	}
	for _, e := range openeffects.Past(past) {
		if v.Counts.OpenEffects++; v.Counts.OpenEffects <= pastLength {
			v.OpenEffects = append(v.OpenEffects, contract.PastEffect{ID: e.ID, Stream: string(e.Stream), Seq: e.Version, Position: e.Position.Position,
				Kind: e.Kind, RunID: some(e.Group), DeviceID: some(e.Device), Repeatable: e.Repeatable, Started: e.Started})
		}
	}
	for _, t := range timers.Past(past) {
		if v.Counts.Timers++; v.Counts.Timers <= pastLength {
			v.Timers = append(v.Timers, contract.Timer{ID: t.ID, Stream: string(t.Stream), Due: t.Due.UTC(), RunID: some(t.Group), Position: t.Position.Position})
		}
	}
	return v, nil
}
