package projections

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// SwapOptions change a swap.
type SwapOptions struct {
	Generation int  // that is read from then on; 0: the newest other
	Unverified bool // also without a clean verdict
}

// ErrUnverified says that a generation has no clean verdict beside the one that is read.
var ErrUnverified = errors.New("the generation was not verified")

// Swap lets another generation of a projection be read, in one UPDATE: one that is fed, stands where the live one stands or
// further in every lane, and was found equal to it. The one that was read is fed on, so that Rollback can go back.
func Swap(ctx context.Context, pool *pgxpool.Pool, projection string, o SwapOptions) (Generation, error) {
	g, err := exchange(ctx, pool, projection, o.Generation, func(live, other Generation) error {
		var v Verdict
		if other.Verdict != nil {
			if err := json.Unmarshal(other.Verdict, &v); err != nil {
				return fmt.Errorf("the verdict on generation %d: %w", other.Number, err)
			}
		}
		switch {
		case o.Unverified:
			return nil
		case other.Verdict != nil && !v.Clean():
			return v.Err()
		case other.VerifiedAt == nil || v.Live != live.Number:
			return fmt.Errorf("%w: generation %d beside %d: run `cairn projections verify %s`", ErrUnverified, other.Number, live.Number, projection)
		}
		return nil
	})
	if err != nil {
		return g, fmt.Errorf("projections: swap %s: %w", projection, err)
	}
	return g, nil
}

// Rollback lets the generation be read again that was read before the last swap.
func Rollback(ctx context.Context, pool *pgxpool.Pool, projection string) (Generation, error) {
	var previous *int
	err := pool.QueryRow(ctx, `SELECT previous FROM projections WHERE name = $1`, projection).Scan(&previous)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("projection %q: %w", projection, ErrNoGeneration)
	}
	if err == nil && previous == nil {
		err = errors.New("no generation was read before this one, or it was dropped")
	}
	var g Generation
	if err == nil {
		g, err = exchange(ctx, pool, projection, *previous, func(_, other Generation) error {
			if !other.Previous {
				return errors.New("another swap came before")
			}
			return nil
		})
	}
	if err != nil {
		return g, fmt.Errorf("projections: roll %s back: %w", projection, err)
	}
	return g, nil
}

// exchange makes another generation the live one if it may be.
func exchange(ctx context.Context, pool *pgxpool.Pool, projection string, number int, may func(live, other Generation) error) (other Generation, err error) {
	err = register(ctx, pool, func(tx pgx.Tx) error {
		var live Generation
		if live, other, err = pair(ctx, tx, projection, number); err != nil {
			return err
		}
		if err := may(live, other); err != nil {
			return err
		}
		// Of one moment: whoever waited for the live one to have a position finds it in the other.
		tag, err := tx.Exec(ctx, `UPDATE projections p SET generation = $3, previous = $2, swapped_at = cairn_now()
			WHERE p.name = $1 AND p.generation = $2 AND NOT EXISTS (
				SELECT FROM projection_checkpoints a WHERE a.projection = $1 AND a.generation = $2 AND NOT EXISTS (
					SELECT FROM projection_checkpoints b WHERE b.projection = $1 AND b.generation = $3
						AND b.partition = a.partition AND b.lane = a.lane AND b.era = a.era AND b.next_offset >= a.next_offset))`,
			projection, live.Number, other.Number)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			_, err := level(ctx, tx, live, other)
			return cmp.Or(err, ErrNotLevel)
		}
		return send(ctx, tx, notice{Changed: []string{projection}})
	})
	other.Live, other.Previous = err == nil, false
	return other, err
}

// dropPatience is how long Drop lets others go first.
const dropPatience = time.Minute

// Drop deletes a generation that is not read, with its tables. It lets readers and whoever feeds it go first: it never
// waits for a lock so long that others wait behind it.
func Drop(ctx context.Context, pool *pgxpool.Pool, projection string, number int) error {
	deadline := time.NewTimer(dropPatience)
	defer deadline.Stop()
	wait := newBackOff()
	for {
		err := drop(ctx, pool, projection, number)
		if !locked(err) {
			if err != nil {
				return fmt.Errorf("projections: drop generation %d of %s: %w", number, projection, err)
			}
			return nil
		}
		again := time.NewTimer(wait.NextBackOff())
		select {
		case <-again.C:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-deadline.C:
		}
		again.Stop()
		return fmt.Errorf("projections: drop generation %d of %s: somebody uses it all the time: %w", number, projection, err)
	}
}

// locked reports that a lock was not to be had: in time, or without a deadlock.
func locked(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && (said.Code == "55P03" || said.Code == "40P01")
}

func drop(ctx context.Context, pool *pgxpool.Pool, projection string, number int) error {
	return register(ctx, pool, func(tx pgx.Tx) error {
		found, err := generations(ctx, tx, `WHERE p.name = $1`, projection)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(found, func(g Generation) bool { return g.Number == number })
		switch {
		case i < 0:
			return ErrNoGeneration
		case found[i].Live:
			return errors.New("it is the one that is read: swap first")
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '50ms'`); err != nil {
			return err
		}
		return found[i].remove(ctx, tx)
	})
}
