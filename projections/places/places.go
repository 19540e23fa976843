// Package places keeps where policies are in the log, a work table, and shares partitions out among the processes
// that run them. It knows no policy.
package places

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/streams"
)

// ErrMigrated is the answer to a process that would keep a place in the log of an era that is over.
var ErrMigrated = errors.New("the log was migrated: end this process")

// Places reads and moves them.
type Places struct {
	pool *pgxpool.Pool
	era  int
	log  *slog.Logger
}

// New is the places, in the log of an era, of a database of read models. A nil log says nothing.
func New(pool *pgxpool.Pool, era int, log *slog.Logger) *Places {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Places{pool: pool, era: era, log: log}
}

const fields = `next_offset, era, lead, writer, closed, after_era, command_offset`

func targets(c *streams.Checkpoint) []any {
	a := &c.Acceptance
	return []any{&c.Next, &a.Era, &a.Lead, &a.Writer, &a.Closed, &a.After.Era, &a.After.Offset}
}

// Load is where a policy goes on in a partition; ok is false where it has no place in this era's log.
func (p *Places) Load(ctx context.Context, policy string, partition int32) (at streams.Checkpoint, ok bool, err error) {
	err = p.pool.QueryRow(ctx, `SELECT `+fields+` FROM policy_places WHERE policy = $1 AND partition = $2 AND log_era = $3`,
		policy, partition, p.era).Scan(targets(&at)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return streams.Checkpoint{}, false, nil
	}
	if err != nil {
		return at, false, fmt.Errorf("places: %s in partition %d: %w", policy, partition, err)
	}
	return at, true, nil
}

// Store moves a place on. One that is further already stays: two processes may run a policy for a moment, and both are
// right. Once a later era was begun it answers ErrMigrated, whether or not there is a place in that.
func (p *Places) Store(ctx context.Context, policy string, partition int32, at streams.Checkpoint) error {
	a := at.Acceptance
	var begun int
	// The lock makes it wait for a migration that is about to commit, and see it.
	err := p.pool.QueryRow(ctx, `WITH begun AS (SELECT era FROM policy_era FOR SHARE), stored AS (
		INSERT INTO policy_places AS t (policy, partition, `+fields+`, log_era, updated_at)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, cairn_now() WHERE NOT EXISTS (SELECT FROM begun WHERE era > $10)
		ON CONFLICT (policy, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, era = EXCLUDED.era, lead = EXCLUDED.lead,
			writer = EXCLUDED.writer, closed = EXCLUDED.closed, after_era = EXCLUDED.after_era, command_offset = EXCLUDED.command_offset,
			log_era = EXCLUDED.log_era, updated_at = EXCLUDED.updated_at
		 WHERE t.log_era < EXCLUDED.log_era OR t.log_era = EXCLUDED.log_era AND t.next_offset < EXCLUDED.next_offset)
		SELECT coalesce(max(era), 0) FROM begun`,
		policy, partition, at.Next, a.Era, a.Lead, a.Writer, a.Closed, a.After.Era, a.After.Offset, p.era).Scan(&begun)
	if err == nil && begun > p.era {
		err = fmt.Errorf("era %d, and the log is in era %d: %w", p.era, begun, ErrMigrated)
	}
	if err != nil {
		return fmt.Errorf("places: store %s in partition %d: %w", policy, partition, err)
	}
	return nil
}
