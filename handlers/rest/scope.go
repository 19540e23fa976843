package rest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

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

// scopeEvents lists the events of the caller's scope after a position, content opened.
func (s *server) scopeEvents(c echo.Context) error {
	q, err := parameters(c, "after", "limit")
	if err != nil {
		return err
	}
	after, limit := q.number("after", 0), q.limit(50, 200)
	if err := q.err(); err != nil {
		return err
	}
	if err := s.await(c, q, modelEvents); err != nil {
		return err
	}
	ctx, scope := c.Request().Context(), principal(c).Scope
	head, err := s.Events.Head(ctx, scope)
	if err != nil {
		return err
	}
	if after > head.Position {
		return invalid(wrong{Pointer: "after", Detail: fmt.Sprintf("%d does not exist yet; the newest is %d", after, head.Position)})
	}
	rows, err := s.Events.ByScope(ctx, scope, after, limit)
	if err != nil {
		return err
	}
	answer := struct {
		Data  []eventView `json:"data"`
		After uint64      `json:"after"` // for the next request
		Head  uint64      `json:"head"`
	}{Data: []eventView{}, After: after, Head: head.Position}
	for _, r := range rows {
		v := eventView{ID: r.ID, Stream: string(r.Stream), Seq: r.Version, Position: r.Position, Type: r.Type, Schema: r.Schema, At: r.At,
			Actor: r.Actor, Data: r.Data, Hash: hex.EncodeToString(r.Hash), SealDigest: hex.EncodeToString(r.SealDigest)}
		event, err := s.Schema.Open(ctx, s.Keys, r)
		if err != nil && !errors.Is(err, codec.ErrUnknownType) {
			return fmt.Errorf("rest: open event %s: %w", r.ID, err)
		}
		if err == nil {
			v.Content = content(event)
		}
		answer.Data, answer.After = append(answer.Data, v), r.Position
		answer.Head = max(answer.Head, r.Position)
	}
	return s.json(c, http.StatusOK, answer)
}

type effectView struct {
	ID         string `json:"id"`
	Stream     string `json:"stream"`
	Seq        uint64 `json:"seq"`
	Position   uint64 `json:"position"`
	Kind       string `json:"kind"`
	RunID      string `json:"run_id,omitempty"`
	DeviceID   string `json:"device_id,omitempty"`
	Repeatable bool   `json:"repeatable"`
	Started    bool   `json:"started"`
	Taken      bool   `json:"taken"` // a living worker has it
}

const maxEffects = 200

// openEffects lists what the caller's events asked for and what has no outcome yet.
func (s *server) openEffects(c echo.Context) error {
	q, err := parameters(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	if err := s.await(c, q, modelEffects); err != nil {
		return err
	}
	found, err := s.Effects.List(c.Request().Context(), principal(c).Scope, maxEffects)
	if err != nil {
		return err
	}
	views := make([]effectView, len(found))
	for i, e := range found {
		views[i] = effectView{ID: e.ID, Stream: string(e.Stream), Seq: e.Version, Position: e.Position.Position, Kind: e.Kind, RunID: e.Group,
			DeviceID: e.Device, Repeatable: e.Repeatable, Started: e.Started, Taken: e.Worker != "" && e.Alive}
	}
	return paged(s, c, views, "")
}
