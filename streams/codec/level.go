package codec

import (
	"errors"
	"fmt"
)

// ErrLevel is the answer for what may not be written yet: a process that runs might not be able to read it.
var ErrLevel = errors.New("it may be written when the upgrade is finalized")

// Level is the format level of this release: that of the newest type or schema it knows. It can read all up to it.
func (s *Schema) Level() int {
	level := 1
	for _, t := range []table{s.events, s.commands} {
		for _, e := range t.byName {
			level = max(level, e.Level())
		}
	}
	return level
}

// At is the same schema, which writes only what may be written at a format level. It reads everything.
func (s *Schema) At(level int) *Schema {
	at := *s
	at.level = level
	return &at
}

// New are the kinds that a higher level than the given one is needed to write, as "event thread.opened/2".
func (s *Schema) New(level int) []string {
	var names []string
	for sort, t := range map[string]table{"event": s.events, "command": s.commands} {
		for _, e := range t.byName {
			for schema := e.SchemaAt(level) + 1; schema <= e.Schema(); schema++ {
				names = append(names, fmt.Sprintf("%s %s/%d", sort, e.Name(), schema))
			}
		}
	}
	return names
}

// written is what is stored of today's clear data: its schema, and the data in it.
func (s *Schema) written(e entry, data []byte) ([]byte, int, error) {
	if s.level == 0 || e.Level() <= s.level {
		return data, e.Schema(), nil
	}
	schema := e.SchemaAt(s.level)
	if schema == 0 {
		return nil, 0, fmt.Errorf("codec: %s is new since format level %d, and %d is allowed: %w", e.Name(), e.Level(), s.level, ErrLevel)
	}
	for i := e.Schema() - 2; i >= schema-1; i-- {
		down := e.Downcasts()[i]
		if down == nil {
			return nil, 0, fmt.Errorf("codec: %s can't be written in schema %d any more: %w", e.Name(), i+1, ErrLevel)
		}
		var err error
		if data, err = down(data); err != nil {
			return nil, 0, fmt.Errorf("codec: writing %s in schema %d: %w", e.Name(), i+1, err)
		}
	}
	return data, schema, nil
}
