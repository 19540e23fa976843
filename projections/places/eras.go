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
	Era       int // of the log it lies in; 0 unless All answered it
	At        streams.Checkpoint
}

// All are the places of all policies.
func All(ctx context.Context, pool *pgxpool.Pool) ([]Place, error) {
	rows, err := pool.Query(ctx, `SELECT policy, partition, log_era, `+fields+` FROM policy_places ORDER BY policy, partition`)
	if err != nil {
		return nil, fmt.Errorf("places: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Place, err error) {
		err = row.Scan(append([]any{&p.Policy, &p.Partition, &p.Era}, targets(&p.At)...)...)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("places: %w", err)
	}
	return found, nil
}

// BeginEra replaces the places in a log that was migrated by those in its copy. A policy without one goes on from where
// it began there. Nobody keeps a place in the old log afterwards.
func BeginEra(ctx context.Context, tx pgx.Tx, era int, places []Place) error {
	batch := &pgx.Batch{}
	// First, so that it and who keeps a place take their locks in the same order.
	batch.Queue(`INSERT INTO policy_era (era) VALUES ($1) ON CONFLICT (one) DO UPDATE SET era = greatest(policy_era.era, EXCLUDED.era)`, era)
	batch.Queue(`DELETE FROM policy_places`)
	for _, p := range places {
		a := p.At.Acceptance
		batch.Queue(`INSERT INTO policy_places (policy, partition, `+fields+`, log_era, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, cairn_now())`,
			p.Policy, p.Partition, p.At.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset, era)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("places: begin an era: %w", err)
	}
	return nil
}
