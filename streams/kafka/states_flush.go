package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// flush is a Flush before its states are encoded.
type flush struct {
	streams.Flush
	values []any // of Flush.States
}

// prepare gathers everything counted that is not stored. Nothing of a commit in flight is in it.
func (t *term) prepare() flush {
	b := t.book
	f := flush{Flush: streams.Flush{Partition: t.partition, Expected: b.stored, Next: b.at}}
	b.streams.flush(func(k streams.StreamKey, s streamState) {
		f.States = append(f.States, streams.StateRow{Scope: k.Scope, Stream: k.Stream, Version: s.version, Hash: s.hash})
		f.values = append(f.values, s.value)
	})
	b.scopes.flush(func(scope domain.Scope, s scopeState) {
		f.Scopes = append(f.Scopes, streams.ScopeRow{Scope: scope, Position: s.position, DecidedAt: s.decidedAt, Erased: s.erased})
	})
	f.Answers = b.ids.flush()
	b.mine = append(b.mine, f.Next)
	b.storing = true
	return f
}

// write encodes and stores. It touches nothing of the term, so it may run beside it. ErrFlushConflict says
// that another stored meanwhile.
func (t *term) write(ctx context.Context, f flush) error {
	for i := range f.States {
		row := &f.States[i]
		a, ok := t.config.Schema.Aggregate(row.Stream.Kind())
		if !ok {
			return fmt.Errorf("no aggregate for stream %s", row.Stream)
		}
		row.Fold = a.Fold
		var err error
		if row.State, err = a.EncodeState(f.values[i]); err != nil {
			return fmt.Errorf("state of %s: %w", row.Stream, err)
		}
	}
	began, tried := time.Now(), false
	defer func() { t.writer.metrics.storing.Observe(time.Since(began).Seconds()) }()
	return t.persist(ctx, "flush", "states to be stored", func() error {
		if tried { // it may have been stored although it failed
			now, err := t.config.States.Load(ctx, t.partition, streams.Lookup{})
			switch {
			case err != nil:
				return err
			case now.Checkpoint == f.Next:
				return nil
			}
		}
		tried = true
		err := t.config.States.Store(ctx, f.Flush)
		if errors.Is(err, streams.ErrFlushConflict) {
			return fmt.Errorf("%w: %w", errAnew, err)
		}
		return err
	})
}

// wrote says that the flush is stored.
func (t *term) wrote(f flush) {
	b := t.book
	now := b.config.Now()
	b.stored, b.storing = f.Next, false
	if n := len(b.mine); n > 8 {
		b.mine = append(b.mine[:0], b.mine[n-8:]...)
	}
	b.streams.flushed()
	b.scopes.flushed()
	b.ids.stored(now)
	t.status.change(func(p *PartitionStats) { p.Stored, p.FlushedAt, p.Unflushed = b.stored, now, b.ids.unflushed() })
}

// store flushes at once, and waits for it.
func (t *term) store(ctx context.Context) error {
	f := t.prepare()
	if err := t.write(ctx, f); err != nil {
		return err
	}
	t.wrote(f)
	return nil
}
