package postgres_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, dir string) *postgres.Cluster {
	t.Helper()
	c, err := postgres.Start(t.Context(), postgres.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func exec(t *testing.T, c *postgres.Cluster, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.DSN(migrations.Read.Name()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), sql)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func pid(t *testing.T, dir string) int {
	t.Helper()
	home := filepath.Join(dir, "server")
	if text, err := os.ReadFile(filepath.Join(dir, "location")); err == nil {
		home = strings.TrimSpace(string(text))
	}
	text, err := os.ReadFile(filepath.Join(home, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAKilledServerComesBackWithItsData: kill -9 of the postmaster, under supervision. The next migration can be entered
// then: the numbers of their list would begin anew.
func TestAKilledServerComesBackWithItsData(t *testing.T) {
	dir := pgtest.Dir(t)
	c := start(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	migrate := func() {
		if err := migrations.Up(t.Context(), c.DSN(migrations.Read.Name()), migrations.Read); err != nil {
			t.Fatal(err)
		}
	}
	migrate()
	exec(t, c, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
	old := pid(t, dir)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		conn, err := pgx.Connect(limit, c.DSN(migrations.Read.Name()))
		if err == nil {
			err = errors.Join(conn.QueryRow(limit, "SELECT n FROM kept").Scan(&n), conn.Close(limit))
		}
		if err == nil && n == 7 && pid(t, dir) != old {
			break
		}
		select {
		case <-limit.Done():
			t.Fatalf("it did not come back: %v", err)
		case <-tick.C:
		}
	}
	migrate()
	exec(t, c, "INSERT INTO cairn_migrations (version_id, is_applied) VALUES (99999, true)")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestWhatAnEarlierProcessLeftIsEnded: a start finds an orphaned postmaster on the directory, or a stale pid file.
func TestWhatAnEarlierProcessLeftIsEnded(t *testing.T) {
	dir := pgtest.Dir(t)
	c := start(t, dir)
	exec(t, c, "CREATE TABLE kept (n int)")
	server := pid(t, dir)
	if _, err := postgres.Start(t.Context(), postgres.Config{Dir: dir}); !errors.Is(err, postgres.ErrInUse) {
		t.Fatalf("a second launcher on the directory answered %v, wanted ErrInUse", err)
	}
	// As after kill -9 of the process: the lock is gone, the server is not.
	c.Abandon()
	next := start(t, dir)
	exec(t, next, "INSERT INTO kept VALUES (1)")
	if err := syscall.Kill(server, 0); !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("the orphaned server still lives: %v", err)
	}
	if err := next.Stop(); err != nil {
		t.Fatal(err)
	}
	// A stale pid file whose number belongs to a process of somebody else.
	data := filepath.Join(dir, "server", "data")
	if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(strconv.Itoa(os.Getpid())+"\n"+data+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	exec(t, start(t, dir), "INSERT INTO kept VALUES (2)")
}

func TestADirectoryThatTheServerCanNotEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root runs the server as somebody else: nothing to show")
		return
	}
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := start(t, dir)
	exec(t, c, "CREATE TABLE kept (n int)")
	text, err := os.ReadFile(filepath.Join(dir, "location"))
	if err != nil {
		t.Fatal(err)
	}
	home := strings.TrimSpace(string(text))
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	c = start(t, dir)
	exec(t, c, "INSERT INTO kept VALUES (1)")
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestMigrationsAreIdempotentAndTakeTurns(t *testing.T) {
	c := start(t, pgtest.Dir(t))
	results := make(chan error, 4)
	for range 4 {
		go func() { results <- migrations.Up(t.Context(), c.DSN(migrations.Read.Name()), migrations.Read) }()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	// Who made the list at once with others can have left its numbers another name; they go on all the same.
	exec(t, c, `DO $$ BEGIN
		EXECUTE 'ALTER SEQUENCE ' || pg_get_serial_sequence('cairn_migrations', 'id') || ' RENAME TO numbers';
		ALTER SEQUENCE numbers RESTART;
	END $$`)
	if err := migrations.Up(t.Context(), c.DSN(migrations.Read.Name()), migrations.Read); err != nil {
		t.Fatalf("a list whose numbers have another name: %v", err)
	}
	exec(t, c, "INSERT INTO cairn_migrations (version_id, is_applied) VALUES (99999, true)")
	if err := migrations.Up(t.Context(), c.DSN(migrations.Read.Name()), migrations.Read); err != nil {
		t.Fatalf("a database to which a newer program only added: %v", err)
	}
	exec(t, c, "COMMENT ON TABLE cairn_migrations IS 'cairn programs from migration 99999 on can use this database'")
	if err := migrations.Up(t.Context(), c.DSN(migrations.Read.Name()), migrations.Read); !errors.Is(err, migrations.ErrNewer) {
		t.Fatalf("a database of a newer program answered %v, wanted ErrNewer", err)
	}
}
