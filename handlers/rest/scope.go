package rest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

type eventView struct {
	ID         string          `json:"id"`
	Stream     string          `json:"stream"`
	Seq        uint64          `json:"seq"`
	Position   uint64          `json:"position"`
	Type       string          `json:"event_type"`
	Schema     int             `json:"schema"`
	At         string          `json:"at"`
	Actor      json.RawMessage `json:"actor"`
	Data       json.RawMessage `json:"data"`
	Content    any             `json:"content,omitempty"`
	Hash       string          `json:"hash"`
	SealDigest string          `json:"seal_digest,omitempty"`
}

// ListEvents lists the events of the caller's scope after a position, content opened.
func (s *server) ListEvents(ctx context.Context, r contract.ListEventsRequestObject) (contract.ListEventsResponseObject, error) {
	p := r.Params
	if accepts(callOf(ctx).request(), eventStream) {
		return s.feed(ctx, fanout.Want{Filter: fanout.Filter{AgentID: or(p.AgentID, ""), Types: typesOf(p.Types)}}, cursors{p.After, p.LastEventID, p.AfterHash, p.Stored}), nil
	}
	if err := onlyOfStreams(map[string]bool{"after_hash": p.AfterHash != nil, "stored": or(p.Stored, false), "types": p.Types != nil, "agent_id": p.AgentID != nil}); err != nil {
		return nil, err
	}
	if err := s.await(ctx, p.MinPosition, modelEvents); err != nil {
		return nil, err
	}
	scope, after := callOf(ctx).scope(), or(r.Params.After, 0)
	rows, head, err := s.Events.Since(ctx, scope, after, or(r.Params.Limit, defaultLimit), s.CatchUp)
	if err != nil {
		return nil, err
	}
	if after > head.Position {
		return nil, beyond(after, head.Position)
	}
	answer, err := s.pageOf(ctx, rows, after, head.Position)
	if n := len(rows); n > 0 {
		answer.After = rows[n-1].Position
		answer.Head = max(answer.Head, answer.After)
	}
	return reply{http.StatusOK, answer}, err
}

// pageOf opens events.
func (s *server) pageOf(ctx context.Context, rows []streams.Recorded, after, head uint64) (eventPage, error) {
	answer := eventPage{Data: []eventView{}, After: after, Head: head}
	for _, r := range rows {
		v := eventView{ID: r.ID, Stream: string(r.Stream), Seq: r.Version, Position: r.Position, Type: r.Type, Schema: r.Schema, At: r.At,
			Actor: r.Actor, Data: r.Data, Hash: hex.EncodeToString(r.Hash), SealDigest: hex.EncodeToString(r.SealDigest)}
		event, err := s.Schema.Open(ctx, s.Keys, r)
		if err != nil && !errors.Is(err, codec.ErrUnknownType) {
			return answer, fmt.Errorf("rest: open event %s: %w", r.ID, err)
		}
		if err == nil {
			v.Content = content(event)
		}
		answer.Data = append(answer.Data, v)
	}
	return answer, nil
}

type eventPage struct {
	Data  []eventView `json:"data"`
	After uint64      `json:"after"` // for the next request
	Head  uint64      `json:"head"`
}

const maxEffects = 200

// ListEffects lists what the caller's events asked for and what has no outcome yet.
func (s *server) ListEffects(ctx context.Context, r contract.ListEffectsRequestObject) (contract.ListEffectsResponseObject, error) {
	if err := s.await(ctx, r.Params.MinPosition, modelEffects); err != nil {
		return nil, err
	}
	found, err := s.Effects.List(ctx, callOf(ctx).scope(), maxEffects)
	if err != nil {
		return nil, err
	}
	views := make([]contract.Effect, len(found))
	for i, e := range found {
		views[i] = contract.Effect{ID: e.ID, Stream: string(e.Stream), Seq: e.Version, Position: e.Position.Position, Kind: e.Kind, RunID: some(e.Group),
			DeviceID: some(e.Device), Repeatable: e.Repeatable, Started: e.Started, Taken: e.Worker != "" && e.Alive}
	}
	return contract.ListEffects200JSONResponse{Body: contract.EffectPage{Data: views}}, nil
}
