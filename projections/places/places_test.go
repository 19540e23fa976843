package places_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/places"
	"github.com/cairnhq/cairn/streams"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func at(era int, next int64) streams.Checkpoint {
	c := streams.Start()
	c.Next, c.Acceptance.Era, c.Acceptance.Lead, c.Acceptance.Writer = next, era, 1, "w"
	return c
}

// TestAnEraThatIsOverKeepsNoPlace: a process that reads the old log ends a few seconds after the migration, and keeps its
// place then. That must neither replace the place in the new log, nor become one where there is none.
func TestAnEraThatIsOverKeepsNoPlace(t *testing.T) {
	pool := pgtest.Read(t)
	before, after := places.New(pool, 1, nil), places.New(pool, 2, nil)
	for _, partition := range []int32{0, 1} {
		if err := before.Store(t.Context(), "p", partition, at(1, 5)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := after.Load(t.Context(), "p", 1); ok || err != nil {
		t.Errorf("a place of another era is taken for one: %v, %v", ok, err)
	}
	// What a migration copies counts under the era before, in the new log too.
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return places.BeginEra(t.Context(), tx, 2, []places.Place{{Policy: "p", Partition: 0, At: at(1, 3)}})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, partition := range []int32{0, 1} {
		if err := before.Store(t.Context(), "p", partition, at(1, 9)); !errors.Is(err, places.ErrMigrated) {
			t.Errorf("the old log's place in partition %d was kept: %v", partition, err)
		}
	}
	if found, ok, err := after.Load(t.Context(), "p", 0); found != at(1, 3) || !ok || err != nil {
		t.Errorf("the place in the new log is %+v, %v, %v", found, ok, err)
	}
	if found, ok, err := after.Load(t.Context(), "p", 1); ok || err != nil {
		t.Errorf("there is a place in the new log: %+v, %v", found, err)
	}
	for _, next := range []int64{4, 2} { // the second comes from behind
		if err := after.Store(t.Context(), "p", 0, at(2, next)); err != nil {
			t.Fatal(err)
		}
	}
	if found, _, _ := after.Load(t.Context(), "p", 0); found != at(2, 4) {
		t.Errorf("the place in the new log is %+v", found)
	}
}

// TestAPlaceWaitsForTheMigrationThatIsAboutToCommit: it does not slip in behind it.
func TestAPlaceWaitsForTheMigrationThatIsAboutToCommit(t *testing.T) {
	pool := pgtest.Read(t)
	before := places.New(pool, 1, nil)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it was committed
	if err := places.BeginEra(t.Context(), tx, 2, nil); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 1)
	go func() { stored <- before.Store(t.Context(), "p", 0, at(1, 5)) }()
	logtest.Eventually(t, "the place waits", func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%policy_places%')`).Scan(&waits)
		return waits && err == nil
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stored; !errors.Is(err, places.ErrMigrated) {
		t.Errorf("the old log's place: %v", err)
	}
	if all, err := places.All(t.Context(), pool); len(all) > 0 || err != nil {
		t.Errorf("places: %+v, %v", all, err)
	}
}
