package projections

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// aLongTime is more than any statement over a whole read model takes.
const aLongTime = 24 * time.Hour

// unhurried does something in a transaction whose statements may take long: the connection is not given up when no byte of
// an answer came for a while.
func unhurried(ctx context.Context, pool *pgxpool.Pool, do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return patiently(tx, func() error { return do(tx) }) })
}

// patiently is unhurried within a transaction.
func patiently(tx pgx.Tx, do func() error) error {
	conn := tx.Conn().PgConn().Conn()
	if err := conn.SetDeadline(time.Now().Add(aLongTime)); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}
