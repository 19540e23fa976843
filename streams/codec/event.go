package codec

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Record makes the stored form of event number index of a command: it encodes, seals, digests and
// chains it. An empty prev stands for the beginning of the stream. Era, place, correlation and causation are the caller's to set.
func (s *Schema) Record(key streams.Key, scope domain.Scope, commandID string, index int, stream domain.Stream, version, position uint64,
	decidedAt string, actor json.RawMessage, prev []byte, event any,
) (streams.Recorded, error) {
	e, ok := s.events.byType[reflect.TypeOf(event)]
	if !ok {
		return streams.Recorded{}, fmt.Errorf("codec: %T is no event: %w", event, ErrUnknownType)
	}
	data, content, err := split(e, event)
	if err != nil {
		return streams.Recorded{}, err
	}
	data, schema, err := s.written(e, data)
	if err != nil {
		return streams.Recorded{}, err
	}
	r := streams.Recorded{
		ID: streams.EventID(commandID, index), Scope: scope, Stream: stream, Version: version, Position: position,
		Type: e.Name(), Schema: schema, At: decidedAt, Actor: actor, Data: data,
		CommandID: commandID, Place: streams.Place{Index: index},
	}
	if e.SealedField() >= 0 {
		r.Key = key.Version
		if r.Sealed, r.SealDigest, err = s.seal(key, scope, r.ID, content); err != nil {
			return streams.Recorded{}, err
		}
	}
	if len(prev) == 0 {
		prev = Genesis(stream)
	}
	r.Hash = Chain(prev, r)
	return r, nil
}

// Decode is the event as a struct value, raised to today's schema, its sealed field zero. Errors:
// ErrUnknownType, ErrUndecodable.
func (s *Schema) Decode(r streams.Recorded) (any, error) {
	_, v, err := s.decode(r)
	if err != nil {
		return nil, err
	}
	return v.Elem().Interface(), nil
}

// Open is Decode with the content. Where the content can't be had (streams.ErrScopeErased,
// streams.ErrKeyAbsent, streams.ErrKeysUnreachable, ErrTampered, a blob that can't be opened) the event
// comes too, its content zero; where the event itself can't be decoded it is nil.
func (s *Schema) Open(ctx context.Context, keys streams.Keys, r streams.Recorded) (any, error) {
	e, v, err := s.decode(r)
	if err != nil {
		return nil, err
	}
	if e.SealedField() < 0 || len(r.Sealed) == 0 {
		return v.Elem().Interface(), nil
	}
	text, _, err := s.Text(ctx, keys, r)
	if err == nil {
		err = fill(e, v, text)
	}
	return v.Elem().Interface(), err
}

// Text is the opened content as it was encoded, and the salt of its digest, after checking that it has
// the digest of the log. An event without content has neither.
func (s *Schema) Text(ctx context.Context, keys streams.Keys, r streams.Recorded) (text, salt []byte, err error) {
	if len(r.Sealed) == 0 {
		return nil, nil, nil
	}
	text, salt, err = s.open(ctx, keys, r.Scope, r.ID, r.Key, r.Sealed)
	if err != nil {
		return nil, nil, err
	}
	if !Verify(text, salt, r.SealDigest) {
		return nil, nil, fmt.Errorf("codec: event %s: %w", r.ID, ErrTampered)
	}
	return text, salt, nil
}

func (s *Schema) decode(r streams.Recorded) (entry, reflect.Value, error) {
	e, ok := s.events.byName[r.Type]
	if !ok {
		return entry{}, reflect.Value{}, fmt.Errorf("codec: event %s is a %q: %w", r.ID, r.Type, ErrUnknownType)
	}
	v, err := fresh(e, r.Schema, r.Data)
	return e, v, err
}
