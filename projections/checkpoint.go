package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

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

// LiveCheckpoint is where the live generation of a model stands in a partition, in the snapshot of q; the
// start where it has none. A read that also wants to go on from the log reads both in one transaction.
func LiveCheckpoint(ctx context.Context, q querier, model string, partition int32) (streams.Checkpoint, error) {
	c := streams.Start()
	err := q.QueryRow(ctx, `SELECT `+checkpointFields+`
		  FROM projection_checkpoints c JOIN projections p ON p.name = c.projection AND p.generation = c.generation
		 WHERE c.projection = $1 AND c.partition = $2 AND c.lane = 0`, model, partition).Scan(checkpointTargets(&c)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return streams.Start(), nil
	}
	if err != nil {
		return c, fmt.Errorf("projections: checkpoint of %s: %w", model, err)
	}
	return c, nil
}
