package output_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairnhq/cairn/domain/output"
)

// TestTablesHoldTheNewestOfEachRowInTheOrderTheyCame: references show what the tools returned last.
func TestTablesHoldTheNewestOfEachRowInTheOrderTheyCame(t *testing.T) {
	var tables output.Tables
	tables.Answered("early", json.RawMessage(`{"row":{"id":"nobody asked"}}`))
	tables.Asked("1", "tasks")
	tables.Asked("2", "tasks")
	tables.Asked("3", "notes")
	tables.Asked("4", "")
	tables.Answered("1", json.RawMessage(`{"rows":[{"id":"a","n":1},{"id":"b"},{"n":7},7,null]}`))
	tables.Answered("2", json.RawMessage(`{"row":{"id":"a","n":2}}`))
	tables.Answered("2", json.RawMessage(`{"row":{"id":"c"},"rows":null}`))
	tables.Answered("3", json.RawMessage(`no answer`))
	tables.Answered("3", nil)
	tables.Answered("4", json.RawMessage(`{"row":{"id":"of no table"}}`))
	for name, c := range map[string]struct {
		entity string
		ids    []string
		want   []string
	}{
		"all":         {"task", nil, []string{`{"id":"a","n":2}`, `{"id":"b"}`, `{"id":"c"}`}},
		"no ids":      {"task", []string{}, []string{`{"id":"a","n":2}`, `{"id":"b"}`, `{"id":"c"}`}},
		"in order":    {"task", []string{"c", "x", "a"}, []string{`{"id":"c"}`, `{"id":"a","n":2}`}},
		"none came":   {"note", nil, nil},
		"none known":  {"project", []string{"a"}, nil},
		"of no table": {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, row := range tables.Rows(c.entity, c.ids) {
				got = append(got, string(row))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatalf("rows (-want +got):\n%s", diff)
			}
		})
	}
}
