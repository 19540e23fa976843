package codec

import (
	"encoding/json"
	"fmt"

	"github.com/cairnhq/cairn/streams"
)

// Raise is an event's clear data in today's schema, and that schema's number; the stored bytes themselves where they
// have it already. Errors: ErrUnknownType, ErrUndecodable.
func (s *Schema) Raise(r streams.Recorded) (data json.RawMessage, schema int, err error) {
	e, ok := s.events.byName[r.Type]
	if !ok {
		return nil, 0, fmt.Errorf("codec: event %s is a %q: %w", r.ID, r.Type, ErrUnknownType)
	}
	data, err = raised(e, r.Schema, r.Data)
	return data, e.Schema(), err
}
