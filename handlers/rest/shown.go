package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cairnhq/cairn/domain/output"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// shown is what formatting a run's turns needs: its channel, and the rows that its tools returned.
type shown struct {
	channel thread.Channel
	tables  map[string]string            // step id -> table
	order   map[string][]string          // table -> ids, in the order they first came
	rows    map[string][]json.RawMessage // table -> rows, the newest of each id
}

// frames is a turn's text through the formatter of its run's channel.
func (o *opener) frames(ctx context.Context, run, text string) ([]output.Frame, error) {
	if !strings.Contains(text, "{") {
		return []output.Frame{{Text: text}}, nil // no object, so the same in every channel
	}
	known, ok := o.runs[run]
	if !ok {
		var err error
		if known, err = o.read(ctx, run); err != nil {
			return nil, err
		}
		if len(o.runs) > 64 {
			clear(o.runs) // a page touches few; a whole history is read in order
		}
		o.runs[run] = known
	}
	if known.channel != thread.Home {
		return []output.Frame{{Text: text}}, nil
	}
	home := output.NewHome(known.entity)
	return append(home.Write(text), home.Close()...), nil
}

func (o *opener) read(ctx context.Context, run string) (*shown, error) {
	events, err := o.s.Events.Run(ctx, o.scope, run)
	if err != nil {
		return nil, err
	}
	known := &shown{tables: map[string]string{}, order: map[string][]string{}, rows: map[string][]json.RawMessage{}}
	for _, r := range events {
		if err := known.take(ctx, o.s, r); err != nil {
			return nil, fmt.Errorf("rest: open event %s: %w", r.ID, err)
		}
	}
	return known, nil
}

func (k *shown) take(ctx context.Context, s *server, r streams.Recorded) error {
	event, err := s.Schema.Decode(r)
	if err != nil {
		return nil // of a newer release: it shows nothing that this one knows
	}
	switch e := event.(type) {
	case thread.MessagePosted:
		k.channel = e.Channel
	case thread.ToolCallRequested:
		k.tables[thread.StepID(e.CallID, e.Number)] = e.Table
	case thread.ToolStepRequested:
		k.tables[thread.StepID(e.CallID, e.Number)] = e.Table
	case thread.ToolStepCompleted, thread.ToolCallCompleted:
		if event, err = s.Schema.Open(ctx, s.Keys, r); err != nil {
			return err
		}
		switch e := event.(type) {
		case thread.ToolStepCompleted:
			k.result(k.tables[thread.StepID(e.CallID, e.Step)], e.Result.Device)
		case thread.ToolCallCompleted:
			k.result(k.tables[thread.StepID(e.CallID, e.Step)], e.Result.Device)
		}
	}
	return nil
}

func (k *shown) result(table string, answer json.RawMessage) {
	var got struct {
		Row  json.RawMessage   `json:"row"`
		Rows []json.RawMessage `json:"rows"`
	}
	if table == "" || json.Unmarshal(answer, &got) != nil {
		return
	}
	for _, row := range append(got.Rows, got.Row) {
		name := rowID(row)
		if name == "" {
			continue
		}
		if i := slices.Index(k.order[table], name); i >= 0 {
			k.rows[table][i] = row
			continue
		}
		k.order[table], k.rows[table] = append(k.order[table], name), append(k.rows[table], row)
	}
}

// entity are the rows of a kind of entity with these ids, all of them without ids.
func (k *shown) entity(entity string, ids []string) []json.RawMessage {
	table := entity + "s"
	if len(ids) == 0 {
		return k.rows[table]
	}
	var found []json.RawMessage
	for _, want := range ids {
		if i := slices.Index(k.order[table], want); i >= 0 {
			found = append(found, k.rows[table][i])
		}
	}
	return found
}

func rowID(row json.RawMessage) string {
	var key struct {
		ID string `json:"id"`
	}
	if len(row) == 0 || json.Unmarshal(row, &key) != nil {
		return ""
	}
	return key.ID
}

// content is the sealed field of an opened event, nil if it has none.
func content(event any) any {
	v := reflect.ValueOf(event)
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("sealed") == "true" && !v.Field(i).IsZero() {
			return v.Field(i).Interface()
		}
	}
	return nil
}
