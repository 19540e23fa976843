// Package export writes a range of the log to a file that other tools read: JSON lines or Parquet, one event each, in
// the form of the feeds. Sealed content is not in it, and it needs no keys.
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/feed"
)

// Options say what to export, and where to.
type Options struct {
	Tailer streams.Tailer
	Schema *codec.Schema
	Out    Sink

	Scope domain.Scope // empty: every scope
	Type  string       // a wire name, or its beginning such as "thread."; empty: every type
	Since time.Time    // zero: from the beginning
	Until time.Time    // events before it; zero: up to the log's end now
	// Progress is told now and then how far it is. Nil: nobody.
	Progress func(Progress)
}

// Progress is how far an export is.
type Progress struct {
	Partition, Partitions int32
	Next, End             int64 // offsets of the log's partition
	Events                int64
}

// Sink is a file being written.
type Sink interface {
	Write(feed.Event) error
	// Close completes the file.
	Close() error
}

var errEnd = errors.New("reached the end")

// Run exports, partition after partition in the order of the log, and answers how many events it wrote. It closes the
// sink, unless it fails.
func Run(ctx context.Context, o Options) (int64, error) {
	p := Progress{Partitions: o.Tailer.Partitions()}
	for p.Partition = range p.Partitions {
		if o.Scope != "" && o.Tailer.PartitionOf(o.Scope) != p.Partition {
			continue
		}
		if err := o.partition(ctx, &p); err != nil {
			return p.Events, err
		}
	}
	return p.Events, o.Out.Close()
}

func (o Options) partition(ctx context.Context, p *Progress) error {
	var err error
	if p.End, err = o.Tailer.End(ctx, p.Partition); err != nil {
		return fmt.Errorf("find the end of partition %d: %w", p.Partition, err)
	}
	if p.End == 0 {
		return nil
	}
	err = o.Tailer.Tail(ctx, p.Partition, streams.Start(), func(_ context.Context, b streams.Batch) error {
		for _, c := range b.Commits {
			if c.Place.Offset >= p.End {
				break
			}
			if err := o.write(c.Events, p); err != nil {
				return err
			}
		}
		p.Next = b.Next.Next
		if o.Progress != nil {
			o.Progress(*p)
		}
		if p.Next >= p.End {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

func (o Options) write(events []streams.Recorded, p *Progress) error {
	for _, r := range events {
		if !o.wanted(r) {
			continue
		}
		data, schema, err := o.Schema.Raise(r)
		if err != nil {
			return err
		}
		e, err := feed.New(r, data, schema)
		if err != nil {
			return err
		}
		if err := o.Out.Write(e); err != nil {
			return fmt.Errorf("write event %s: %w", r.ID, err)
		}
		p.Events++
	}
	return nil
}

func (o Options) wanted(r streams.Recorded) bool {
	if o.Scope != "" && r.Scope != o.Scope || !strings.HasPrefix(r.Type, o.Type) {
		return false
	}
	at := r.Time()
	return !at.Before(o.Since) && (o.Until.IsZero() || at.Before(o.Until))
}

// lines are JSON lines.
type lines struct{ to io.Writer }

// Lines writes CloudEvents in their structured form, one a line.
func Lines(to io.Writer) Sink { return lines{to} }

// Write implements Sink.
func (l lines) Write(e feed.Event) error {
	line, err := e.Structured()
	if err != nil {
		return err
	}
	_, err = l.to.Write(append(line, '\n'))
	return err
}

// Close implements Sink.
func (lines) Close() error { return nil }
