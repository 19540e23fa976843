package projections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// sampleEnds notes where the log ends, by which effects tell whether a model is caught up.
func (e *Engine) sampleEnds(ctx context.Context, held map[int32]*holding) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Session/2)
	defer cancel()
	for partition := range held {
		end, err := e.cfg.Tailer.End(ctx, partition)
		if err == nil {
			_, err = e.cfg.Pool.Exec(ctx, `WITH old AS (DELETE FROM log_ends WHERE partition = $1
					AND (sampled_at < cairn_now() - interval '1 minute' OR sampled_at > cairn_now() + interval '1 minute'))
				INSERT INTO log_ends (partition, sampled_at, end_offset) VALUES ($1, cairn_now(), $2) ON CONFLICT DO NOTHING`, partition, end)
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("the end of the log is not known", "partition", partition, "error", err)
		}
	}
}

// errAgain says that the registry has changed: a generation is fed from now on, or not any more, or is to go on.
var errAgain = errors.New("projections: the registry has changed")

// feed brings the models of a partition along until ctx ends.
func (e *Engine) feed(ctx context.Context, partition int32, h *holding) error {
	wait := newBackOff()
	for {
		moved, err := e.feedOnce(ctx, partition, h)
		if moved {
			wait.Reset()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errAgain) {
			e.cfg.Log.Debug("the generations that are fed are looked up anew", "partition", partition)
			continue
		}
		if !errors.Is(err, errConflict) {
			e.cfg.Log.Warn("a partition's projectors begin again at their checkpoints", "partition", partition, "error", err)
		}
		if !pause(ctx, wait.NextBackOff()) {
			return ctx.Err()
		}
	}
}

func (e *Engine) feedOnce(ctx context.Context, partition int32, h *holding) (moved bool, err error) {
	select {
	case <-h.again: // what it says is read now
	default:
	}
	e.stops.forget(partition)
	found, err := feeding(ctx, e.cfg.Pool)
	if err != nil {
		return false, err
	}
	text := textOf(found)
	h.by.Store(&text)
	seats, err := seatsOf(ctx, e.cfg.Pool, e.cfg.Projectors, found, partition)
	if err == nil {
		err = e.checkEra(seats)
	}
	if err != nil {
		return false, err
	}
	group, ctx := errgroup.WithContext(ctx)
	if len(seats) > 0 {
		began := seats[0].checkpoint.Next
		defer func() { moved = seats[0].checkpoint.Next != began }()
		r := reader{engine: e, partition: partition}
		group.Go(func() error { return r.run(ctx, seats) }) // without an error: every projector has stopped
	}
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.again:
			return errAgain
		}
	})
	return moved, group.Wait()
}

// checkEra refuses checkpoints of a later era: the log was migrated while this process read the old one.
func (e *Engine) checkEra(seats []*seat) error {
	for _, s := range seats {
		if era := s.checkpoint.Acceptance.Era; e.cfg.Era > 0 && era > e.cfg.Era {
			return fmt.Errorf("projections: %s is in era %d and this process reads the log of era %d: the log was migrated, end this process", s.generation, era, e.cfg.Era)
		}
	}
	return nil
}

// stops are the seats that this engine has stopped, by partition.
type stops struct {
	mu    sync.Mutex
	seats map[int32][]*seat
}

func (s *stops) add(one *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seats == nil {
		s.seats = map[int32][]*seat{}
	}
	s.seats[one.partition] = append(s.seats[one.partition], one)
}

func (s *stops) forget(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seats, partition)
}

// all is a copy.
func (s *stops) all() map[int32][]*seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seats)
}

// registry is what decides which seats a partition has.
type registry struct {
	text   string
	marked map[string]bool // seats that are marked as stopped
}

// look has partitions begin again that are fed by another registry than there is now, and those where a seat that was stopped
// is not marked so any more: somebody wants it to be tried again.
func (s *session) look() {
	ctx, cancel := context.WithTimeout(s.life, s.engine.cfg.Session/2)
	defer cancel()
	stopped := s.engine.stops.all() // before: all of these were marked
	is, err := readRegistry(ctx, s.engine.cfg.Pool)
	if err != nil {
		return // the database is away: who writes says so
	}
	for partition, h := range s.held {
		unmarked := slices.ContainsFunc(stopped[partition], func(one *seat) bool { return !is.marked[one.String()] })
		by := h.by.Load() // nil: it will be read
		if by != nil && *by != is.text || unmarked {
			select {
			case h.again <- struct{}{}:
			default:
			}
		}
	}
}

// String names it.
func (s *seat) String() string {
	return fmt.Sprintf("%s %d %d", s.generation, s.partition, s.lane)
}

func readRegistry(ctx context.Context, q querier) (registry, error) {
	r := registry{marked: map[string]bool{}}
	found, err := feeding(ctx, q)
	if err != nil {
		return r, fmt.Errorf("projections: registry: %w", err)
	}
	r.text = textOf(found)
	rows, err := q.Query(ctx, `SELECT concat_ws(' ', projection, generation, partition, lane) FROM projection_checkpoints WHERE stopped_at IS NOT NULL`)
	if err != nil {
		return r, fmt.Errorf("projections: registry: %w", err)
	}
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&name}, func() error { r.marked[name] = true; return nil }); err != nil {
		return r, fmt.Errorf("projections: registry: %w", err)
	}
	return r, nil
}

// textOf is what of the generations to feed decides which seats there are.
func textOf(feeding []Generation) string {
	var text strings.Builder
	for _, g := range feeding {
		fmt.Fprintln(&text, g, g.Revision, g.Lanes, g.Live)
	}
	return text.String()
}
