package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNoProjection is the answer for a name that no projection has.
var ErrNoProjection = errors.New("there is no such read model: see `cairn projections list`")

// Pause has a projection, all its generations, fed no more until Resume. Engines hear of it within a second.
func Pause(ctx context.Context, pool *pgxpool.Pool, name, by string) error {
	return control(ctx, pool, name, `UPDATE projections SET paused_at = coalesce(paused_at, cairn_now()), paused_by = coalesce(paused_by, $2) WHERE name = $1`, name, Text(by))
}

// Resume undoes Pause, and has a projection that stopped at an event try it again.
func Resume(ctx context.Context, pool *pgxpool.Pool, name string) error {
	return control(ctx, pool, name, `WITH stops AS (UPDATE projection_checkpoints
			SET stopped_at = NULL, stopped_offset = NULL, stopped_event = NULL, stopped_reason = NULL WHERE projection = $1 AND stopped_at IS NOT NULL)
		UPDATE projections SET paused_at = NULL, paused_by = NULL WHERE name = $1`, name)
}

func control(ctx context.Context, pool *pgxpool.Pool, name, sql string, args ...any) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNoProjection
		}
		return send(ctx, tx, notice{Changed: []string{name}})
	})
	if err != nil {
		return fmt.Errorf("projections: %s: %w", name, err)
	}
	return nil
}

// Retry takes the mark from the projectors that stopped at an offset, so that they are tried again, and answers their names.
func Retry(ctx context.Context, pool *pgxpool.Pool, partition int32, offset int64) ([]string, error) {
	rows, err := pool.Query(ctx, `WITH gone AS (UPDATE projection_checkpoints
		   SET stopped_at = NULL, stopped_offset = NULL, stopped_event = NULL, stopped_reason = NULL
		 WHERE partition = $1 AND stopped_offset = $2 RETURNING projection) SELECT DISTINCT projection FROM gone ORDER BY projection`, partition, offset)
	if err != nil {
		return nil, fmt.Errorf("projections: retry: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("projections: retry: %w", err)
	}
	return names, nil
}

// Skipped is an event that a projection steps over.
type Skipped struct {
	Projection string `json:"projection"`
	Partition  int32  `json:"partition"`
	Offset     int64  `json:"offset"`
	Event      string `json:"event"`
	Reason     string `json:"reason"`
	// Had are the generations that had applied the event before: they keep what it did until they are filled anew.
	Had []int `json:"had"`
}

// ErrNotStopped is the answer to Skip where there is nothing to step over.
var ErrNotStopped = errors.New("it has not stopped there")

// Refused is the answer to Skip where an event must not be stepped over.
type Refused struct {
	Projection string
	Stopped    Stopped
}

// Error says what to do instead.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s checks the log itself and steps over no event: `cairn log void %d %d --reason …` lets everybody step over that record",
		r.Projection, r.Stopped.Partition, r.Stopped.Offset)
}

// Skip has a projection step over the event at which it stopped in a partition, the one first in the log where several lanes
// or generations stopped. That holds for all its generations that have not applied it yet, also later ones; those that have
// are answered. It is for who has looked at the event: what the read model then lacks, nothing brings back but a rebuild
// without the skip.
func Skip(ctx context.Context, pool *pgxpool.Pool, projectors []Projector, name string, partition int32, by, reason string) (Skipped, error) {
	skipped := Skipped{Projection: name, Partition: partition, Reason: reason}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		stopped := Stopped{Projection: name, Partition: partition}
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM projections WHERE name = $1)`, name).Scan(&known); err != nil {
			return err
		}
		if !known {
			return ErrNoProjection
		}
		var lane, era int
		err := tx.QueryRow(ctx, `SELECT stopped_offset, stopped_event, stopped_reason, stopped_at, lane, era FROM projection_checkpoints
			WHERE projection = $1 AND partition = $2 AND stopped_at IS NOT NULL ORDER BY stopped_offset, generation, lane LIMIT 1 FOR UPDATE`,
			name, partition).Scan(&stopped.Offset, &stopped.Event, &stopped.Reason, &stopped.At, &lane, &era)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotStopped
		}
		if err != nil {
			return err
		}
		for _, p := range projectors {
			if _, checks := p.(Checker); checks && p.Name() == name {
				return &Refused{Projection: name, Stopped: stopped}
			}
		}
		skipped.Offset, skipped.Event = stopped.Offset, stopped.Event
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO projection_skips (projection, event_id, partition, log_offset, reason, skipped_by, skipped_at)
			VALUES ($1, $2, $3, $4, $5, $6, cairn_now()) ON CONFLICT DO NOTHING`, name, stopped.Event, partition, stopped.Offset, Text(reason), Text(by))
		batch.Queue(`UPDATE projection_checkpoints SET stopped_at = NULL, stopped_offset = NULL, stopped_event = NULL, stopped_reason = NULL
			WHERE projection = $1 AND partition = $2 AND stopped_event = $3`, name, partition, stopped.Event)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT generation FROM projection_checkpoints WHERE projection = $1 AND partition = $2 AND lane = $3
			AND (era, next_offset) > ($4, $5) ORDER BY generation`, name, partition, lane, era, stopped.Offset)
		if err != nil {
			return err
		}
		if skipped.Had, err = pgx.CollectRows(rows, pgx.RowTo[int]); err != nil {
			return err
		}
		return send(ctx, tx, notice{Changed: []string{name}})
	})
	if err != nil {
		return Skipped{}, fmt.Errorf("projections: skip in %s, partition %d: %w", name, partition, err)
	}
	return skipped, nil
}
