package projections

import (
	"cmp"
	"context"
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
	Generation int           // that is read from then on; 0: the newest other
	Unverified bool          // without a comparison
	Patience   time.Duration // for a moment at which both stand at the same place; 0: 5 s
}

// Exchanged is what a swap or a rollback did.
type Exchanged struct {
	Generation     // that is read now
	Before     int // the generation that was read
	// Differed is the newest verdict on the two, where it says that they differ.
	Differed *Verdict
	// Cancelled are other generations that would have been read as soon as they were verified, and are not any more.
	Cancelled []int
}

// Swap compares another generation of a projection with the live one and lets it be read where they are equal, in one UPDATE:
// one that is fed, and stands where the live one stands or further in every lane. The one that was read is fed on, so that
// Rollback can go back. An older verdict counts for nothing: the rows may be others by now.
func Swap(ctx context.Context, pool *pgxpool.Pool, projection string, o SwapOptions) (Exchanged, error) {
	s := swapping{pool: pool, projection: projection, number: o.Generation, unverified: o.Unverified, patience: cmp.Or(o.Patience, 5*time.Second), by: operators}
	e, err := s.run(ctx)
	if err != nil {
		return e, fmt.Errorf("projections: swap %s: %w", projection, err)
	}
	return e, nil
}

// Rollback lets the generation be read again that was read before the last swap, at once and whatever was found of it.
func Rollback(ctx context.Context, pool *pgxpool.Pool, projection string) (Exchanged, error) {
	var previous *int
	err := pool.QueryRow(ctx, `SELECT previous FROM projections WHERE name = $1`, projection).Scan(&previous)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("projection %q: %w", projection, ErrNoGeneration)
	}
	if err == nil && previous == nil {
		err = errors.New("no generation was read before this one, or it was dropped")
	}
	var e Exchanged
	if err == nil {
		e, err = exchange(ctx, pool, projection, *previous, operators, func(_ pgx.Tx, _, other Generation) error {
			if !other.Previous {
				return errors.New("another swap came before")
			}
			return nil
		})
	}
	if err != nil {
		return e, fmt.Errorf("projections: roll %s back: %w", projection, err)
	}
	return e, nil
}

// exchange makes another generation the live one if it may be.
func exchange(ctx context.Context, pool *pgxpool.Pool, projection string, number int, by hand, may func(tx pgx.Tx, live, other Generation) error) (e Exchanged, err error) {
	err = register(ctx, pool, func(tx pgx.Tx) error {
		live, other, err := pair(ctx, tx, projection, number)
		if err != nil {
			return err
		}
		e = Exchanged{Generation: other, Before: live.Number}
		if v, found := newestVerdict(live, other); found && !v.Clean() {
			e.Differed = &v
		}
		if err := may(tx, live, other); err != nil {
			return err
		}
		// Of one moment: whoever waited for the live one to have a position finds it in the other. So nothing may move the live
		// one until the swap is there to see.
		if _, err := tx.Exec(ctx, `SELECT FROM projection_checkpoints WHERE projection = $1 AND generation = $2 FOR SHARE`, projection, live.Number); err != nil {
			return err
		}
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
		if e.Cancelled, err = noteSwapped(ctx, tx, projection, live.Number, other.Number, by); err != nil {
			return err
		}
		return send(ctx, tx, notice{Changed: []string{projection}})
	})
	e.Live, e.Previous = err == nil, false
	return e, err
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
