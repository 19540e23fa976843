package places

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/streams"
)

// Place is where a policy goes on in a partition.
type Place struct {
	Policy    string
	Partition int32
	At        streams.Checkpoint
}

// All are the places of all policies.
func All(ctx context.Context, pool *pgxpool.Pool) ([]Place, error) {
	rows, err := pool.Query(ctx, `SELECT policy, partition, `+fields+` FROM policy_places ORDER BY policy, partition`)
	if err != nil {
		return nil, fmt.Errorf("places: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Place, err error) {
		err = row.Scan(append([]any{&p.Policy, &p.Partition}, targets(&p.At)...)...)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("places: %w", err)
	}
	return found, nil
}

// BeginEra replaces the places in a log that was migrated by those in its copy. A policy without one goes on from where
// it began there.
func BeginEra(ctx context.Context, tx pgx.Tx, places []Place) error {
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM policy_places`)
	for _, p := range places {
		a := p.At.Acceptance
		batch.Queue(`INSERT INTO policy_places (policy, partition, `+fields+`, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, cairn_now())`,
			p.Policy, p.Partition, p.At.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("places: begin an era: %w", err)
	}
	return nil
}
