package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Count is how many rows a table has, and how much room it takes with its indexes.
type Count struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	// Exact is false where counting took too long; Rows is then what the planner thinks.
	Exact bool  `json:"exact"`
	Bytes int64 `json:"bytes"`
}

// Counts are the rows of every table of the database that dsn names, each counted for at most the timeout.
func Counts(ctx context.Context, dsn string, timeout time.Duration) ([]Count, error) {
	conn, err := connect(ctx, dsn, asOwner)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `SELECT relname, greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)
		FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND relname <> 'cairn_migrations' ORDER BY relname`)
	if err != nil {
		return nil, fmt.Errorf("query: tables: %w", err)
	}
	counts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Count, error) {
		var c Count
		return c, row.Scan(&c.Table, &c.Rows, &c.Bytes)
	})
	if err != nil {
		return nil, fmt.Errorf("query: tables: %w", err)
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d", max(1, timeout.Milliseconds()))); err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	kept := counts[:0]
	for _, c := range counts {
		err := conn.QueryRow(ctx, `SELECT count(*) FROM `+pgx.Identifier{c.Table}.Sanitize()).Scan(&c.Rows)
		var said *pgconn.PgError
		switch {
		case err == nil:
			c.Exact = true
		case errors.As(err, &said) && said.Code == "42P01":
			continue // a generation was dropped meanwhile
		case errors.As(err, &said) && (said.Code == "57014" || said.Code == "55P03"):
		default:
			return nil, fmt.Errorf("query: count %s: %w", c.Table, err)
		}
		kept = append(kept, c)
	}
	return kept, nil
}
