package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// sink fills one target from one partition.
type sink struct {
	fill    *fill
	seats   []*seat // of all lanes; they move together
	keys    *keys
	bulk    *bulk // nil: the projector is no Filler
	at      streams.Checkpoint
	flushed time.Time
	memory  int64
}

// flushEvery is how long filled rows stay in memory at most: a kill costs that much.
const flushEvery = 10 * time.Second

// queued is how many pieces wait for a sink.
const queued = 3

var errFilled = errors.New("filled")

// partition fills all targets from one partition, up to the end that was seen.
func (f *fill) partition(ctx context.Context, partition int32) error {
	sinks, err := f.sinks(ctx, partition)
	if err != nil {
		return err
	}
	if len(sinks) == 0 {
		f.stands(partition, f.ends[partition])
		return nil
	}
	from := slices.MinFunc(sinks, func(a, b *sink) int { return further(a.seats[0], b.seats[0]) }).at
	f.stands(partition, from.Next)
	var projectors []Projector
	for _, s := range sinks {
		projectors = append(projectors, s.seats[0].projector)
	}
	of := kindsOf(projectors)
	group, ctx := errgroup.WithContext(ctx)
	queues := make([]chan *piece, len(sinks))
	for i, s := range sinks {
		queues[i] = make(chan *piece, queued)
		group.Go(func() error { return s.run(ctx, queues[i]) })
	}
	group.Go(func() error {
		err := f.read(ctx, partition, from, of, queues)
		if errors.Is(err, errFilled) {
			for _, q := range queues {
				close(q)
			}
			return nil
		}
		return err
	})
	return group.Wait()
}

// stands notes where a partition stands when filling it begins.
func (f *fill) stands(partition int32, next int64) {
	if f.done[partition].Swap(next) == 0 {
		f.before.Add(next)
	}
}

// read hands pieces to all queues until the end that was seen.
func (f *fill) read(ctx context.Context, partition int32, from streams.Checkpoint, of kinds, queues []chan *piece) error {
	return f.Tailer.Tail(ctx, partition, from, func(ctx context.Context, b streams.Batch) error {
		for _, part := range chunks(b, f.pieceSize()) {
			p := decode(f.Schema, part, of)
			n := p.events()
			if f.limit != nil {
				if err := f.limit.WaitN(ctx, min(n, f.limit.Burst())); err != nil {
					return err
				}
			}
			for _, q := range queues {
				select {
				case q <- p:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			f.events.Add(int64(n))
			f.done[partition].Store(min(p.next.Next, f.ends[partition]))
			if p.next.Next >= f.ends[partition] {
				return errFilled
			}
		}
		return nil
	})
}

// sinks are the targets that have not all of a partition yet. One that is fed has all that Fill could bring: another Fill ended
// it, perhaps one that was taken for dead. One that is dropped is an error.
func (f *fill) sinks(ctx context.Context, partition int32) ([]*sink, error) {
	var sinks []*sink
	share := f.Memory / int64(len(f.Targets)*fillers(len(f.ends)))
	for i, t := range f.Targets {
		now, err := generations(ctx, f.Pool, `WHERE g.projection = $1 AND g.generation = $2`, t.Generation.Projection, t.Generation.Number)
		switch {
		case err != nil:
			return nil, err
		case len(now) == 0:
			return nil, fmt.Errorf("projections: fill %s: %w", t.Generation, ErrNoGeneration)
		case now[0].State == Feeding:
			continue
		}
		seats, err := placed(ctx, f.Pool, []FillTarget{t}, partition)
		if err != nil {
			return nil, err
		}
		s := &sink{fill: f, seats: seats, at: seats[0].checkpoint, keys: f.keys[i], flushed: time.Now(), memory: share}
		for _, seat := range seats {
			if seat.checkpoint != s.at {
				return nil, fmt.Errorf("projections: fill %s: its lanes stand at different places: it is fed already", t.Generation)
			}
		}
		if s.at.Next >= f.ends[partition] {
			continue
		}
		if _, ok := t.Projector.(Filler); ok {
			s.bulk = newBulk(f.Pool, s.keys)
			s.bulk.fresh = s.at == streams.Start()
		}
		sinks = append(sinks, s)
	}
	return sinks, nil
}

func (s *sink) run(ctx context.Context, queue <-chan *piece) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p, ok := <-queue:
			if !ok {
				return s.flush(ctx, s.at)
			}
			if err := s.apply(ctx, p); err != nil {
				return err
			}
		}
	}
}

// apply folds a piece into memory, and writes what is there when it is much or has waited for long.
func (s *sink) apply(ctx context.Context, p *piece) error {
	if p.next.Next <= s.at.Next {
		return nil
	}
	first := s.seats[0]
	if s.bulk == nil {
		return s.transact(ctx, p)
	}
	b := newBatch(s.fill.Schema, p).part(first, s.at.Next)
	b.bulk = s.bulk
	if len(b.Commits) > 0 {
		if err := safely(ctx, first.projector, nil, b); err != nil {
			return s.failed(ctx, b, err)
		}
	}
	s.at = p.next
	if s.bulk.size() > s.memory || s.bulk.full() || time.Since(s.flushed) > flushEvery {
		return s.flush(ctx, s.at)
	}
	return nil
}

// flush moves the checkpoint and writes all rows that led there, in one transaction.
func (s *sink) flush(ctx context.Context, to streams.Checkpoint) error {
	s.flushed = time.Now()
	if s.bulk == nil || s.seats[0].checkpoint == to {
		return nil
	}
	if s.bulk.keyed() {
		if err := s.keys.make(ctx); err != nil {
			return err
		}
	}
	var rows int64
	err := pgx.BeginFunc(ctx, s.fill.Pool, func(tx pgx.Tx) error {
		if err := advance(ctx, tx, s.seats, to); err != nil {
			return err
		}
		var err error
		rows, err = s.bulk.flush(ctx, tx, s.seats[0].generation)
		return err
	})
	if err != nil {
		return fmt.Errorf("projections: fill %s: %w", s.seats[0].generation, err)
	}
	for _, seat := range s.seats {
		seat.checkpoint = to
	}
	for _, stash := range s.bulk.order {
		stash.flushed(s.memory / 2)
	}
	s.fill.rows.Add(rows)
	return nil
}

// transact applies a piece in a transaction, for a projector that does not work in bulk.
func (s *sink) transact(ctx context.Context, p *piece) error {
	if err := s.keys.make(ctx); err != nil {
		return err
	}
	first := s.seats[0]
	b := newBatch(s.fill.Schema, p).part(first, s.at.Next)
	err := pgx.BeginFunc(ctx, s.fill.Pool, func(tx pgx.Tx) error {
		if err := advance(ctx, tx, s.seats, p.next); err != nil {
			return err
		}
		if err := safely(ctx, first.projector, tx, b); err != nil {
			return err
		}
		return b.Flush(ctx, tx)
	})
	if err != nil {
		return s.failed(ctx, b, err)
	}
	s.at = p.next
	for _, seat := range s.seats {
		seat.checkpoint = p.next
	}
	return nil
}

// failed marks the generation as stopped at the event that can't be applied, and answers the *Stopped.
func (s *sink) failed(ctx context.Context, b Batch, reason error) error {
	first := s.seats[0]
	err := fmt.Errorf("projections: fill %s: %w", first.generation, reason)
	var named *EventError
	if passing(ctx, reason) || !errors.As(reason, &named) {
		return err
	}
	stopped := &Stopped{
		Projection: first.projector.Name(), Partition: b.Partition, Offset: named.Event.Place.Offset, Event: named.Event.ID, Reason: reason.Error(),
	}
	if err := markStopped(ctx, s.fill.Pool, first, stopped); err != nil {
		return err
	}
	return stopped
}
