package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Rows answers full rows of an entity ("task", "project", "note" or "checkpoint") from what this run's
// tools returned: those of ids, or all where ids is nil.
type Rows func(entity string, ids []string) []json.RawMessage

// block makes a frame of a complete object whose type is known. The error says what is wrong with it,
// without the model's words.
func block(kind string, object []byte, rows Rows) (Frame, error) {
	object = escapeControls(object)
	var data any
	var err error
	switch kind {
	case "chart":
		data, err = chart(object)
	case "table":
		data, err = table(object)
	case "timeline":
		data, err = timeline(object)
	default:
		data, err = entityRef(object, rows)
	}
	if err != nil {
		return Frame{}, err
	}
	encoded, err := encode(data)
	return Frame{Block: kind, Data: encoded}, err
}

type chartData struct {
	ChartType string            `json:"chartType"`
	Title     string            `json:"title"`
	Data      []json.RawMessage `json:"data"`
	Config    json.RawMessage   `json:"config"`
}

func chart(object []byte) (any, error) {
	var c chartData
	var config map[string]json.RawMessage
	if json.Unmarshal(object, &c) != nil {
		return nil, errors.New("its fields have the wrong types")
	}
	if !slices.Contains([]string{"area", "bar", "line", "pie", "radar", "radial"}, c.ChartType) {
		return nil, errors.New("chartType is not area, bar, line, pie, radar or radial")
	}
	if c.Data == nil || len(c.Config) == 0 || json.Unmarshal(c.Config, &config) != nil || config == nil {
		return nil, errors.New("data or config is missing")
	}
	for i, raw := range c.Data {
		var row map[string]json.RawMessage
		if json.Unmarshal(raw, &row) != nil {
			return nil, fmt.Errorf("row %d of data is no object", i+1)
		}
		for key := range config {
			if _, ok := row[key]; !ok {
				return nil, fmt.Errorf("row %d of data lacks a key that config names", i+1)
			}
		}
	}
	return c, nil
}

type tableData struct {
	Headers []string            `json:"headers"`
	Rows    [][]json.RawMessage `json:"rows"`
}

func table(object []byte) (any, error) {
	var t tableData
	if json.Unmarshal(object, &t) != nil {
		return nil, errors.New("its fields have the wrong types")
	}
	if len(t.Headers) == 0 || t.Rows == nil {
		return nil, errors.New("headers or rows are missing")
	}
	for i, row := range t.Rows {
		if len(row) != len(t.Headers) {
			return nil, fmt.Errorf("row %d has %d cells, and there are %d headers", i+1, len(row), len(t.Headers))
		}
	}
	return t, nil
}

type timelineData struct {
	Checkpoints []checkpoint `json:"checkpoints"`
}

type checkpoint struct {
	ID    *string         `json:"id"`
	Title *string         `json:"title"`
	Date  json.RawMessage `json:"date"`
}

func timeline(object []byte) (any, error) {
	var t timelineData
	if json.Unmarshal(object, &t) != nil {
		return nil, errors.New("its fields have the wrong types")
	}
	if t.Checkpoints == nil {
		return nil, errors.New("checkpoints are missing")
	}
	for i, c := range t.Checkpoints {
		if c.ID == nil || c.Title == nil || !stringOrNumber(c.Date) {
			return nil, fmt.Errorf("checkpoint %d lacks its id, title or date", i+1)
		}
	}
	return t, nil
}

func stringOrNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

type entityData struct {
	Entity string            `json:"entity"`
	Rows   []json.RawMessage `json:"rows"`
}

func entityRef(object []byte, rows Rows) (any, error) {
	var ref struct {
		Entity string   `json:"entity"`
		IDs    []string `json:"ids"`
	}
	if json.Unmarshal(object, &ref) != nil {
		return nil, errors.New("its fields have the wrong types")
	}
	if !slices.Contains([]string{"task", "project", "note", "checkpoint"}, ref.Entity) {
		return nil, errors.New("entity is not task, project, note or checkpoint")
	}
	found := entityData{Entity: ref.Entity}
	if len(ref.IDs) == 0 {
		ref.IDs = nil
	}
	if rows != nil {
		for _, row := range rows(ref.Entity, ref.IDs) {
			if json.Valid(row) {
				found.Rows = append(found.Rows, row)
			}
		}
	}
	if len(found.Rows) == 0 {
		return nil, errors.New("no tool of this run returned such rows")
	}
	return found, nil
}

// encode writes JSON without escaping HTML: it goes to clients, not into pages.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// escapeControls writes control characters inside strings as JSON wants them.
func escapeControls(object []byte) []byte {
	if !slices.ContainsFunc(object, func(c byte) bool { return c < ' ' }) {
		return object
	}
	out := make([]byte, 0, len(object)+16)
	inside, escaped := false, false
	for _, c := range object {
		if inside && c < ' ' {
			out = fmt.Appendf(out, `\u%04x`, c)
			escaped = false
			continue
		}
		out = append(out, c)
		switch {
		case escaped:
			escaped = false
		case inside && c == '\\':
			escaped = true
		case c == '"':
			inside = !inside
		}
	}
	return out
}
