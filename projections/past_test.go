package projections_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/projections/timers"
)

// TestThePastIsWhatWasReadThen: folding a scope's events up to a position gives the rows that the tables had when the log
// ended there, whatever the events are and however they are cut.
func TestThePastIsWhatWasReadThen(t *testing.T) {
	pool := pgtest.Read(t)
	log := logtest.New(1)
	db := projections.NewDB(pool)
	all := models(pool)
	start(t, pool, log, all)
	e, th, ru, de, op := events.New(db), threads.New(db), runs.New(db), devices.New(db), openeffects.New(db)
	empty := cmpopts.EquateEmpty()
	rapid.Check(t, func(r *rapid.T) {
		log.SetTime(time.Unix(1_800_000_000+rapid.Int64Range(0, 1000).Draw(r, "time"), 0))
		drawCommit(r, log)
		wait(t, pool, log)
		scope := domain.Scope(rapid.SampledFrom([]string{"user-a", "user-b"}).Draw(r, "scope"))
		history, err := e.ByScope(t.Context(), scope, 0, 0)
		if err != nil {
			r.Fatal(err)
		}
		past, err := projections.NewPast(t.Context(), db, logtest.Schema(), all[1:]...)
		if err != nil {
			r.Fatal(err)
		}
		for size := rapid.IntRange(1, 7).Draw(r, "piece"); len(history) > 0; history = history[min(size, len(history)):] {
			if err := past.Apply(t.Context(), history[:min(size, len(history))]); err != nil {
				r.Fatal(err)
			}
		}
		wantThreads, _, err := th.List(t.Context(), scope, "", 1000)
		if err != nil {
			r.Fatal(err)
		}
		wantDevices, err := de.List(t.Context(), scope)
		if err != nil {
			r.Fatal(err)
		}
		claimed, err := op.List(t.Context(), scope, 1000)
		if err != nil {
			r.Fatal(err)
		}
		var wantEffects []openeffects.Effect
		for _, c := range claimed {
			wantEffects = append(wantEffects, c.Effect)
		}
		var wantRuns []runs.Run
		for _, one := range runs.Past(past) {
			stored, err := ru.Get(t.Context(), scope, one.ID)
			if err != nil {
				r.Fatal(err)
			}
			wantRuns = append(wantRuns, stored)
		}
		var stored, storedTimers int
		if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM runs WHERE scope = $1), (SELECT count(*) FROM timers WHERE scope = $1)`,
			string(scope)).Scan(&stored, &storedTimers); err != nil || stored != len(wantRuns) || storedTimers != len(timers.Past(past)) {
			r.Fatalf("%d runs and %d timers are stored, the past has %d and %d (%v)", stored, storedTimers, len(wantRuns), len(timers.Past(past)), err)
		}
		for what, diff := range map[string]string{
			"threads": cmp.Diff(wantThreads, threads.Past(past), empty), "devices": cmp.Diff(wantDevices, devices.Past(past), empty),
			"effects": cmp.Diff(byID(wantEffects), byID(openeffects.Past(past)), empty), "runs": cmp.Diff(wantRuns, runs.Past(past), empty),
		} {
			if diff != "" {
				r.Fatalf("%s of %s differ (-stored +past):\n%s", what, scope, diff)
			}
		}
	})
}

func byID(all []openeffects.Effect) []openeffects.Effect {
	slices.SortFunc(all, func(a, b openeffects.Effect) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}
