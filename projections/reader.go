package projections

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// reader reads one partition for all its models. Those that stand furthest are fed by one tail, the front.
// Each place further back has a tail of its own, until it is level with the front and joins it.
type reader struct {
	engine    *Engine
	partition int32

	mu    sync.Mutex // held by the front while it applies, and by whoever joins it
	front []*seat
	next  int64 // where the front stands
	alive bool  // the front reads
}

// near is how many offsets behind the front a tail holds the front's lock, so that it can't be outrun for ever.
const near = 4096

var errLevel = errors.New("level with the front")

// run feeds the seats until ctx ends, or an error passes by. It answers nil when all projectors have stopped.
func (r *reader) run(ctx context.Context, seats []*seat) error {
	groups := byPlace(seats)
	r.front, r.next, r.alive = groups[0], groups[0][0].checkpoint.Next, true
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.lead(ctx, groups[0][0].checkpoint) })
	for _, behind := range groups[1:] {
		group.Go(func() error { return r.follow(ctx, behind) })
	}
	return group.Wait()
}

// byPlace are the seats grouped by their checkpoint, the furthest first.
func byPlace(seats []*seat) [][]*seat {
	sorted := slices.Clone(seats)
	slices.SortStableFunc(sorted, func(a, b *seat) int { return int(min(1, max(-1, b.checkpoint.Next-a.checkpoint.Next))) })
	var groups [][]*seat
	for _, s := range sorted {
		last := len(groups) - 1
		if last >= 0 && groups[last][0].checkpoint == s.checkpoint {
			groups[last] = append(groups[last], s)
			continue
		}
		groups = append(groups, []*seat{s})
	}
	return groups
}

// errAllStopped ends the tail of projectors that have all stopped.
var errAllStopped = errors.New("all projectors of the tail have stopped")

func (r *reader) lead(ctx context.Context, from streams.Checkpoint) error {
	err := r.engine.cfg.Tailer.Tail(ctx, r.partition, from, func(ctx context.Context, b streams.Batch) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, part := range chunks(b) {
			going, err := r.engine.apply(ctx, r.front, part)
			if err != nil {
				return err
			}
			r.front, r.next = going, part.Next.Next
			if len(going) == 0 {
				r.alive = false
				return errAllStopped
			}
		}
		return nil
	})
	if errors.Is(err, errAllStopped) {
		return nil
	}
	return err
}

func (r *reader) follow(ctx context.Context, seats []*seat) error {
	err := r.engine.cfg.Tailer.Tail(ctx, r.partition, seats[0].checkpoint, func(ctx context.Context, b streams.Batch) error {
		for _, part := range chunks(b) {
			going, joined, err := r.catchUp(ctx, seats, part)
			seats = going
			switch {
			case err != nil:
				return err
			case joined:
				return errLevel
			case len(seats) == 0:
				return errAllStopped
			}
		}
		return nil
	})
	if errors.Is(err, errLevel) || errors.Is(err, errAllStopped) {
		return nil
	}
	return err
}

// catchUp applies a part of a batch and joins the front if it is level then. Whoever joins may stand a little
// further than the front: each seat skips what it has.
func (r *reader) catchUp(ctx context.Context, seats []*seat, part streams.Batch) (going []*seat, joined bool, err error) {
	r.mu.Lock()
	if r.next-part.From.Next > near || !r.alive {
		r.mu.Unlock()
		going, err = r.engine.apply(ctx, seats, part)
		return going, false, err
	}
	defer r.mu.Unlock()
	going, err = r.engine.apply(ctx, seats, part)
	if err == nil && len(going) > 0 && going[0].checkpoint.Next >= r.next {
		r.front = append(slices.Clone(r.front), going...)
		return going, true, nil
	}
	return going, false, err
}
