package repair

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/cmd/cairn/backup"
	"github.com/cairnhq/cairn/projections/vault"
)

// Mended says what was done.
type Mended struct {
	vault.Agreed
	Tables []string // that were emptied
	Padded int64    // records that only take an offset, put into the topic of commands
}

// Mend makes what Look found good. It may be broken off and run again: the tables go last.
func (r *Repairer) Mend(ctx context.Context, f Findings) (Mended, error) {
	m, err := r.mend(ctx, f)
	if err != nil {
		return m, fmt.Errorf("repair: %w", err)
	}
	return m, nil
}

func (r *Repairer) mend(ctx context.Context, f Findings) (Mended, error) {
	var m Mended
	topics := r.Kafka.Topics
	for partition, next := range f.Passed {
		padded, err := backup.Pad(ctx, r.Kafka, topics.Commands(), partition, next)
		if err != nil {
			return m, err
		}
		m.Padded += padded
	}
	if len(f.Ahead) == 0 {
		return m, nil
	}
	for p := range topics.N() {
		// A writer that led before the loss, and sleeps somewhere, must not go on from what it knows.
		if err := backup.Fence(ctx, r.Kafka, p, f.log.At(p)); err != nil {
			return m, err
		}
	}
	var err error
	if m.Agreed, err = r.Vault.Agree(ctx, f.log.Facts(topics.CurrentEra())); err != nil {
		return m, err
	}
	m.Tables, err = r.empty(ctx)
	return m, err
}

// empty throws away what can be filled again, and work tables, which may be lost; it pauses effects, whose outcomes may be
// among what is lost. Only the registry of generations and the switch stay.
func (r *Repairer) empty(ctx context.Context) (tables []string, err error) {
	err = pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
			AND relname NOT IN ('cairn_migrations', 'projections', 'projection_generations', 'projection_skips', 'effects_switch') ORDER BY relname`)
		if err != nil {
			return err
		}
		if tables, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		names := make([]string, len(tables))
		for i, name := range tables {
			names[i] = pgx.Identifier{name}.Sanitize()
		}
		if _, err := tx.Exec(ctx, `TRUNCATE `+strings.Join(names, ", ")); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO effects_switch (paused, paused_at) VALUES (true, cairn_now())
			ON CONFLICT (one) DO UPDATE SET paused = true, paused_at = coalesce(effects_switch.paused_at, EXCLUDED.paused_at)`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("empty the read models: %w", err)
	}
	return tables, nil
}
