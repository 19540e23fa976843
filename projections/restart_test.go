package projections_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/postgres"
)

// TestPostgresKilledUnderTheEngine: kill -9 of the server, twice, with everything running; it goes on by itself.
func TestPostgresKilledUnderTheEngine(t *testing.T) {
	dir := pgtest.Dir(t)
	cluster, err := postgres.Start(t.Context(), postgres.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	run(t, cluster.Run)
	dsn := cluster.DSN(migrations.Read.Name())
	if err := migrations.Up(t.Context(), dsn, migrations.Read); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	log := logtest.New(1)
	log.MaxBatch = 3
	start(t, pool, log, models(pool))
	listen(t, pool)
	for round := range 2 {
		for i := range 20 {
			chat(log, scope, "thread-a", fmt.Sprint("run", round, "-", i))
		}
		kill(t, dir)
		for i := range 20 {
			chat(log, scope, "thread-b", fmt.Sprint("run", round, "-", i))
		}
	}
	eventually(t, func() error {
		var events int
		want := 0
		for _, c := range log.Commits(0) {
			want += len(c.Events)
		}
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM events").Scan(&events); err != nil {
			return err
		}
		if events != want {
			return fmt.Errorf("%d of %d events", events, want)
		}
		return nil
	})
	wait(t, pool, log)
	equal(t, "tables", dump(t.Context(), t, pool, tables...), expected(t, log))
}

func kill(t *testing.T, dir string) {
	t.Helper()
	eventually(t, func() error {
		text, err := os.ReadFile(filepath.Join(dir, "server", "data", "postmaster.pid"))
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(string(text), "\n")
		pid, err := strconv.Atoi(first)
		if err != nil {
			return err
		}
		return errors.Join(syscall.Kill(pid, syscall.SIGKILL))
	})
}
