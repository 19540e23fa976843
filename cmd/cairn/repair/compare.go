package repair

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/projections/writerstates"
	"github.com/cairnhq/cairn/streams"
)

// keptRows is how many rows are sent to the database at once.
const keptRows = 10_000

// kept is the log as far as it was read, in tables of this session: what the read models have is held against it there,
// and there is no bound to how much it may be.
type kept struct {
	conn    *pgx.Conn
	events  [][]any
	decided [][]any
}

func (r *Repairer) keep(ctx context.Context) (*kept, error) {
	_, err := r.conn.Exec(ctx, `
		DROP TABLE IF EXISTS log_has, log_decided;
		CREATE TEMP TABLE log_has (scope text COLLATE "C", position bigint, hash bytea);
		CREATE TEMP TABLE log_decided (scope text COLLATE "C", command bytea)`)
	return &kept{conn: r.conn}, err
}

func (k *kept) add(ctx context.Context, c *streams.Commit) error {
	for _, e := range c.Events {
		k.events = append(k.events, []any{string(e.Scope), int64(e.Position), e.Hash})
	}
	if c.CommandID != "" {
		k.decided = append(k.decided, []any{string(c.Scope), writerstates.Key(c.CommandID)})
	}
	if len(k.events)+len(k.decided) < keptRows {
		return nil
	}
	return k.flush(ctx)
}

func (k *kept) flush(ctx context.Context) error {
	for _, table := range []struct {
		name    string
		columns []string
		rows    *[][]any
	}{
		{"log_has", []string{"scope", "position", "hash"}, &k.events},
		{"log_decided", []string{"scope", "command"}, &k.decided},
	} {
		if _, err := k.conn.CopyFrom(ctx, pgx.Identifier{table.name}, table.columns, pgx.CopyFromRows(*table.rows)); err != nil {
			return fmt.Errorf("keep what the log has: %w", err)
		}
		*table.rows = (*table.rows)[:0]
	}
	return nil
}

// compare finds what the read models have and the log has not.
func (k *kept) compare(ctx context.Context, f *Findings) error {
	if _, err := k.conn.Exec(ctx, `ANALYZE log_has; ANALYZE log_decided`); err != nil {
		return err
	}
	rows, err := k.conn.Query(ctx, `
		SELECT e.scope, e.stream, e.version, e.position, e.type, e.at, e.command_id, e.partition, e.log_offset
		FROM events e LEFT JOIN log_has l ON l.scope = e.scope AND l.position = e.position
		WHERE l.hash IS DISTINCT FROM e.hash ORDER BY e.scope, e.position`)
	if err != nil {
		return err
	}
	if f.Lost, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Lost]); err != nil {
		return err
	}
	return k.conn.QueryRow(ctx, `
		SELECT count(*) FROM answers a WHERE NOT EXISTS (SELECT FROM log_decided l WHERE l.scope = a.scope AND l.command = a.command)`).Scan(&f.Decisions)
}
