package projections

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// ahead is how many pieces are read and decoded while the ones before are applied.
const ahead = 4

// idle is how long a lane waits with nothing but a place to move to: the partition's other lanes have the events.
const idle = 200 * time.Millisecond

// run reads, decodes and hands on until ctx ends or something fails. It answers nil when all its lanes are done.
func (f *flow) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var left atomic.Int32
	left.Store(int32(len(f.lanes)))
	var queues []chan *piece
	for l, apply := range f.lanes {
		queue := make(chan *piece, ahead)
		queues = append(queues, queue)
		group.Go(func() error {
			err := work(ctx, l, queue, apply)
			if !errors.Is(err, errDone) || left.Add(-1) == 0 {
				return err
			}
			return drain(ctx, queue)
		})
	}
	group.Go(func() error { return f.read(ctx, queues) })
	if err := group.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

func (f *flow) read(ctx context.Context, queues []chan *piece) error {
	e := f.reader.engine
	of := kindsOf(e.cfg.Projectors)
	return e.cfg.Tailer.Tail(ctx, f.reader.partition, f.from, func(ctx context.Context, b streams.Batch) error {
		for _, part := range chunks(b, maxEvents) {
			p := decode(e.cfg.Schema, part, of)
			for _, queue := range queues {
				select {
				case queue <- p:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
}

// drain lets the others of a flow go on after one of its lanes is done.
func drain(ctx context.Context, queue <-chan *piece) error {
	for {
		select {
		case <-queue:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// work applies what a lane gets, all that has accumulated at once.
func work(ctx context.Context, l lane, queue <-chan *piece, apply func(context.Context, *piece) error) error {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	timer.Stop()
	var waiting *piece // it moves nothing but the place
	for {
		select {
		case <-ctx.Done():
			if waiting != nil { // so that lanes stand level after a stop, if they can
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_ = apply(last, waiting)
			}
			return ctx.Err()
		case p := <-queue:
			p = accumulate(l.part(p), l, queue)
			if waiting != nil {
				p.from = waiting.from
			}
			if len(p.commits) == 0 && l.of > 1 {
				if waiting == nil {
					timer.Reset(idle)
				}
				waiting = p
				continue
			}
			waiting = nil
			timer.Stop()
			if err := apply(ctx, p); err != nil {
				return err
			}
		case <-timer.C:
			p := waiting
			if waiting = nil; p == nil {
				continue
			}
			if err := apply(ctx, p); err != nil {
				return err
			}
		}
	}
}

// accumulate adds to a piece what waits behind it, as much as goes into one transaction.
func accumulate(p *piece, l lane, queue <-chan *piece) *piece {
	joined := &piece{partition: p.partition, from: p.from, next: p.next, commits: slices.Clip(p.commits), values: slices.Clip(p.values)}
	for events := p.events(); events < maxEvents; {
		select {
		case more := <-queue:
			more = l.part(more)
			joined.commits, joined.values = append(joined.commits, more.commits...), append(joined.values, more.values...)
			joined.next = more.next
			events += more.events()
		default:
			return joined
		}
	}
	return joined
}
