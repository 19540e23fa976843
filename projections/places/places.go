// Package places keeps where policies are in the log, a work table, and shares partitions out among the processes
// that run them. It knows no policy.
package places

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/streams"
)

// Places reads and moves them.
type Places struct {
	pool *pgxpool.Pool
	log  *slog.Logger
}

// New is the places of a database of read models. A nil log says nothing.
func New(pool *pgxpool.Pool, log *slog.Logger) *Places {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Places{pool: pool, log: log}
}

const fields = `next_offset, era, lead, writer, closed, after_era, command_offset`

func targets(c *streams.Checkpoint) []any {
	a := &c.Acceptance
	return []any{&c.Next, &a.Era, &a.Lead, &a.Writer, &a.Closed, &a.After.Era, &a.After.Offset}
}

// Load is where a policy goes on in a partition; ok is false where it has no place.
func (p *Places) Load(ctx context.Context, policy string, partition int32) (at streams.Checkpoint, ok bool, err error) {
	err = p.pool.QueryRow(ctx, `SELECT `+fields+` FROM policy_places WHERE policy = $1 AND partition = $2`, policy, partition).Scan(targets(&at)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return streams.Checkpoint{}, false, nil
	}
	if err != nil {
		return at, false, fmt.Errorf("places: %s in partition %d: %w", policy, partition, err)
	}
	return at, true, nil
}

// Store moves a place on. One that is further already stays, unless it is of another era: two processes may run a
// policy for a moment, and both are right.
func (p *Places) Store(ctx context.Context, policy string, partition int32, at streams.Checkpoint) error {
	a := at.Acceptance
	_, err := p.pool.Exec(ctx, `INSERT INTO policy_places AS t (policy, partition, `+fields+`, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, cairn_now())
		ON CONFLICT (policy, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, era = EXCLUDED.era, lead = EXCLUDED.lead,
			writer = EXCLUDED.writer, closed = EXCLUDED.closed, after_era = EXCLUDED.after_era, command_offset = EXCLUDED.command_offset,
			updated_at = EXCLUDED.updated_at
		 WHERE t.era <> EXCLUDED.era OR t.next_offset < EXCLUDED.next_offset`,
		policy, partition, at.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset)
	if err != nil {
		return fmt.Errorf("places: store %s in partition %d: %w", policy, partition, err)
	}
	return nil
}

// Hold runs do for each partition of a policy that no other process holds, until ctx ends; then it waits for all of them. A lock
// that is lost, with the database session that holds it, ends what ran under it, and all are tried anew. The locks
// save work, no more: a policy's commands have ids that make a second run harmless.
func (p *Places) Hold(ctx context.Context, policy string, partitions int32, do func(ctx context.Context, partition int32) error) error {
	for {
		err := p.session(ctx, policy, partitions, do)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.log.Warn("a policy lost its database session and begins again", "policy", policy, "error", err)
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// session holds one database session and ends with it.
func (p *Places) session(ctx context.Context, policy string, partitions int32, do func(context.Context, int32) error) (err error) {
	conn, err := pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("places: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	defer func() {
		err = errors.Join(err, group.Wait(), conn.Close(context.WithoutCancel(ctx)))
	}()
	held := make(map[int32]bool, partitions)
	group.Go(func() error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if err := conn.Ping(ctx); err != nil {
				return fmt.Errorf("places: %w", err)
			}
			for partition := range partitions {
				if held[partition] {
					continue
				}
				var got bool
				if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, fmt.Sprint("cairn policy ", policy, "/", partition)).Scan(&got); err != nil {
					return fmt.Errorf("places: claim partition %d: %w", partition, err)
				}
				if got {
					held[partition] = true
					group.Go(func() error { return do(ctx, partition) })
				}
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	})
	return nil
}
