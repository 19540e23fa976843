package projections_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
)

// TestPartitionsAreSharedFairly: each of several engines holds about as many; who joins gets some, and those of who leaves are
// taken over. Nothing is applied twice or left out meanwhile.
func TestPartitionsAreSharedFairly(t *testing.T) {
	log, pool := logtest.New(6), pgtest.Read(t)
	watcher := watch(t, pool)
	shares := func(want ...int) {
		t.Helper()
		eventually(t, func() error {
			rows, err := watcher.Query(t.Context(), `SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 1668313706
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY pid ORDER BY 1`)
			if err != nil {
				return err
			}
			got, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
				err = fmt.Errorf("the shares are %v, wanted %v", got, want)
			}
			return err
		})
	}
	n := 0
	more := func() {
		for range 20 {
			n++
			chat(log, domain.Scope(fmt.Sprintf("user-%d", n%17)), "thread-a", fmt.Sprint("run", n))
		}
	}
	more()
	first := start(t, pool, log, models(pool))
	shares(6)
	more()
	second := start(t, pool, log, models(pool))
	shares(3, 3)
	more()
	third := start(t, pool, log, models(pool))
	shares(2, 2, 2)
	more()
	first()
	shares(3, 3)
	more()
	waitLevel(t, pool, log, models(pool)...)
	second()
	third()
	equal(t, "tables", dump(t.Context(), t, pool, tables...), expected(t, log))
}
