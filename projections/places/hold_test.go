package places_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/places"
)

// held counts who runs each partition.
type held struct {
	mu  sync.Mutex
	who map[int32]map[string]int
}

// has is how many partitions somebody runs; -1 if one of any is run by two.
func (h *held) has(who string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, by := range h.who {
		all := 0
		for _, k := range by {
			all += k
		}
		if all > 1 {
			return -1
		}
		n += by[who]
	}
	return n
}

// hold runs until stop is called.
func (h *held) hold(t *testing.T, who string, pool *pgxpool.Pool, partitions int32) (stop func()) {
	t.Helper()
	add := func(partition int32, n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.who[partition] == nil {
			h.who[partition] = map[string]int{}
		}
		h.who[partition][who] += n
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- places.New(pool, 1, nil).Hold(ctx, "p", partitions, func(ctx context.Context, partition int32) error {
			add(partition, 1)
			defer add(partition, -1)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("hold: %v", err)
		}
	})
}

// TestThoseWhoHoldShareThePartitionsOut: who joins gets a share, what one held that is gone the others take, and no
// partition is run by two.
func TestThoseWhoHoldShareThePartitionsOut(t *testing.T) {
	pool := pgtest.Read(t)
	h := &held{who: map[int32]map[string]int{}}
	stands := func(what string, a, b, c int) {
		t.Helper()
		logtest.Eventually(t, fmt.Sprint(what, ": ", a, b, c), func() bool { return h.has("a") == a && h.has("b") == b && h.has("c") == c })
	}
	a := h.hold(t, "a", pool, 6)
	stands("the first has all", 6, 0, 0)
	b := h.hold(t, "b", pool, 6)
	defer b()
	stands("two share them", 3, 3, 0)
	c := h.hold(t, "c", pool, 6)
	stands("three share them", 2, 2, 2)
	a()
	stands("two are left", 0, 3, 3)
	c()
	stands("one is left", 0, 6, 0)
}

// TestInstallationsInOneDatabaseDoNotMeet: each has a schema of its own, and all the partitions.
func TestInstallationsInOneDatabaseDoNotMeet(t *testing.T) {
	dsn, err := url.Parse(pgtest.DSN(t, migrations.Read))
	if err != nil {
		t.Fatal(err)
	}
	h := &held{who: map[int32]map[string]int{}}
	other := &held{who: map[int32]map[string]int{}}
	for schema, h := range map[string]*held{"public": h, "elsewhere": other} {
		q := dsn.Query()
		q.Set("search_path", schema)
		dsn.RawQuery = q.Encode()
		pool, err := pgxpool.New(t.Context(), dsn.String())
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := pool.Exec(t.Context(), `CREATE SCHEMA IF NOT EXISTS elsewhere`); err != nil {
			t.Fatal(err)
		}
		defer h.hold(t, schema, pool, 4)()
	}
	logtest.Eventually(t, "both have all", func() bool { return h.has("public") == 4 && other.has("elsewhere") == 4 })
}
