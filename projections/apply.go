package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/streams"
)

// maxEvents bounds one transaction.
const maxEvents = 5000

// chunks cuts a batch at commits, so that no transaction holds much more than maxEvents events.
func chunks(b streams.Batch) []streams.Batch {
	var out []streams.Batch
	from, first, events := b.From, 0, 0
	for i := range b.Commits {
		events += len(b.Commits[i].Events)
		if events < maxEvents || i == len(b.Commits)-1 {
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
func (e *Engine) apply(ctx context.Context, seats []*seat, b streams.Batch) ([]*seat, error) {
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
func before(b streams.Batch, f *fault) streams.Batch {
	if f == nil {
		return b
	}
	out := streams.Batch{Partition: b.Partition, From: b.From, Next: b.From}
	for i, c := range b.Commits {
		if c.Place.Offset >= f.at.Place.Offset {
			break
		}
		out.Commits, out.Next = b.Commits[:i+1], cutAfter(c)
	}
	return out
}

// alone applies a batch for one seat, commit by commit where it can't be applied whole. It answers the first commit that
// can't be applied; an error is one that passes.
func (e *Engine) alone(ctx context.Context, s *seat, b streams.Batch) (*fault, error) {
	one := []*seat{s}
	err := e.transact(ctx, one, b)
	if err == nil {
		return nil, nil
	}
	if passing(ctx, err) {
		return nil, err
	}
	from := b.From
	for i, c := range b.Commits {
		if c.Place.Offset < s.checkpoint.Next {
			continue
		}
		single := streams.Batch{Partition: b.Partition, From: from, Next: cutAfter(c), Commits: b.Commits[i : i+1]}
		if err := e.transact(ctx, one, single); err != nil {
			if passing(ctx, err) {
				return nil, err
			}
			return &fault{at: c, reason: err}, nil
		}
		from = single.Next
	}
	// Every commit went in alone: what is left has none, or the failure did not come again.
	rest := streams.Batch{Partition: b.Partition, From: from, Next: b.Next}
	if err := e.transact(ctx, one, rest); err != nil {
		return nil, fmt.Errorf("projections: %s: %w", s.projector.Name(), err)
	}
	return nil, nil
}

// transact is one transaction: checkpoints first, then the models, then the notice to all processes. A commit
// whose outcome is not known is an error that passes: the checkpoints are read again.
func (e *Engine) transact(ctx context.Context, seats []*seat, b streams.Batch) (err error) {
	behind := make([]*seat, 0, len(seats))
	for _, s := range seats {
		if s.checkpoint.Next < b.Next.Next {
			behind = append(behind, s)
		}
	}
	if len(behind) == 0 {
		return nil
	}
	n := notice{Partition: b.Partition, Next: b.Next.Next, Era: b.Next.Acceptance.Era}
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
	if err := advance(ctx, tx, behind, b.Next); err != nil {
		return err
	}
	all := NewBatch(e.cfg.Schema, Generation{}, b.Partition, b.Commits)
	for _, s := range behind {
		mine := all.part(s.generation, s.checkpoint.Next)
		if len(mine.Commits) > 0 {
			if err := safely(ctx, s.projector, tx, mine); err != nil {
				return fmt.Errorf("projections: %s: %w", s.projector.Name(), err)
			}
		}
		n.Moved = append(n.Moved, s.generation.String())
		if *mine.touched {
			n.Touched = append(n.Touched, s.projector.Name())
		}
	}
	if len(b.Commits) > 0 {
		text, err := json.Marshal(n)
		if err != nil {
			return err
		}
		all.part(Generation{Projection: "notice"}, 0).Queue(notify, string(text))
	}
	if err := all.Flush(ctx, tx); err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return &passes{fmt.Errorf("projections: commit: %w", err)}
	}
	for _, s := range behind {
		s.checkpoint = b.Next
	}
	return nil
}

// passes marks an error that says nothing about the event.
type passes struct{ err error }

func (p *passes) Error() string { return p.err.Error() }
func (p *passes) Unwrap() error { return p.err }

// after are the commits from an offset on.
func after(commits []streams.Commit, offset int64) []streams.Commit {
	for i := range commits {
		if commits[i].Place.Offset >= offset {
			return commits[i:]
		}
	}
	return nil
}

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
	event := ""
	var named *EventError
	switch {
	case errors.As(reason, &named):
		event = named.Event.ID
	case len(at.Events) > 0:
		event = at.Events[0].ID
	}
	e.cfg.Log.Error("a projector stopped at an event that it can't apply", "projection", s.projector.Name(), "partition", s.partition,
		"offset", at.Place.Offset, "event", event, "reason", reason)
	tx, err := e.cfg.Pool.Begin(ctx)
	if err != nil {
		return &passes{err}
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	_, err = tx.Exec(ctx, `UPDATE projection_checkpoints SET stopped_at = cairn_now(), stopped_offset = $4, stopped_event = $5, stopped_reason = $6
		WHERE projection = $1 AND generation = $2 AND partition = $3 AND lane = 0 AND next_offset = $7`,
		s.projector.Name(), s.generation.Number, s.partition, at.Place.Offset, Text(event), Text(reason.Error()), s.checkpoint.Next)
	if err == nil {
		err = send(ctx, tx, notice{Partition: s.partition, Stopped: []string{s.generation.String()}})
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return &passes{fmt.Errorf("projections: mark %s as stopped: %w", s.projector.Name(), err)}
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
