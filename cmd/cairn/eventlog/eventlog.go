// Package eventlog prints the log for people and programs. It reads the topic itself, by the acceptance
// rule; it needs no read model.
package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Options say what to print.
type Options struct {
	Tailer streams.Tailer
	Schema *codec.Schema
	// Keys open sealed content; nil prints [sealed].
	Keys streams.Keys

	Scope  domain.Scope  // empty: every scope
	Stream domain.Stream // empty: every stream
	Type   string        // a wire name, or its beginning such as "thread."; empty: every type
	Run    string        // events of this run; empty: of every run and of none
	// Last is how many of the newest events to print first; zero: all.
	Last int
	// Follow goes on with what comes.
	Follow bool
	JSON   bool
	Out    io.Writer
}

// row is an event as it is printed in JSON.
type row struct {
	At          string          `json:"at"`
	Scope       domain.Scope    `json:"scope"`
	Position    uint64          `json:"position"`
	Stream      domain.Stream   `json:"stream"`
	Version     uint64          `json:"version"`
	Type        string          `json:"type"`
	Schema      int             `json:"schema"`
	ID          string          `json:"id"`
	Actor       json.RawMessage `json:"actor"`
	CommandID   string          `json:"command_id"`
	Correlation string          `json:"correlation_id"`
	Causation   string          `json:"causation_id,omitempty"`
	Data        json.RawMessage `json:"data"`
	// Content is the opened content, "[sealed]", "[erased]", or absent where the event has none.
	Content   json.RawMessage `json:"content,omitempty"`
	Hash      string          `json:"hash"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
}

// Tail prints what is there and, with Follow, what comes until ctx ends.
func Tail(ctx context.Context, o Options) error {
	p := &printer{Options: o}
	group, ctx := errgroup.WithContext(ctx)
	for partition := range o.Tailer.Partitions() {
		if o.Scope != "" && o.Tailer.PartitionOf(o.Scope) != partition {
			continue
		}
		end, err := o.Tailer.End(ctx, partition)
		if err != nil {
			return fmt.Errorf("find the end of partition %d: %w", partition, err)
		}
		p.waiting++
		group.Go(func() error { return p.follow(ctx, partition, end) })
	}
	return group.Wait()
}

var errEnd = errors.New("reached the end")

type printer struct {
	Options

	mu      sync.Mutex
	waiting int // partitions that have not reached their end
	kept    []streams.Recorded
}

func (p *printer) follow(ctx context.Context, partition int32, end int64) error {
	reached := end == 0
	if reached {
		if err := p.level(ctx); err != nil {
			return err
		}
		if !p.Follow {
			return nil
		}
	}
	err := p.Tailer.Tail(ctx, partition, streams.Start(), func(ctx context.Context, b streams.Batch) error {
		for _, commit := range b.Commits {
			if err := p.take(ctx, commit.Events); err != nil {
				return err
			}
		}
		if !reached && b.Next.Next >= end {
			reached = true
			if err := p.level(ctx); err != nil {
				return err
			}
		}
		if reached && !p.Follow {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// take keeps events until every partition is level, so that they come in the order of their times; from
// then on it prints them as they come.
func (p *printer) take(ctx context.Context, events []streams.Recorded) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range events {
		if !p.wanted(r) {
			continue
		}
		if p.waiting == 0 {
			if err := p.print(ctx, r); err != nil {
				return err
			}
			continue
		}
		p.kept = append(p.kept, r)
		if p.Last > 0 && len(p.kept) > 2*p.Last*int(p.Tailer.Partitions())+1024 {
			p.trim()
		}
	}
	return nil
}

func (p *printer) trim() {
	slices.SortStableFunc(p.kept, func(a, b streams.Recorded) int { return strings.Compare(a.At, b.At) })
	if p.Last > 0 && len(p.kept) > p.Last {
		p.kept = slices.Clone(p.kept[len(p.kept)-p.Last:])
	}
}

func (p *printer) level(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting > 0 {
		return nil
	}
	p.trim()
	for _, r := range p.kept {
		if err := p.print(ctx, r); err != nil {
			return err
		}
	}
	p.kept = nil
	return nil
}

func (p *printer) wanted(r streams.Recorded) bool {
	return (p.Scope == "" || r.Scope == p.Scope) && (p.Stream == "" || r.Stream == p.Stream) &&
		strings.HasPrefix(r.Type, p.Type) && (p.Run == "" || ofRun(r, p.Run))
}

// ofRun reports whether an event belongs to a run: it names the run, or a call of it.
func ofRun(r streams.Recorded, run string) bool {
	var names struct {
		RunID  string `json:"run_id"`
		CallID string `json:"call_id"`
	}
	if err := json.Unmarshal(r.Data, &names); err != nil {
		return false
	}
	return names.RunID == run || strings.HasPrefix(names.CallID, run+".")
}

func (p *printer) print(ctx context.Context, r streams.Recorded) error {
	content, err := Content(ctx, p.Schema, p.Keys, r)
	if err != nil {
		return err
	}
	if !p.JSON {
		text := string(content)
		if len(text) > 0 {
			text = "  " + text
		}
		_, err := fmt.Fprintf(p.Out, "%s %6d  %-44s %4d  %-28s %s%s\n", r.At[:min(len(r.At), 23)], r.Position, r.Stream, r.Version, r.Type, r.Data, text)
		return err
	}
	line, err := Line(r, content)
	if err != nil {
		return err
	}
	_, err = p.Out.Write(line)
	return err
}

// Line is an event as a line of JSON, with its content as Content tells it.
func Line(r streams.Recorded, content json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(row{
		At: r.At, Scope: r.Scope, Position: r.Position, Stream: r.Stream, Version: r.Version, Type: r.Type, Schema: r.Schema,
		ID: r.ID, Actor: r.Actor, CommandID: r.CommandID, Correlation: r.CorrelationID, Causation: r.CausationID, Data: r.Data,
		Content: content, Hash: fmt.Sprintf("%x", r.Hash), Partition: r.Place.Partition, Offset: r.Place.Offset,
	})
	return b.Bytes(), err
}

// Content is what an event says beside its clear data, opened; "[sealed]" where it can't be, without keys or without this
// scope's, "[erased]" where nobody can any more, and nothing where it says nothing.
func Content(ctx context.Context, schema *codec.Schema, keys streams.Keys, r streams.Recorded) (json.RawMessage, error) {
	if len(r.Sealed) == 0 {
		return nil, nil
	}
	if keys == nil {
		return json.RawMessage(`"[sealed]"`), nil
	}
	text, _, err := schema.Text(ctx, keys, r)
	switch {
	case errors.Is(err, streams.ErrScopeErased):
		return json.RawMessage(`"[erased]"`), nil
	case errors.Is(err, streams.ErrKeyAbsent):
		return json.RawMessage(`"[sealed]"`), nil
	case err != nil:
		return nil, fmt.Errorf("open event %s: %w", r.ID, err)
	}
	return text, nil
}
