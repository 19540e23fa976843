package writerstates

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/streams"
)

// BeginEra moves the writers' states from the end of a closed log to the end of its copy; the states themselves are
// those of scopes and streams, and stay. It refuses states that are not those of the old log's end.
func BeginEra(ctx context.Context, tx pgx.Tx, closed []streams.Acceptance, ends []streams.Checkpoint) error {
	rows, err := tx.Query(ctx, `SELECT partition, next_offset, era, lead, writer, closed, after_era, command_offset FROM writer_checkpoints FOR UPDATE`)
	if err != nil {
		return fmt.Errorf("writer states: begin an era: %w", err)
	}
	var partition int32
	var at streams.Checkpoint
	a := &at.Acceptance
	level := 0
	if _, err := pgx.ForEachRow(rows, []any{&partition, &at.Next, &a.Era, &a.Lead, &a.Writer, &a.Closed, &a.After.Era, &a.After.Offset}, func() error {
		if int(partition) >= len(closed) || at.Acceptance != closed[partition] {
			return fmt.Errorf("those of partition %d are not of its end", partition)
		}
		level++
		return nil
	}); err != nil {
		return fmt.Errorf("writer states: begin an era: %w", err)
	}
	if level != len(closed) {
		return fmt.Errorf("writer states: begin an era: %d partitions are stored, of %d", level, len(closed))
	}
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM writer_checkpoints`)
	for p, end := range ends {
		a := end.Acceptance
		batch.Queue(`INSERT INTO writer_checkpoints (partition, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, cairn_now())`, p, end.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("writer states: begin an era: %w", err)
	}
	return nil
}
