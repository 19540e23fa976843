package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// hand is who changes what is read.
type hand int

// An operator decides at once. A rebuild, whoever asked for it, swaps as long as nobody decided otherwise. The background is a
// rebuild that nobody gives the command for.
const (
	operators hand = iota
	rebuilders
	background
)

// The notes of a rebuild, for other processes and for people.

// noteBegun keeps what was asked for, for who takes it up. The background's own bounds are settings, and not kept.
func (r *rebuild) noteBegun(ctx context.Context, t *task) error {
	o := order{swap: t.swap}
	if r.by != background {
		o.rate, o.memory = r.MaxRate, r.Memory
	}
	_, err := r.Pool.Exec(ctx, `INSERT INTO projection_rebuilds (projection, generation, revision, swap, asked_by, asked_at, max_rate, memory)
		VALUES ($1, $2, $3, $4, $5, cairn_now(), $6, $7)
		ON CONFLICT (projection, generation) DO UPDATE SET revision = EXCLUDED.revision, swap = EXCLUDED.swap, asked_by = EXCLUDED.asked_by,
			asked_at = EXCLUDED.asked_at, max_rate = EXCLUDED.max_rate, memory = EXCLUDED.memory, swapped_at = NULL, failed_at = NULL, failure = NULL`,
		t.generation.Projection, t.generation.Number, t.generation.Revision, string(o.swap), Text(r.By), o.rate, o.memory)
	return noted(err)
}

// order is how a rebuild was asked to go. 0: nothing was said.
type order struct {
	swap   SwapMode
	rate   int
	memory int64
}

func orderOf(ctx context.Context, q querier, g Generation) (order, error) {
	o := order{swap: SwapManual} // nobody knows who began it
	err := q.QueryRow(ctx, `SELECT swap, max_rate, memory FROM projection_rebuilds WHERE projection = $1 AND generation = $2`, g.Projection, g.Number).
		Scan(&o.swap, &o.rate, &o.memory)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return o, fmt.Errorf("projections: %s: %w", g.Projection, err)
	}
	return o, nil
}

// noteSwapped notes with a swap what it means for rebuilds: what failed before is mended, and where an operator did it, nothing
// else of the projection is read by itself.
func noteSwapped(ctx context.Context, tx pgx.Tx, projection string, before, now int, by hand) ([]int, error) {
	_, err := tx.Exec(ctx, `UPDATE projection_rebuilds SET swapped_at = cairn_now(), failed_at = NULL, failure = NULL
		WHERE projection = $1 AND generation = $2`, projection, now)
	if err != nil || by != operators {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `UPDATE projection_generations SET by_hand = true WHERE projection = $1 AND generation IN ($2, $3)`, projection, before, now); err != nil {
		return nil, err
	}
	return cancelSwaps(ctx, tx, projection)
}

// CancelSwaps has no generation of a projection be read by itself any more, and answers those that would have been. A rebuild
// that an operator asks for afterwards swaps again.
func CancelSwaps(ctx context.Context, pool *pgxpool.Pool, projection string) ([]int, error) {
	cancelled, err := cancelSwaps(ctx, pool, projection)
	return cancelled, noted(err)
}

func cancelSwaps(ctx context.Context, q querier, projection string) ([]int, error) {
	rows, err := q.Query(ctx, `UPDATE projection_rebuilds r SET swap = 'manual' FROM projections p, projection_generations g
		WHERE r.projection = $1 AND r.swap = 'auto' AND p.name = $1 AND p.generation <> r.generation AND g.projection = $1 AND g.generation = r.generation
		RETURNING r.generation, r.swapped_at IS NULL AND p.previous IS DISTINCT FROM r.generation`, projection)
	if err != nil {
		return nil, err
	}
	var number int
	var pending bool
	cancelled := []int{}
	_, err = pgx.ForEachRow(rows, []any{&number, &pending}, func() error {
		if pending {
			cancelled = append(cancelled, number)
		}
		return nil
	})
	return cancelled, err
}

func note(ctx context.Context, pool *pgxpool.Pool, g Generation, failure error) error {
	if ctx.Err() != nil || errors.Is(failure, context.Canceled) {
		return nil // it was told to end
	}
	_, err := pool.Exec(ctx, `UPDATE projection_rebuilds SET failed_at = cairn_now(), failure = $3 WHERE projection = $1 AND generation = $2`,
		g.Projection, g.Number, Text(failure.Error()))
	return noted(err)
}

func noted(err error) error {
	if err != nil {
		return fmt.Errorf("projections: rebuild: %w", err)
	}
	return nil
}
