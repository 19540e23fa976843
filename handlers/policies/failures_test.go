package policies_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/places"
)

// TestAnEventOfWhichEveryTryIsOutOfTimeIsParked: it does not hold up its partition for ever.
func TestAnEventOfWhichEveryTryIsOutOfTimeIsParked(t *testing.T) {
	w := newWorld(t)
	w.slow, w.within = "slow", 300*time.Millisecond
	defer w.run()()
	w.ready()
	w.seen("slow", "good")
	w.until("good", func() bool { return w.devices() == "good" })
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.parked) != 1 || !strings.Contains(w.parked[0].Metadata["reason_poisoned"], "out of time") {
		t.Errorf("parked: %v", w.parked)
	}
}

// TestAnEventWaitsWhilePostgresStandsStill: what waits for Postgres says no more than that its time was over.
func TestAnEventWaitsWhilePostgresStandsStill(t *testing.T) {
	w := newWorld(t)
	pool := pgtest.Read(t)
	w.places, w.slow, w.within = places.New(pool, 1, nil), "slow", 100*time.Millisecond
	defer w.run()()
	w.ready()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it was ended
	if _, err := tx.Exec(t.Context(), `LOCK policy_places`); err != nil {
		t.Fatal(err)
	}
	w.seen("slow", "good")
	w.until("many tries", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.slowed > 3*w.tries
	})
	w.mu.Lock()
	parked := len(w.parked)
	w.slow = ""
	w.mu.Unlock()
	if err := tx.Rollback(t.Context()); err != nil || parked > 0 {
		t.Errorf("%d events are parked; %v", parked, err)
	}
	w.until("both", func() bool { return w.devices() == "slow good" })
}

// TestAWishOutlivesARollingUpgrade: a command that can't be written yet is asked for again, under the next id of its row,
// since the writer's answer to an id stands for ever; and a repeat finds the one that was done.
func TestAWishOutlivesARollingUpgrade(t *testing.T) {
	w := newWorld(t)
	w.later = map[string]bool{}
	stop := w.run()
	w.ready()
	w.seen("a", "b")
	w.until("some tries", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.later) > 2
	})
	w.mu.Lock()
	w.finalized = true
	w.mu.Unlock()
	w.until("a and b", func() bool { return w.devices() == "a b" })
	stop()
	w.places = places.New(pgtest.Read(t), 1, nil) // another database: all again
	defer w.run()()
	w.until("both again", func() bool { return w.devices() == "a b a b" })
	if w.asked[0].ID != w.asked[2].ID || w.asked[1].ID != w.asked[3].ID || w.later[w.asked[0].ID] || len(w.parked) > 0 {
		t.Errorf("asked as %+v, parked %v", w.asked, w.parked)
	}
}
