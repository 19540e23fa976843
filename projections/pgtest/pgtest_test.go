package pgtest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/projections/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

func TestEachTestHasItsOwnDatabase(t *testing.T) {
	for range 2 {
		pool := pgtest.Read(t)
		if _, err := pool.Exec(t.Context(), "CREATE TABLE only_here (id int)"); err != nil {
			t.Fatal(err)
		}
	}
	if err := pgtest.Vault(t).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTheClockCanBeShifted(t *testing.T) {
	pool := pgtest.Read(t)
	pgtest.ShiftClock(t, pool, time.Hour)
	var ahead time.Duration
	if err := pool.QueryRow(t.Context(), "SELECT cairn_now() - statement_timestamp()").Scan(&ahead); err != nil {
		t.Fatal(err)
	}
	if ahead != time.Hour {
		t.Fatalf("cairn_now() is %v ahead, wanted one hour", ahead)
	}
}
