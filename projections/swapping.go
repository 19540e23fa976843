package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// swapping is a swap under way.
type swapping struct {
	pool       *pgxpool.Pool
	projection string
	number     int // 0: the newest other
	unverified bool
	patience   time.Duration // for a moment at which both stand at the same place
	by         hand

	verdict  Verdict
	verified time.Time // when that was found; zero: never
}

// verdictHolds is how long a verdict counts while a swap waits. One that was found before the command does not count.
const verdictHolds = 10 * time.Second

var (
	errOtherPair = errors.New("another generation was let be read meanwhile")
	errCancelled = errors.New("an operator decided otherwise meanwhile")
)

// run verifies and swaps. What was equal at one moment may have to wait for the next one at which both stand level: engines
// may not have begun to feed it.
func (s *swapping) run(ctx context.Context) (e Exchanged, err error) {
	var deadline time.Time
	for wait := newBackOff(); ; {
		if !s.unverified && (s.verified.IsZero() || time.Since(s.verified) > verdictHolds) {
			s.verdict, err = verify(ctx, s.pool, s.projection, VerifyOptions{Generation: s.number, Patience: s.patience})
			if err == nil {
				err = s.verdict.Err()
			}
			if err != nil {
				return e, err
			}
			s.number, s.verified = s.verdict.Generation, time.Now()
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(s.patience)
		}
		e, err = exchange(ctx, s.pool, s.projection, s.number, s.by, func(tx pgx.Tx, live, other Generation) error { return s.may(ctx, tx, live, other) })
		switch {
		case errors.Is(err, errOtherPair):
			s.verified = time.Time{}
		case !errors.Is(err, ErrNotLevel):
			return e, err
		}
		if time.Now().After(deadline) || !pause(ctx, wait.NextBackOff()) {
			return e, err
		}
	}
}

// may refuses, in the transaction of the swap, what changed since it began.
func (s *swapping) may(ctx context.Context, tx pgx.Tx, live, other Generation) error {
	if s.by != operators {
		o, err := orderOf(ctx, tx, other)
		if err != nil {
			return err
		}
		if o.swap != SwapAuto {
			return errCancelled
		}
	}
	if s.unverified {
		return nil
	}
	if s.verdict.Live != live.Number || s.verdict.Generation != other.Number {
		return errOtherPair
	}
	if newest, found := newestVerdict(live, other); found {
		return newest.Err()
	}
	return nil
}

// newestVerdict is what was found last of two generations, whichever of them was read then.
func newestVerdict(a, b Generation) (newest Verdict, found bool) {
	for _, g := range []Generation{a, b} {
		var v Verdict
		if len(g.Verdict) == 0 || json.Unmarshal(g.Verdict, &v) != nil {
			continue
		}
		if of := [2]int{v.Live, v.Generation}; of != [2]int{a.Number, b.Number} && of != [2]int{b.Number, a.Number} {
			continue
		}
		if !found || v.At.After(newest.At) {
			newest, found = v, true
		}
	}
	return newest, found
}

// ErrNotFed says that generations can't come to stand at the same place: nobody feeds them.
var ErrNotFed = errors.New("it is not fed")

var errStopped = fmt.Errorf("%w: it has stopped", ErrNotFed)

// stands says why two generations will not become level however long one waits; nil: they may.
func stands(ctx context.Context, q querier, live, other Generation) error {
	var since *time.Time
	var by string
	err := q.QueryRow(ctx, `SELECT paused_at, coalesce(paused_by, '') FROM projections WHERE name = $1`, live.Projection).Scan(&since, &by)
	if err != nil {
		return err
	}
	if since != nil {
		return fmt.Errorf("%w: %s is paused since %s by %s: go on with `cairn projections resume %s`",
			ErrNotFed, live.Projection, since.UTC().Format(time.DateTime), by, live.Projection)
	}
	stopped, err := stopsOf(ctx, q, live.Projection)
	if err != nil {
		return err
	}
	for _, g := range []Generation{live, other} {
		if at, found := stopped[g.Number]; found {
			return fmt.Errorf("%w: generation %d of %s, in partition %d at event %s: %s: try it again with `cairn projections resume %[3]s`, step over the event with `cairn projections skip %[3]s %[4]d --reason …`, or let another generation be read that is further, with `cairn projections rebuild %[3]s --no-swap` and `cairn projections swap %[3]s --unverified`",
				errStopped, g.Number, g.Projection, at.Partition, at.Event, at.Reason)
		}
	}
	return nil
}

// stopsOf are where generations of a projection have stopped, the first place of each.
func stopsOf(ctx context.Context, q querier, projection string) (map[int]Stop, error) {
	rows, err := q.Query(ctx, `SELECT DISTINCT ON (generation) generation, partition, lane, stopped_offset, coalesce(stopped_event, ''), coalesce(stopped_reason, ''), stopped_at
		FROM projection_checkpoints WHERE projection = $1 AND stopped_at IS NOT NULL ORDER BY generation, partition, lane`, projection)
	if err != nil {
		return nil, err
	}
	found := map[int]Stop{}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Stop])
	for _, s := range all {
		found[s.Generation] = s
	}
	return found, err
}
