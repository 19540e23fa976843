package projections

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// reader reads one partition for all its seats. Those that stand furthest are fed by one tail, the front, each lane by
// itself. Who is further back has a tail of its own, until it is level with the front of its lane and joins it.
type reader struct {
	engine    *Engine
	partition int32
	fronts    map[lane]*front
}

// front are the seats of a lane that are furthest.
type front struct {
	mu    sync.Mutex // held while they are fed, and by whoever joins them
	seats []*seat
	next  int64 // where they stand
	alive bool  // they are fed
}

// near is how many offsets behind the front a tail holds the front's lock, so that it can't be outrun for ever. Seats as near
// to each other begin with one tail.
const near = 4096

// run feeds the seats until ctx ends, or an error passes by. It answers nil when all projectors have stopped.
func (r *reader) run(ctx context.Context, seats []*seat) error {
	groups := byPlace(seats)
	r.fronts = map[lane]*front{}
	for _, s := range seats {
		r.fronts[s.of()] = &front{}
	}
	lowest := slices.MinFunc(groups[0], further).checkpoint
	for _, s := range groups[0] {
		f := r.fronts[s.of()]
		f.seats, f.next, f.alive = append(f.seats, s), lowest.Next, true
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, g := range groups {
		flow := r.follow(g)
		if i == 0 {
			flow = r.lead(g)
		}
		group.Go(func() error { return flow.run(ctx) })
	}
	return group.Wait()
}

func further(a, b *seat) int { return int(min(1, max(-1, a.checkpoint.Next-b.checkpoint.Next))) }

// byPlace are the seats grouped by where they stand, the furthest first. Those of a group are near to each other.
func byPlace(seats []*seat) [][]*seat {
	sorted := slices.Clone(seats)
	slices.SortStableFunc(sorted, func(a, b *seat) int { return further(b, a) })
	var groups [][]*seat
	for _, s := range sorted {
		last := len(groups) - 1
		if last >= 0 && groups[last][0].checkpoint.Next-s.checkpoint.Next <= near && groups[last][0].checkpoint.Acceptance.Era == s.checkpoint.Acceptance.Era {
			groups[last] = append(groups[last], s)
			continue
		}
		groups = append(groups, []*seat{s})
	}
	return groups
}

// errDone ends the feeding of a lane: its projectors have all stopped, or joined the front.
var errDone = errors.New("all projectors of the lane have stopped or joined the front")

// flow is one tail and the lanes that it feeds.
type flow struct {
	reader *reader
	from   streams.Checkpoint
	lanes  map[lane]func(context.Context, *piece) error
}

func (r *reader) flow(seats []*seat) *flow {
	return &flow{reader: r, from: slices.MinFunc(seats, further).checkpoint, lanes: map[lane]func(context.Context, *piece) error{}}
}

// lead is the flow of the fronts.
func (r *reader) lead(seats []*seat) *flow {
	flow := r.flow(seats)
	for _, s := range seats {
		f := r.fronts[s.of()]
		flow.lanes[s.of()] = func(ctx context.Context, p *piece) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			going, err := r.engine.apply(ctx, f.seats, p)
			if err != nil {
				return err
			}
			f.seats, f.next = going, p.next.Next
			if len(going) == 0 {
				f.alive = false
				return errDone
			}
			return nil
		}
	}
	return flow
}

// follow is the flow of seats that are behind.
func (r *reader) follow(seats []*seat) *flow {
	flow := r.flow(seats)
	byLane := map[lane][]*seat{}
	for _, s := range seats {
		byLane[s.of()] = append(byLane[s.of()], s)
	}
	for l, behind := range byLane {
		flow.lanes[l] = func(ctx context.Context, p *piece) (err error) {
			var joined bool
			behind, joined, err = r.catchUp(ctx, r.fronts[l], behind, p)
			if err == nil && (joined || len(behind) == 0) {
				return errDone
			}
			return err
		}
	}
	return flow
}

// catchUp applies a piece and joins the front if it is level then. Whoever joins may stand a little further than the front:
// each seat skips what it has.
func (r *reader) catchUp(ctx context.Context, f *front, seats []*seat, p *piece) (going []*seat, joined bool, err error) {
	f.mu.Lock()
	if f.next-p.from.Next > near || !f.alive {
		f.mu.Unlock()
		going, err = r.engine.apply(ctx, seats, p)
		return going, false, err
	}
	defer f.mu.Unlock()
	going, err = r.engine.apply(ctx, seats, p)
	if err == nil && len(going) > 0 && slices.MinFunc(going, further).checkpoint.Next >= f.next {
		f.seats = append(slices.Clone(f.seats), going...)
		return going, true, nil
	}
	return going, false, err
}
