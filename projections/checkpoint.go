package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// querier is what a pool, a connection and a transaction have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const checkpointFields = `c.next_offset, c.era, c.lead, c.writer, c.closed, c.after_era, c.command_offset`

func checkpointTargets(c *streams.Checkpoint) []any {
	a := &c.Acceptance
	return []any{&c.Next, &a.Era, &a.Lead, &a.Writer, &a.Closed, &a.After.Era, &a.After.Offset}
}

// LiveCheckpoint is where the live generation of a model stands in the lane of a scope, in the snapshot of q; the start where
// it has none. A read that also wants to go on from the log reads both in one transaction.
func LiveCheckpoint(ctx context.Context, q querier, model string, partition int32, scope domain.Scope) (streams.Checkpoint, error) {
	rows, err := q.Query(ctx, `SELECT `+checkpointFields+`
		  FROM projection_checkpoints c JOIN projections p ON p.name = c.projection AND p.generation = c.generation
		 WHERE c.projection = $1 AND c.partition = $2 ORDER BY c.lane`, model, partition)
	if err != nil {
		return streams.Start(), fmt.Errorf("projections: checkpoint of %s: %w", model, err)
	}
	lanes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c streams.Checkpoint, err error) {
		err = row.Scan(checkpointTargets(&c)...)
		return c, err
	})
	if err != nil {
		return streams.Start(), fmt.Errorf("projections: checkpoint of %s: %w", model, err)
	}
	if len(lanes) == 0 {
		return streams.Start(), nil
	}
	return lanes[LaneOf(scope, len(lanes))], nil
}
