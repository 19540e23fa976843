package events

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/streams"
)

// Reached is the newest position of a scope that a model has which reads next at an offset of the log of an
// era, as far as this model knows it. Without such an event it is position 0.
func (m *Model) Reached(ctx context.Context, scope domain.Scope, era int, next int64) (streams.Position, error) {
	// From the end of the scope backwards: as many rows as the model lacks.
	found, err := projections.Rows(ctx, m.db, Name, `SELECT position, era, partition, log_offset FROM {events}
		WHERE {live} AND scope = $1 AND (era < $2 OR era = $2 AND log_offset < $3) ORDER BY position DESC LIMIT 1`,
		func(row pgx.CollectableRow) (streams.Position, error) {
			p := streams.Position{Scope: scope}
			var position int64
			err := row.Scan(&position, &p.Era, &p.Partition, &p.Offset)
			p.Position = uint64(position)
			return p, err
		}, string(scope), era, next)
	if err != nil {
		return streams.Position{}, fmt.Errorf("events: how far a model is: %w", err)
	}
	if len(found) == 0 {
		return streams.Position{Scope: scope}, nil
	}
	return found[0], nil
}
