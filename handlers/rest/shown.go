package rest

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/cairnhq/cairn/domain/output"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// shown is what formatting a run's turns needs: its channel, and the rows that its tools returned.
type shown struct {
	channel thread.Channel
	tables  output.Tables
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
	home := output.NewHome(known.tables.Rows)
	return append(home.Write(text), home.Close()...), nil
}

func (o *opener) read(ctx context.Context, run string) (*shown, error) {
	events, err := o.s.Events.Run(ctx, o.scope, run)
	if err != nil {
		return nil, err
	}
	known := &shown{}
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
		k.tables.Asked(e.ID(), e.Table)
	case thread.ToolStepRequested:
		k.tables.Asked(e.ID(), e.Table)
	case thread.ToolStepCompleted, thread.ToolCallCompleted:
		if event, err = s.Schema.Open(ctx, s.Keys, r); err != nil {
			return err
		}
		switch e := event.(type) {
		case thread.ToolStepCompleted:
			k.tables.Answered(thread.StepID(e.CallID, e.Step), e.Result.Device)
		case thread.ToolCallCompleted:
			k.tables.Answered(thread.StepID(e.CallID, e.Step), e.Result.Device)
		}
	}
	return nil
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
