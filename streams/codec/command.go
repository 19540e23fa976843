package codec

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Envelope is a command on the wire. Scope and ID stand in the record's headers as well.
type Envelope struct {
	Scope         domain.Scope
	ID            string
	Actor         domain.Actor
	CorrelationID string
	CausationID   string
	Fingerprint   []byte
	// Known is the writer's checkpoint that the edge's look-up of the id held for.
	Known streams.CommandPlace
	Body  domain.Command
}

type wireCommand struct {
	V             int             `json:"v"`
	Scope         string          `json:"scope"`
	ID            string          `json:"id"`
	Actor         json.RawMessage `json:"actor"`
	CorrelationID string          `json:"correlation_id"`
	CausationID   string          `json:"causation_id"`
	Fingerprint   []byte          `json:"fingerprint"`
	Known         [2]int64        `json:"known"`
	Type          string          `json:"type"`
	Schema        int             `json:"schema"`
	Data          json.RawMessage `json:"data"`
	Sealed        []byte          `json:"sealed"`
	Key           int             `json:"key"`
}

// EncodeActor is an actor's stored form.
func EncodeActor(a domain.Actor) json.RawMessage {
	b := appendMember([]byte{'{'}, "kind", string(a.Kind))
	b = appendOptional(b, "id", a.ID)
	b = appendOptional(b, "device", a.Device)
	b = appendOptional(b, "agent", a.Agent)
	b = appendOptional(b, "run", a.Run)
	return append(b, '}')
}

// CommandName is the wire name of a command's body, or "" of what is no command.
func (s *Schema) CommandName(body domain.Command) string {
	if e, ok := s.commands.byType[reflect.TypeOf(body)]; ok {
		return e.Name()
	}
	return ""
}

// Plain is the whole body in clear, with its wire name: what the fingerprint of a command without a client's request covers.
func (s *Schema) Plain(body domain.Command) ([]byte, error) {
	e, ok := s.commands.byType[reflect.TypeOf(body)]
	if !ok {
		return nil, fmt.Errorf("codec: %T is no command: %w", body, ErrUnknownType)
	}
	data, content, err := split(e, body)
	if err != nil {
		return nil, err
	}
	plain := appendRaw(appendMember([]byte{'{'}, "type", e.Name()), "data", data)
	if content != nil {
		plain = appendRaw(plain, "content", content)
	}
	return append(plain, '}'), nil
}

// EncodeCommand seals the body's content with the scope's current key.
func (s *Schema) EncodeCommand(ctx context.Context, keys streams.Keys, c Envelope) ([]byte, error) {
	e, ok := s.commands.byType[reflect.TypeOf(c.Body)]
	if !ok {
		return nil, fmt.Errorf("codec: %T is no command: %w", c.Body, ErrUnknownType)
	}
	data, content, err := split(e, c.Body)
	if err != nil {
		return nil, err
	}
	data, schema, err := s.written(e, data)
	if err != nil {
		return nil, err
	}
	var sealed []byte
	var key streams.Key
	if content != nil {
		if key, err = keys.Current(ctx, c.Scope); err != nil {
			return nil, fmt.Errorf("codec: key of %s: %w", c.Scope, err)
		}
		if sealed, _, err = s.seal(key, c.Scope, c.ID, content); err != nil {
			return nil, err
		}
	}
	b := make([]byte, 0, 512+len(data)+len(sealed)*4/3)
	b = appendInt(append(b, '{'), "v", 1)
	b = appendMember(b, "scope", string(c.Scope))
	b = appendMember(b, "id", c.ID)
	b = appendRaw(b, "actor", EncodeActor(c.Actor))
	b = appendOptional(b, "correlation_id", c.CorrelationID)
	b = appendOptional(b, "causation_id", c.CausationID)
	b = appendBytes(b, "fingerprint", c.Fingerprint)
	b = appendPlace(b, "known", c.Known.Era, c.Known.Offset)
	b = appendMember(b, "type", e.Name())
	b = appendInt(b, "schema", int64(schema))
	b = appendRaw(b, "data", data)
	if sealed != nil {
		b = appendBytes(b, "sealed", sealed)
		b = appendInt(b, "key", int64(key.Version))
	}
	return append(b, '}'), nil
}

// DecodeCommand is the inverse of EncodeCommand. ErrUndecodable wraps all that can never work: other
// bytes, an unknown type, a target that is no stream of the type's aggregate, a blob of another
// command. Errors of the keys pass as they are, with the envelope's clear part.
func (s *Schema) DecodeCommand(ctx context.Context, keys streams.Keys, value []byte) (Envelope, error) {
	var w wireCommand
	if err := wire.Unmarshal(value, &w); err != nil {
		return Envelope{}, fmt.Errorf("codec: decoding a command: %w: %w", ErrUndecodable, err)
	}
	c := Envelope{
		Scope: domain.Scope(w.Scope), ID: w.ID, CorrelationID: w.CorrelationID, CausationID: w.CausationID,
		Fingerprint: w.Fingerprint, Known: streams.CommandPlace{Era: int(w.Known[0]), Offset: w.Known[1]},
	}
	if w.V != 1 {
		return c, fmt.Errorf("codec: command of format %d: %w", w.V, ErrUndecodable)
	}
	if !c.Scope.Valid() {
		return c, fmt.Errorf("codec: command without a valid scope: %w", ErrUndecodable)
	}
	if _, err := uuid.Parse(c.ID); err != nil {
		return c, fmt.Errorf("codec: command without a valid id: %w: %w", ErrUndecodable, err)
	}
	if err := wire.Unmarshal(w.Actor, &c.Actor); err != nil {
		return c, fmt.Errorf("codec: decoding the actor of command %s: %w: %w", c.ID, ErrUndecodable, err)
	}
	e, ok := s.commands.byName[w.Type]
	if !ok {
		return c, fmt.Errorf("codec: command %s is a %q: %w: %w", c.ID, w.Type, ErrUndecodable, ErrUnknownType)
	}
	v, err := fresh(e, w.Schema, w.Data)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	if e.SealedField() >= 0 && len(w.Sealed) > 0 {
		text, _, err := s.open(ctx, keys, c.Scope, c.ID, w.Key, w.Sealed)
		if err != nil {
			return c, err
		}
		if err := fill(e, v, text); err != nil {
			return c, err
		}
	}
	body, ok := v.Elem().Interface().(domain.Command)
	if !ok {
		return c, fmt.Errorf("codec: %s is no command: %w", e.Name(), ErrUndecodable)
	}
	if target := body.Target(); !target.Valid() || target.Kind() != e.aggregate {
		return c, fmt.Errorf("codec: %s is aimed at %q: %w", e.Name(), target, ErrUndecodable)
	}
	c.Body = body
	return c, nil
}
