package projections_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// pairs is a tally with a generation beside the live one, at the same place.
func pairs(t *testing.T) (*pgxpool.Pool, tally, projections.Generation) {
	t.Helper()
	pool, m := pgtest.Read(t), tally{"tally", 1}
	if err := m.begin(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	g, err := m.beside(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return pool, m, g
}

func execute(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestVerifyNamesEveryKey: that differs, with the columns, or stands in one generation only; and nothing is swapped.
func TestVerifyNamesEveryKey(t *testing.T) {
	pool, m, g := pairs(t)
	execute(t, pool, `UPDATE tally_2 SET n = 7 WHERE id = 3`, `UPDATE tally_2 SET note = '' WHERE id = 4`, `UPDATE tally_2 SET n = 1, note = 'x' WHERE id = 5`,
		`DELETE FROM tally_2 WHERE id = 6`, `INSERT INTO tally_2 VALUES (99, 0, 2, NULL)`)
	v, err := projections.Verify(t.Context(), pool, m.name)
	if err != nil {
		t.Fatal(err)
	}
	want := projections.TableVerdict{Table: "tally", Rows: tallied, OtherRows: tallied, LeftOut: []string{"made_by"}, Differences: 5, Shown: []projections.Difference{
		{Key: map[string]string{"id": "3"}, Columns: []string{"n"}},
		{Key: map[string]string{"id": "4"}, Columns: []string{"note"}},
		{Key: map[string]string{"id": "5"}, Columns: []string{"n", "note"}},
		{Key: map[string]string{"id": "6"}, Only: "live"},
		{Key: map[string]string{"id": "99"}, Only: "other"},
	}}
	slices.SortFunc(v.Tables[0].Shown, func(a, b projections.Difference) int { return len(a.Key["id"]) - len(b.Key["id"]) })
	if diff := cmp.Diff([]projections.TableVerdict{want}, v.Tables); diff != "" || v.Clean() {
		t.Fatalf("the verdict (-want +got):\n%s", diff)
	}
	if err := v.Err(); !errors.Is(err, projections.ErrDiffers) || !strings.Contains(err.Error(), `tally {"id":"3"}: n`) {
		t.Fatalf("as an error it is %v", err)
	}
	if _, err := projections.Swap(t.Context(), pool, m.name, projections.SwapOptions{}); !errors.Is(err, projections.ErrDiffers) {
		t.Fatalf("a swap answered %v, wanted ErrDiffers", err)
	}
	live, err := projections.LiveGeneration(t.Context(), pool, m.name)
	if err != nil || live.Number != 1 {
		t.Fatalf("generation %d is read (%v)", live.Number, err)
	}
	few, err := projections.VerifyWith(t.Context(), pool, m.name, projections.VerifyOptions{Generation: g.Number, Show: 2})
	if err != nil || len(few.Tables[0].Shown) != 2 || few.Differences != 5 {
		t.Fatalf("of two keys shown: %+v, %v", few, err)
	}
	if _, err := projections.Swap(t.Context(), pool, m.name, projections.SwapOptions{Unverified: true}); err != nil {
		t.Fatalf("a swap that was told to look away: %v", err)
	}
}

// TestVerifyIsKept: with the generation, until it is found to differ.
func TestVerifyIsKept(t *testing.T) {
	pool, m, g := pairs(t)
	verified := func() *time.Time {
		t.Helper()
		v, err := projections.Verify(t.Context(), pool, m.name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := projections.Generations(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(have projections.Generation) bool {
			return have.Projection == g.Projection && have.Number == g.Number
		})
		var kept projections.Verdict
		if err := json.Unmarshal(all[i].Verdict, &kept); err != nil || kept.Differences != v.Differences || kept.Live != 1 {
			t.Fatalf("kept is %s (%v)", all[i].Verdict, err)
		}
		return all[i].VerifiedAt
	}
	if verified() == nil {
		t.Fatal("a clean verdict was not kept")
	}
	execute(t, pool, `UPDATE tally_2 SET n = 7 WHERE id = 3`)
	if at := verified(); at != nil {
		t.Fatalf("it differs, and counts as verified at %v", at)
	}
}

// TestOnlyLevelGenerationsAreCompared: and swapped.
func TestOnlyLevelGenerationsAreCompared(t *testing.T) {
	pool, m, _ := pairs(t)
	if v, err := projections.Verify(t.Context(), pool, m.name); err != nil || !v.Clean() {
		t.Fatal(v, err)
	}
	for name, sql := range map[string]string{
		"it lags":                 `UPDATE projection_checkpoints SET next_offset = 9 WHERE generation = 1 AND projection = 'tally'`,
		"it lacks a partition":    `INSERT INTO projection_checkpoints SELECT projection, generation, 1, lane, next_offset, era, lead, writer, closed, after_era, command_offset, updated_at FROM projection_checkpoints WHERE projection = 'tally' AND generation = 1`,
		"it is of an earlier era": `UPDATE projection_checkpoints SET era = 2 WHERE generation = 1 AND projection = 'tally'`,
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, pool, sql)
			if _, err := projections.VerifyWith(t.Context(), pool, m.name, projections.VerifyOptions{Patience: time.Millisecond}); !errors.Is(err, projections.ErrNotLevel) {
				t.Errorf("verify answered %v, wanted ErrNotLevel", err)
			}
			for _, o := range []projections.SwapOptions{{Patience: time.Millisecond}, {Unverified: true, Patience: time.Millisecond}} {
				if _, err := projections.Swap(t.Context(), pool, m.name, o); !errors.Is(err, projections.ErrNotLevel) {
					t.Errorf("swap answered %v, wanted ErrNotLevel", err)
				}
			}
			execute(t, pool, `DELETE FROM projection_checkpoints WHERE projection = 'tally' AND partition = 1`,
				`UPDATE projection_checkpoints SET next_offset = 0, era = 1 WHERE projection = 'tally'`)
		})
	}
	if _, err := projections.Swap(t.Context(), pool, m.name, projections.SwapOptions{}); err != nil {
		t.Fatalf("level again: %v", err)
	}
	// The one that was read stopped: the one before it is further, and one can go back.
	execute(t, pool, `UPDATE projection_checkpoints SET next_offset = 5 WHERE generation = 1 AND projection = 'tally'`)
	if g, err := projections.Rollback(t.Context(), pool, m.name); err != nil || g.Number != 1 {
		t.Fatalf("rolling back to one that is further: %v, %v", g, err)
	}
}

// TestWhatMayNotBeSwappedOrDropped says why.
func TestWhatMayNotBeSwappedOrDropped(t *testing.T) {
	pool, m, _ := pairs(t)
	refused := func(what string, err error, words string, is error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), words) || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: %v, wanted %q", what, err, words)
		}
	}
	swap := func(number int) error {
		_, err := projections.Swap(t.Context(), pool, m.name, projections.SwapOptions{Generation: number})
		return err
	}
	refused("the live one", swap(1), "the one that is read", nil)
	refused("one that is not there", swap(7), "projections rebuild", nil)
	_, err := projections.Swap(t.Context(), pool, "nothing", projections.SwapOptions{})
	refused("no projection", err, "nothing", projections.ErrNoGeneration)
	_, err = projections.Rollback(t.Context(), pool, m.name)
	refused("back to nothing", err, "no generation was read before", nil)
	refused("dropping the live one", projections.Drop(t.Context(), pool, m.name, 1), "swap first", nil)
	refused("dropping one that is not there", projections.Drop(t.Context(), pool, m.name, 7), "", projections.ErrNoGeneration)

	if _, err := projections.Verify(t.Context(), pool, m.name); err != nil {
		t.Fatal(err)
	}
	execute(t, pool, `UPDATE projection_generations SET state = 'filling' WHERE projection = 'tally' AND generation = 2`)
	refused("one that is filled", swap(0), "filling", nil)
	execute(t, pool, `UPDATE projection_generations SET state = 'feeding' WHERE projection = 'tally' AND generation = 2`)
	if err := swap(0); err != nil {
		t.Fatal(err)
	}
	if err := projections.Drop(t.Context(), pool, m.name, 1); err != nil {
		t.Fatal(err)
	}
	_, err = projections.Rollback(t.Context(), pool, m.name)
	refused("back to what was dropped", err, "dropped", nil)
	next, err := tally{m.name, 2}.beside(t.Context(), pool)
	if err != nil || next.Number != 3 {
		t.Fatalf("the next generation is %v (%v)", next, err)
	}
	if err := projections.Drop(t.Context(), pool, m.name, next.Number); err != nil {
		t.Fatal(err)
	}
	if next, err = (tally{m.name, 2}).beside(t.Context(), pool); err != nil || next.Number != 4 {
		t.Fatalf("a number was given twice: %v (%v)", next, err)
	}
}

// TestDroppingLetsReadersGoFirst: a read that comes while a drop waits for another does not wait behind it.
func TestDroppingLetsReadersGoFirst(t *testing.T) {
	pool, m, g := pairs(t)
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(t.Context())
	if _, err := holder.Exec(t.Context(), `SELECT FROM tally_2`); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan error, 1)
	go func() { dropped <- projections.Drop(t.Context(), pool, m.name, g.Number) }()
	var longest time.Duration
	for range 200 {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := pool.Exec(ctx, `SELECT FROM tally_2`); err != nil {
			t.Fatalf("a read waits behind the drop: %v", err)
		}
		cancel()
		longest = max(longest, time.Since(began))
	}
	select {
	case err := <-dropped:
		t.Fatalf("it was dropped under a reader: %v", err)
	default:
	}
	if longest > 2*time.Second {
		t.Errorf("a read waited %v behind the drop", longest)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE 'tally_2%') + (SELECT count(*) FROM projection_checkpoints WHERE projection = 'tally' AND generation = 2)
		+ (SELECT count(*) FROM tally WHERE made_by <> 1)`).Scan(&left); err != nil || left != 0 {
		t.Fatalf("%d things are left of it (%v)", left, err)
	}
}
