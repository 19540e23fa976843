package projections

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rebuildSpace is the first half of the advisory locks that keep two rebuilders of one read model apart: "crbd". They save work;
// what keeps the tables right is the checkpoint, which moves in the transaction of the rows.
const rebuildSpace = 0x63726264

// hold takes the locks of all names or none (*Busy), on a session of its own. The context ends with that session; release
// gives the locks back.
func hold(ctx context.Context, pool *pgxpool.Pool, session time.Duration, names []string) (held context.Context, release func() error, err error) {
	config := pool.Config().ConnConfig
	// As with engines: who stands still loses the session, and another goes on.
	config.RuntimeParams["idle_session_timeout"] = strconv.Itoa(int(session.Milliseconds()))
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("projections: rebuild: %w", err)
	}
	var busy Busy
	for _, name := range names {
		var got bool
		if err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, hashtext($2))`, rebuildSpace, name).Scan(&got); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("projections: rebuild %s: %w", name, err), conn.Close(context.WithoutCancel(ctx)))
		}
		if !got {
			busy.Names = append(busy.Names, name)
		}
	}
	if len(busy.Names) > 0 {
		_, err = conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`) // the session ends a little later than it is closed
		return nil, nil, errors.Join(&busy, err, conn.Close(context.WithoutCancel(ctx)))
	}
	held, lose := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(session / 4)
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
			}
			asked, cancel := context.WithTimeout(held, session/2)
			err := conn.Ping(asked)
			cancel()
			if err != nil {
				lose(fmt.Errorf("projections: rebuild: the database session is lost: %w", err))
				return
			}
		}
	}()
	return held, func() error {
		lose(context.Canceled)
		<-stopped
		// The session ends a little later than it is closed. A lost one has no locks.
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), session/2)
		_, _ = conn.Exec(free, `SELECT pg_advisory_unlock_all()`)
		cancel()
		if err := conn.Close(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("projections: rebuild: %w", err)
		}
		return nil
	}, nil
}

// Rebuilding reports whether a process is rebuilding a read model now.
func Rebuilding(ctx context.Context, q querier, name string) (bool, error) {
	var held bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid = $1::bigint::oid AND objid = (hashtext($2)::bigint & 4294967295)::oid AND objsubid = 2)`, rebuildSpace, name).Scan(&held)
	if err != nil {
		return false, fmt.Errorf("projections: %s: %w", name, err)
	}
	return held, nil
}
