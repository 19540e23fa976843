package events

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Tail are the newest limit events of a stream, in order; all of them with limit 0.
func (m *Model) Tail(ctx context.Context, key streams.StreamKey, limit int) ([]streams.Recorded, error) {
	return m.Before(ctx, key, 0, limit)
}

// Before are the newest limit events of a stream with a version below, in order. Version 0 means the end.
func (m *Model) Before(ctx context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error) {
	if version == 0 || version > math.MaxInt64 {
		version = math.MaxInt64 // one condition for both, so that every plan goes by the index
	}
	rows, err := m.query(ctx, `SELECT `+fields+` FROM {events} WHERE {live} AND scope = $1 AND stream = $2 AND version < $3
		ORDER BY version DESC LIMIT NULLIF($4::bigint, 0)`, string(key.Scope), string(key.Stream), int64(version), limit)
	slices.Reverse(rows)
	return rows, err
}

// After are the oldest limit events of a stream with a version above, in order; all of them with limit 0.
func (m *Model) After(ctx context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error) {
	return m.query(ctx, `SELECT `+fields+` FROM {events} WHERE {live} AND scope = $1 AND stream = $2 AND version > $3
		ORDER BY version LIMIT NULLIF($4::bigint, 0)`, string(key.Scope), string(key.Stream), int64(version), limit)
}

// ByScope are the oldest limit events of a scope with a position above, in order; all of them with limit 0.
func (m *Model) ByScope(ctx context.Context, scope domain.Scope, after uint64, limit int) ([]streams.Recorded, error) {
	return m.query(ctx, `SELECT `+fields+` FROM {events} WHERE {live} AND scope = $1 AND position > $2
		ORDER BY position LIMIT NULLIF($3::bigint, 0)`, string(scope), int64(after), limit)
}

// Run are the events of a run's thread that belong to the run, in order.
func (m *Model) Run(ctx context.Context, scope domain.Scope, run string) ([]streams.Recorded, error) {
	return m.query(ctx, `SELECT `+fields+` FROM {events} WHERE {live} AND scope = $1 AND run = $2 ORDER BY version`, string(scope), projections.Text(run))
}

// Around says, for kafka.Config.Around, what the model has about a position of a scope in the log of an era.
func (m *Model) Around(era int) func(ctx context.Context, partition int32, since int64, scope domain.Scope, position uint64) (streams.Around, error) {
	return func(ctx context.Context, partition int32, _ int64, scope domain.Scope, position uint64) (streams.Around, error) {
		type lane struct {
			number, of int
			streams.Around
		}
		// One statement, so that the rows are those of the checkpoint. What was pruned counts as of an earlier era.
		lanes, err := projections.Rows(ctx, m.db, Name, `SELECT c.lane, g.lanes, c.next_offset,
				coalesce((SELECT CASE WHEN e.era = $3 THEN e.log_offset ELSE -1 END FROM {events} e WHERE e.scope = $4 AND e.position = $5 - 1),
					(SELECT -1 FROM event_floors f WHERE f.generation = p.generation AND f.scope = $4 AND f.stream = '' AND f.floor >= $5 - 1)),
				(SELECT e.log_offset FROM {events} e WHERE e.scope = $4 AND e.position = $5 AND e.era = $3)
			FROM projections p JOIN projection_generations g ON g.projection = p.name AND g.generation = p.generation
			JOIN projection_checkpoints c ON c.projection = p.name AND c.generation = p.generation
			WHERE {live} AND p.name = $1 AND c.partition = $2 AND c.era = $3`,
			func(row pgx.CollectableRow) (l lane, err error) {
				err = row.Scan(&l.number, &l.of, &l.Next, &l.Before, &l.At)
				return l, err
			}, Name, partition, era, string(scope), int64(position))
		if err != nil {
			return streams.Around{Next: -1}, fmt.Errorf("events: around position %d of %s: %w", position, scope, err)
		}
		for _, l := range lanes {
			if l.number == projections.LaneOf(scope, l.of) {
				return l.Around, nil
			}
		}
		return streams.Around{Next: -1}, nil
	}
}

// Window are the versions that a stream has.
type Window struct {
	Min, Max, Next uint64 // Min and Max are 0 where there is none
}

// Window answers ErrNotFound for a stream without events in the scope.
func (m *Model) Window(ctx context.Context, key streams.StreamKey) (Window, error) {
	var low, high *int64
	err := m.db.Row(ctx, Name, `SELECT
			greatest((SELECT version FROM {events} WHERE scope = $1 AND stream = $2 ORDER BY version LIMIT 1),
				(SELECT floor FROM event_floors WHERE generation = cairn_live('events') AND scope = $1 AND stream = $2)),
			(SELECT version FROM {events} WHERE scope = $1 AND stream = $2 ORDER BY version DESC LIMIT 1)
			WHERE {live}`, []any{string(key.Scope), string(key.Stream)}, &low, &high)
	if err != nil {
		return Window{}, fmt.Errorf("events: window of %s: %w", key.Stream, err)
	}
	if low == nil || high == nil {
		return Window{Next: 1}, fmt.Errorf("events: %s: %w", key.Stream, projections.ErrNotFound)
	}
	return Window{Min: uint64(*low), Max: uint64(*high), Next: uint64(*high) + 1}, nil
}

// Head is the newest position of a scope that the model has. A scope without events has position 0.
func (m *Model) Head(ctx context.Context, scope domain.Scope) (streams.Position, error) {
	p := streams.Position{Scope: scope, Partition: m.partitionOf(scope)}
	var position int64
	err := m.db.Row(ctx, Name, `SELECT position, era, partition, log_offset FROM {events} WHERE {live} AND scope = $1 ORDER BY position DESC LIMIT 1`,
		[]any{string(scope)}, &position, &p.Era, &p.Partition, &p.Offset)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("events: head of %s: %w", scope, err)
	}
	p.Position = uint64(position)
	return p, nil
}

// CatchUp reads in one snapshot the events after a cursor and the checkpoint from which the log goes on:
// those of one stream after a version, or, with an empty stream, those of the scope after a position.
func (m *Model) CatchUp(ctx context.Context, scope domain.Scope, stream domain.Stream, after uint64) (rows []streams.Recorded, from streams.Checkpoint, err error) {
	err = m.db.Snapshot(ctx, []string{Name}, func(ctx context.Context, tx *projections.Tx) error {
		from, err = projections.LiveCheckpoint(ctx, tx, Name, m.partitionOf(scope), scope)
		if err != nil {
			return err
		}
		sql, args := `SELECT `+fields+` FROM {events} WHERE scope = $1 AND position > $2 ORDER BY position`, []any{string(scope), int64(after)}
		if stream != "" {
			sql = `SELECT ` + fields + ` FROM {events} WHERE scope = $1 AND version > $2 AND stream = $3 ORDER BY version`
			args = append(args, string(stream))
		}
		result, err := tx.Query(ctx, tx.Expand(Name, sql), args...)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(result, scan)
		return err
	})
	if err != nil {
		return nil, from, fmt.Errorf("events: catch up %s: %w", scope, err)
	}
	return rows, from, nil
}

// page is how many events Stream reads at a time.
const page = 1000

// Stream implements streams.History.
func (m *Model) Stream(ctx context.Context, key streams.StreamKey, after uint64, each func(streams.Recorded) error) (uint64, error) {
	for {
		rows, err := m.After(ctx, key, after, page)
		if err != nil {
			return after, err
		}
		for _, r := range rows {
			if err := each(r); err != nil {
				return after, err
			}
			after = r.Version
		}
		if len(rows) < page {
			return after, nil
		}
	}
}

func (m *Model) query(ctx context.Context, sql string, args ...any) ([]streams.Recorded, error) {
	rows, err := projections.Rows(ctx, m.db, Name, sql, scan, args...)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return rows, nil
}
