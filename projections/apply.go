package projections

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/streams"
)

// maxEvents bounds one transaction.
const maxEvents = 5000

// chunks cuts a batch at commits, so that none holds much more events than that.
func chunks(b streams.Batch, most int) []streams.Batch {
	var out []streams.Batch
	from, first, events := b.From, 0, 0
	for i := range b.Commits {
		events += len(b.Commits[i].Events)
		if events < most || i == len(b.Commits)-1 {
			continue
		}
		next := cutAfter(b.Commits[i])
		out = append(out, streams.Batch{Partition: b.Partition, From: from, Next: next, Commits: b.Commits[first : i+1]})
		from, first, events = next, i+1, 0
	}
	return append(out, streams.Batch{Partition: b.Partition, From: from, Next: b.Next, Commits: b.Commits[first:]})
}

// apply brings all seats to the end of a batch, in one transaction. Where one of them can't, each goes alone:
// the one that can't is stopped right before the commit it fails at, and the others go on, except where a Checker says
// that the log itself is at fault: nobody goes past that. It answers the seats that go on; an error is one that passes.
func (e *Engine) apply(ctx context.Context, seats []*seat, b *piece) ([]*seat, error) {
	err := e.transact(ctx, seats, b)
	if err == nil {
		return seats, nil
	}
	if passing(ctx, err) {
		return seats, err
	}
	var going []*seat
	var fault *fault // of the log itself
	for _, s := range checkersFirst(seats) {
		failed, err := e.alone(ctx, s, before(b, fault))
		if err != nil {
			return seats, err
		}
		if failed == nil {
			failed = fault
		}
		if failed == nil {
			going = append(going, s)
			continue
		}
		if err := e.stop(ctx, s, failed.at, failed.reason); err != nil {
			return seats, err
		}
		if c, checks := s.projector.(Checker); checks && c.Defect(failed.reason) {
			fault = failed
		}
	}
	return going, nil
}

// fault is a commit that can't be applied.
type fault struct {
	at     streams.Commit
	reason error
}

func checkersFirst(seats []*seat) []*seat {
	sorted := slices.Clone(seats)
	slices.SortStableFunc(sorted, func(a, b *seat) int { return rank(a) - rank(b) })
	return sorted
}

func rank(s *seat) int {
	if _, checks := s.projector.(Checker); checks {
		return 0
	}
	return 1
}

// before is what a batch holds before a fault.
func before(b *piece, f *fault) *piece {
	if f == nil {
		return b
	}
	out := &piece{partition: b.partition, from: b.from, next: b.from}
	for i, c := range b.commits {
		if c.Place.Offset >= f.at.Place.Offset {
			break
		}
		out.commits, out.values, out.next = b.commits[:i+1], b.values[:i+1], cutAfter(c)
	}
	return out
}

// alone applies a batch for one seat, commit by commit where it can't be applied whole. It answers the first commit that
// can't be applied; an error is one that passes.
func (e *Engine) alone(ctx context.Context, s *seat, b *piece) (*fault, error) {
	one := []*seat{s}
	err := e.transact(ctx, one, b)
	if err == nil {
		return nil, nil
	}
	if passing(ctx, err) {
		return nil, err
	}
	from := b.from
	for i, c := range b.commits {
		if c.Place.Offset < s.checkpoint.Next {
			continue
		}
		single := &piece{partition: b.partition, from: from, next: cutAfter(c), commits: b.commits[i : i+1], values: b.values[i : i+1]}
		if err := e.transact(ctx, one, single); err != nil {
			if passing(ctx, err) {
				return nil, err
			}
			return &fault{at: c, reason: err}, nil
		}
		from = single.next
	}
	// Every commit went in alone: what is left has none, or the failure did not come again.
	rest := &piece{partition: b.partition, from: from, next: b.next}
	if err := e.transact(ctx, one, rest); err != nil {
		return nil, fmt.Errorf("projections: %s: %w", s.projector.Name(), err)
	}
	return nil, nil
}

// transact is one transaction: checkpoints first, then the models, then the notice to all processes. A commit
// whose outcome is not known is an error that passes: the checkpoints are read again.
func (e *Engine) transact(ctx context.Context, seats []*seat, b *piece) (err error) {
	behind := make([]*seat, 0, len(seats))
	for _, s := range seats {
		if s.checkpoint.Next < b.next.Next {
			behind = append(behind, s)
		}
	}
	if len(behind) == 0 {
		return nil
	}
	began := time.Now()
	tx, err := e.cfg.Pool.Begin(ctx)
	if err != nil {
		return &passes{err}
	}
	defer func() {
		if err != nil && tx.Conn().IsClosed() {
			err = &passes{err}
		}
		_ = tx.Rollback(context.WithoutCancel(ctx)) // after a commit it does nothing
	}()
	if err := advance(ctx, tx, behind, b.next); err != nil {
		return err
	}
	done := Applied{Partition: b.partition, Lane: behind[0].lane, Commits: len(b.commits), Events: b.events(), Next: b.next.Next}
	n := notice{Partition: b.partition, Lane: behind[0].lane, Next: b.next.Next, Era: b.next.Acceptance.Era}
	all := newBatch(e.cfg.Schema, b)
	for _, s := range behind {
		started, mine := time.Now(), all.part(s, s.checkpoint.Next)
		if len(mine.Commits) > 0 {
			if err := safely(ctx, s.projector, tx, mine); err != nil {
				return fmt.Errorf("projections: %s: %w", s.projector.Name(), err)
			}
		}
		done.Models = append(done.Models, AppliedModel{Projection: s.projector.Name(), Generation: s.generation.Number, Live: s.generation.Live, Took: time.Since(started)})
		n.Moved = append(n.Moved, s.generation.String())
		if *mine.touched {
			n.Touched = append(n.Touched, s.projector.Name())
		}
	}
	if len(b.commits) > 0 {
		texts, err := n.texts()
		if err != nil {
			return err
		}
		for _, text := range texts {
			all.For(Generation{Projection: "notice"}).Queue(notify, text)
		}
	}
	if err := all.Flush(ctx, tx); err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return &passes{fmt.Errorf("projections: commit: %w", err)}
	}
	for _, s := range behind {
		s.checkpoint = b.next
	}
	e.observe(done, b, began)
	e.traced(done, b, began)
	return nil
}

func (e *Engine) observe(done Applied, b *piece, began time.Time) {
	if e.cfg.Observe == nil {
		return
	}
	if n := len(b.commits); n > 0 {
		done.DecidedAt, _ = time.Parse(streams.TimeLayout, b.commits[n-1].DecidedAt)
	}
	done.Took = time.Since(began)
	e.cfg.Observe(done)
}

// Applied is what a committed transaction did.
type Applied struct {
	Partition       int32
	Lane            int
	Commits, Events int
	Next            int64         // the log offset that is read next
	DecidedAt       time.Time     // of the newest commit; zero: there was none
	Took            time.Duration // the whole transaction
	Models          []AppliedModel
}

// AppliedModel is one generation's part in a transaction.
type AppliedModel struct {
	Projection string
	Generation int
	Live       bool          // it is the one that is read, as far as was known
	Took       time.Duration // of its fold, with what it read; writing is done for all together
}

// passes marks an error that says nothing about the event.
type passes struct{ err error }

func (p *passes) Error() string { return p.err.Error() }
func (p *passes) Unwrap() error { return p.err }

// safely makes a panic of a projector an error that names it.
func safely(ctx context.Context, p Projector, tx pgx.Tx, b Batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return p.Apply(ctx, tx, b)
}

// stop marks a projector as stopped before a commit, with the event and the reason, for every process to see.
func (e *Engine) stop(ctx context.Context, s *seat, at streams.Commit, reason error) error {
	stopped := &Stopped{Projection: s.projector.Name(), Partition: s.partition, Offset: at.Place.Offset, Reason: reason.Error()}
	var named *EventError
	if errors.As(reason, &named) {
		stopped.Event = named.Event.ID
	} else if i := slices.IndexFunc(at.Events, func(r streams.Recorded) bool { return !s.skips[r.ID] }); i >= 0 {
		stopped.Event = at.Events[i].ID // which one is not known: who steps over this one comes to the next
	}
	e.cfg.Log.Error("a projector stopped at an event that it can't apply", "projection", s.generation.String(), "partition", s.partition,
		"lane", s.lane, "offset", stopped.Offset, "event", stopped.Event, "reason", reason)
	if err := markStopped(ctx, e.cfg.Pool, s, stopped); err != nil {
		return err
	}
	e.stops.add(s)
	return nil
}

// markStopped marks a seat as stopped. Nobody may have moved it meanwhile.
func markStopped(ctx context.Context, pool *pgxpool.Pool, s *seat, stopped *Stopped) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE projection_checkpoints SET stopped_at = cairn_now(), stopped_offset = $5, stopped_event = $6, stopped_reason = $7
			WHERE projection = $1 AND generation = $2 AND partition = $3 AND lane = $4 AND next_offset = $8`,
			s.projector.Name(), s.generation.Number, s.partition, s.lane, stopped.Offset, Text(stopped.Event), Text(stopped.Reason), s.checkpoint.Next)
		if err != nil {
			return err
		}
		return send(ctx, tx, notice{Partition: s.partition, Lane: s.lane, Stopped: []string{s.generation.String()}})
	})
	if err != nil {
		return &passes{fmt.Errorf("projections: mark %s as stopped: %w", s.generation, err)}
	}
	return nil
}

// State is where a projector stands in a partition.
type State struct {
	Projection string
	Generation int
	Live       bool // this generation is read
	Partition  int32
	Lane       int
	Checkpoint streams.Checkpoint
	UpdatedAt  time.Time
	// End is the newest known end of the partition's log; -1: not sampled lately.
	End     int64
	Stopped *Stopped
}

// Lag is how many log offsets the projector is behind.
func (s State) Lag() int64 { return max(0, s.End-s.Checkpoint.Next) }

// Stopped says at which event a projector stopped, and why. It is also the error of who waits for it.
type Stopped struct {
	Projection string
	Partition  int32
	Offset     int64
	Event      string
	Reason     string
	At         time.Time
}

// ErrStopped is what a *Stopped is.
var ErrStopped = errors.New("the projector has stopped")

// Error says where and why.
func (s *Stopped) Error() string {
	return fmt.Sprintf("projector %s stopped in partition %d at offset %d, event %s: %s", s.Projection, s.Partition, s.Offset, s.Event, s.Reason)
}

// Is makes a *Stopped an ErrStopped.
func (s *Stopped) Is(target error) bool { return target == ErrStopped }
