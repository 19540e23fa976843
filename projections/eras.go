package projections

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// Repartitioner is a projector whose rows name a partition by which they are chosen: after a migration of the log that of
// their scope is another.
type Repartitioner interface {
	Repartition(ctx context.Context, tx pgx.Tx, partitionOf func(domain.Scope) int32) error
}

// BeginEra moves every read model from the end of a closed log to the end of its copy, rows untouched: closed are the
// acceptance states in which the old log ended, by partition, and ends the checkpoints in the new one. It refuses a read
// model that has not read the old log to its end.
func BeginEra(ctx context.Context, tx pgx.Tx, closed []streams.Acceptance, ends []streams.Checkpoint) error {
	rows, err := tx.Query(ctx, `SELECT c.projection, c.generation, g.lanes, c.partition, `+checkpointFields+`
		FROM projection_checkpoints c JOIN projection_generations g USING (projection, generation) FOR UPDATE OF c`)
	if err != nil {
		return fmt.Errorf("projections: begin an era: %w", err)
	}
	type model struct {
		name              string
		generation, lanes int
	}
	var models []model
	var one model
	var partition int32
	var at streams.Checkpoint
	if _, err := pgx.ForEachRow(rows, append([]any{&one.name, &one.generation, &one.lanes, &partition}, checkpointTargets(&at)...), func() error {
		if int(partition) >= len(closed) || at.Acceptance != closed[partition] {
			return fmt.Errorf("%s has not read partition %d to its end", one.name, partition)
		}
		if !slices.Contains(models, one) {
			models = append(models, one)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("projections: begin an era: %w", err)
	}
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM projection_checkpoints`)
	batch.Queue(`DELETE FROM log_ends`)
	for _, m := range models {
		for p, end := range ends {
			a := end.Acceptance
			batch.Queue(`INSERT INTO projection_checkpoints (projection, generation, partition, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
				SELECT $1, $2, $3, lane, $4, $5, $6, $7, $8, $9, $10, cairn_now() FROM generate_series(0, $11 - 1) AS lane`,
				m.name, m.generation, p, end.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset, m.lanes)
		}
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("projections: begin an era: %w", err)
	}
	return nil
}

// Repartition sets the partition of every row of a projection's tables, which have scopes, in all generations.
func Repartition(ctx context.Context, tx pgx.Tx, projection string, partitionOf func(domain.Scope) int32) error {
	found, err := Generations(ctx, tx)
	if err != nil {
		return err
	}
	for _, g := range Of(found, projection) {
		for _, table := range g.Tables {
			if err := repartition(ctx, tx, g.Table(table), partitionOf); err != nil {
				return fmt.Errorf("projections: partitions of %s: %w", g, err)
			}
		}
	}
	return nil
}

func repartition(ctx context.Context, tx pgx.Tx, table string, partitionOf func(domain.Scope) int32) error {
	name := pgx.Identifier{table}.Sanitize()
	rows, err := tx.Query(ctx, `SELECT DISTINCT scope FROM `+name)
	if err != nil {
		return err
	}
	scopes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	partitions := make([]int32, len(scopes))
	for i, scope := range scopes {
		partitions[i] = partitionOf(domain.Scope(scope))
	}
	_, err = tx.Exec(ctx, `UPDATE `+name+` t SET partition = k.partition
		FROM unnest($1::text[], $2::int[]) AS k (scope, partition) WHERE t.scope = k.scope`, scopes, partitions)
	return err
}
