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
	"github.com/jackc/pgx/v5/pgxpool"
)

// VerifyOptions change a comparison.
type VerifyOptions struct {
	Generation int           // that is compared with the live one; 0: the newest other
	Show       int           // at most so many keys per table; 0: 20
	Patience   time.Duration // for a moment at which both stand at the same place; 0: 30 s
}

// ErrNotLevel says that two generations do not stand at the same places of the log.
var ErrNotLevel = errors.New("the generations are not level")

// Verify compares a generation with the live one, in one snapshot in which both stand at the same places, while both are
// fed and read. The verdict is kept with the generation. An unclean verdict is no error.
func Verify(ctx context.Context, pool *pgxpool.Pool, projection string) (Verdict, error) {
	return VerifyWith(ctx, pool, projection, VerifyOptions{})
}

// VerifyWith is Verify with options.
func VerifyWith(ctx context.Context, pool *pgxpool.Pool, projection string, o VerifyOptions) (Verdict, error) {
	v, err := verify(ctx, pool, projection, o)
	if err != nil {
		return v, fmt.Errorf("projections: verify %s: %w", projection, err)
	}
	return v, nil
}

func verify(ctx context.Context, pool *pgxpool.Pool, projection string, o VerifyOptions) (v Verdict, err error) {
	o.Show, o.Patience = cmp.Or(o.Show, 20), cmp.Or(o.Patience, 30*time.Second)
	deadline := time.NewTimer(o.Patience)
	defer deadline.Stop()
	wait := newBackOff()
	for {
		v, err = verifyOnce(ctx, pool, projection, o)
		if !errors.Is(err, ErrNotLevel) {
			break
		}
		again := time.NewTimer(wait.NextBackOff())
		select {
		case <-again.C:
			continue
		case <-deadline.C:
		case <-ctx.Done():
		}
		again.Stop()
		break
	}
	if err != nil {
		return v, err
	}
	return v, keep(ctx, pool, v)
}

// keep writes a verdict down with its generation. What was said of the two before does not count any more, in whichever
// direction they were compared, and a failure of a rebuild is mended by a clean one.
func keep(ctx context.Context, pool *pgxpool.Pool, v Verdict) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tag, err := pool.Exec(ctx, `WITH mended AS (UPDATE projection_rebuilds SET failed_at = NULL, failure = NULL
			WHERE projection = $1 AND generation = $2 AND $4),
		   reverse AS (UPDATE projection_generations SET verdict = NULL, verified_at = NULL
			WHERE projection = $1 AND generation = $5 AND (verdict->>'live')::int = $2)
		UPDATE projection_generations SET verdict = $3, verified_at = CASE WHEN $4 THEN cairn_now() END
		WHERE projection = $1 AND generation = $2`, v.Projection, v.Generation, text, v.Clean(), v.Live)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNoGeneration
	}
	if err != nil {
		return fmt.Errorf("projections: keep the verdict on %s %d: %w", v.Projection, v.Generation, err)
	}
	return nil
}

func verifyOnce(ctx context.Context, pool *pgxpool.Pool, projection string, o VerifyOptions) (v Verdict, err error) {
	began := time.Now()
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		live, other, err := pair(ctx, tx, projection, o.Generation)
		if err != nil {
			return err
		}
		v = Verdict{Projection: projection, Live: live.Number, Generation: other.Number, Tables: []TableVerdict{}}
		if v.Places, err = level(ctx, tx, live, other); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT cairn_now()`).Scan(&v.At); err != nil {
			return err
		}
		return patiently(tx, func() error { return v.compare(ctx, tx, live, other, o.Show) })
	})
	v.At, v.Took = v.At.UTC(), time.Since(began)
	return v, err
}

// pair is the live generation and another one: that with the number, or the newest.
func pair(ctx context.Context, q querier, projection string, number int) (live, other Generation, err error) {
	all, err := generations(ctx, q, `WHERE p.name = $1 ORDER BY g.generation`, projection)
	if err != nil {
		return live, other, err
	}
	for _, g := range all {
		switch {
		case g.Live:
			live = g
		case number == 0 || number == g.Number:
			other = g
		}
	}
	switch {
	case live.Number == 0:
		return live, other, fmt.Errorf("projection %q: %w", projection, ErrNoGeneration)
	case number == live.Number && number != 0:
		return live, other, fmt.Errorf("generation %d is the one that is read", number)
	case other.Number == 0:
		return live, other, fmt.Errorf("there is no generation beside %d, the one that is read: make one with `cairn projections rebuild %s`", live.Number, projection)
	case other.State != Feeding:
		return live, other, fmt.Errorf("generation %d is %s yet: see `cairn projections status %s`", other.Number, other.State, projection)
	}
	return live, other, nil
}

// level answers where two generations stand, if that is the same.
func level(ctx context.Context, q querier, live, other Generation) ([]Place, error) {
	a, err := placesOf(ctx, q, live)
	if err != nil {
		return nil, err
	}
	b, err := placesOf(ctx, q, other)
	if err != nil {
		return nil, err
	}
	if slices.Equal(a, b) {
		return a, nil
	}
	if err := stands(ctx, q, live, other); err != nil {
		return nil, err
	}
	for i, at := range a {
		if i >= len(b) || b[i] != at {
			return nil, fmt.Errorf("%w: generation %d stands at %s, and %d at %s", ErrNotLevel, live.Number, at, other.Number, where(b, at))
		}
	}
	return nil, fmt.Errorf("%w: generation %d is fed in %d lanes, and %d in %d", ErrNotLevel, live.Number, len(a), other.Number, len(b))
}

// String names it.
func (p Place) String() string {
	return fmt.Sprintf("offset %d of partition %d, lane %d", p.Next, p.Partition, p.Lane)
}

// where is the place in the same lane.
func where(places []Place, at Place) string {
	for _, p := range places {
		if p.Partition == at.Partition && p.Lane == at.Lane {
			return fmt.Sprintf("%d", p.Next)
		}
	}
	return "none"
}

func placesOf(ctx context.Context, q querier, g Generation) ([]Place, error) {
	rows, err := q.Query(ctx, `SELECT partition, lane, next_offset, era FROM projection_checkpoints
		WHERE projection = $1 AND generation = $2 ORDER BY partition, lane`, g.Projection, g.Number)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Place])
}
