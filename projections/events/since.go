package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Reset is the answer to a reader that can't go on from where it is: it must load what it follows anew, and go on from Head.
type Reset struct {
	After  uint64 // where it is
	Oldest uint64 // from where it could go on
	Head   uint64 // the newest
	Pruned bool   // what it needs was deleted; else it is only too far back
}

// Error says why.
func (r *Reset) Error() string {
	if r.Pruned {
		return fmt.Sprintf("events after %d were deleted; one can go on from %d or later, and the newest is %d", r.After, r.Oldest, r.Head)
	}
	return fmt.Sprintf("%d is too far back to go on from; %d is not, and the newest is %d", r.After, r.Oldest, r.Head)
}

// Since are the oldest limit events of a scope after a position, in order and without a gap, and the scope's head. Who is
// more than most events behind gets a *Reset (0: however far), and so does who needs what was pruned.
func (m *Model) Since(ctx context.Context, scope domain.Scope, after uint64, limit int, most uint64) ([]streams.Recorded, streams.Position, error) {
	head, err := m.Head(ctx, scope)
	if err != nil {
		return nil, head, err
	}
	if most > 0 && head.Position > most && after < head.Position-most {
		return nil, head, &Reset{After: after, Oldest: head.Position - most, Head: head.Position}
	}
	rows, err := m.ByScope(ctx, scope, after, limit)
	if err != nil {
		return nil, head, err
	}
	if whole(rows, after) {
		return rows, head, nil
	}
	floor, err := m.Floor(ctx, streams.StreamKey{Scope: scope})
	if err != nil {
		return nil, head, err
	}
	return nil, head, &Reset{After: after, Oldest: floor, Head: head.Position, Pruned: true}
}

// whole reports whether each position is the next.
func whole(rows []streams.Recorded, after uint64) bool {
	for _, r := range rows {
		if r.Position != after+1 {
			return false
		}
		after = r.Position
	}
	return true
}

// Floor is what was pruned: of a stream, the version from which on all its events are there; with an empty stream, the
// position up to which some of the scope's are not. 0: nothing was.
func (m *Model) Floor(ctx context.Context, key streams.StreamKey) (uint64, error) {
	var floor int64
	err := m.db.Row(ctx, Name, `SELECT floor FROM event_floors WHERE {live} AND generation = cairn_live('events') AND scope = $1 AND stream = $2`,
		[]any{string(key.Scope), string(key.Stream)}, &floor)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("events: floor of %s: %w", key.Scope, err)
	}
	return uint64(floor), nil
}

// ErrPruned is what a past can't be folded from: a part of its events.
var ErrPruned = errors.New("events that this needs were deleted")

// Past folds the events of a stream up to a version, or, with an empty stream, those of the scope up to a position, and
// answers the last of them (zero: there is none).
func (m *Model) Past(ctx context.Context, key streams.StreamKey, until uint64, schema *codec.Schema, models ...projections.Projector) (*projections.Past, streams.Recorded, error) {
	var last streams.Recorded
	past, err := projections.NewPast(ctx, m.db, schema, models...)
	if err != nil {
		return nil, last, err
	}
	for after := uint64(0); after < until; {
		limit := int(min(page, until-after))
		var rows []streams.Recorded
		if key.Stream != "" {
			rows, err = m.After(ctx, key, after, limit)
		} else {
			rows, err = m.ByScope(ctx, key.Scope, after, limit)
		}
		if err != nil {
			return nil, last, err
		}
		for _, r := range rows {
			at := r.Position
			if key.Stream != "" {
				at = r.Version
			}
			if at != after+1 {
				return nil, last, fmt.Errorf("events: the past of %s: %w", key.Scope, ErrPruned)
			}
			after, last = at, r
		}
		if err := past.Apply(ctx, rows); err != nil {
			return nil, last, err
		}
		if len(rows) < limit {
			break
		}
	}
	return past, last, nil
}
