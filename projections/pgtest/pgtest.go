// Package pgtest gives each test a migrated database of its own in a real Postgres. It is for tests only.
package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/postgres"
)

// Variable names a running cluster to use instead of one of our own: its directory, or a DSN whose user
// may create databases.
const Variable = "CAIRN_TEST_POSTGRES"

// process is the cluster that the tests of one process share. A test has no way to carry it, so it is the
// one package variable; Main ends it.
type process struct {
	mu        sync.Mutex
	dir       string
	cluster   *postgres.Cluster
	dsn       func(database string) string
	err       error
	templates map[migrations.Database]string
}

var shared = &process{templates: map[migrations.Database]string{}}

// Main runs the tests, ends the cluster if one was started, makes the checks (such as goleak.Find), and
// exits. Every package that uses pgtest calls it in TestMain.
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	err := shared.stop()
	for _, check := range checks {
		if code == 0 {
			err = errors.Join(err, check())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Read is a pool on a fresh database with the read models' tables.
func Read(t testing.TB) *pgxpool.Pool { return pool(t, migrations.Read) }

// Vault is a pool on a fresh database with the vault's tables.
func Vault(t testing.TB) *pgxpool.Pool { return pool(t, migrations.Vault) }

func pool(t testing.TB, which migrations.Database) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), DSN(t, which))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// DSN is how to reach a fresh migrated database, dropped when the test ends.
func DSN(t testing.TB, which migrations.Database) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dsn, template, err := shared.template(ctx, which)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	name := "t_" + strings.ToLower(rand.Text())
	if err := execute(ctx, dsn("postgres"), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := execute(ctx, dsn("postgres"), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return dsn(name)
}

// Dir is a fresh directory that a server of another user can enter, removed when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := openDir()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return dir
}

func openDir() (string, error) {
	dir, err := os.MkdirTemp("", "cairn-test-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// ShiftClock makes cairn_now() run ahead of the true time (or behind) in this database.
func ShiftClock(t testing.TB, pool *pgxpool.Pool, by time.Duration) {
	t.Helper()
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION cairn_now() RETURNS timestamptz
		LANGUAGE sql STABLE PARALLEL SAFE
		AS 'SELECT statement_timestamp() + interval ''%d microseconds'''`, by.Microseconds()))
	if err != nil {
		t.Fatalf("pgtest: shift the clock: %v", err)
	}
}

func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cluster == nil {
		return nil
	}
	return errors.Join(p.cluster.Stop(), os.RemoveAll(p.dir))
}

// template answers the server and the name of a migrated template database, making both at first use.
func (p *process) template(ctx context.Context, which migrations.Database) (func(string) string, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dsn == nil && p.err == nil {
		p.err = p.connect(ctx)
	}
	if p.err != nil {
		return nil, "", p.err
	}
	if name, ok := p.templates[which]; ok {
		return p.dsn, name, nil
	}
	name, err := makeTemplate(ctx, p.dsn, which)
	if err != nil {
		return nil, "", err
	}
	p.templates[which] = name
	return p.dsn, name, nil
}

func (p *process) connect(ctx context.Context) (err error) {
	if given := os.Getenv(Variable); given != "" {
		p.dsn, err = existing(given)
		return err
	}
	if p.dir, err = openDir(); err != nil {
		return err
	}
	p.cluster, err = postgres.Start(ctx, Config(p.dir))
	if err != nil {
		return errors.Join(err, os.RemoveAll(p.dir))
	}
	p.dsn = p.cluster.DSN
	return nil
}

// Config is a cluster for tests in dir. It is not for keeps: these tests are about SQL, those of package
// postgres about what survives.
func Config(dir string) postgres.Config {
	return postgres.Config{Dir: dir, Databases: []string{"postgres"}, Settings: map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB",
	}}
}

func existing(given string) (func(string) string, error) {
	if !strings.Contains(given, "://") {
		return postgres.Find(given)
	}
	base, err := url.Parse(given)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return func(database string) string {
		u := *base
		u.Path = "/" + database
		return u.String()
	}, nil
}

// makeTemplate makes the template once per cluster and set of migrations; processes take turns.
func makeTemplate(ctx context.Context, dsn func(string) string, which migrations.Database) (string, error) {
	sum, err := digest(which)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("cairn_template_%s_%s", which, sum)
	conn, err := pgx.Connect(ctx, dsn("postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // also frees the lock
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name); err != nil {
		return "", err
	}
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil {
		return "", err
	}
	if there {
		return name, nil
	}
	fresh := name + "_fresh" // renamed when done, so that a half-made one is never used
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + fresh + " WITH (FORCE)", "CREATE DATABASE " + fresh} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return "", err
		}
	}
	if err := migrations.Up(ctx, dsn(fresh), which); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+fresh+" RENAME TO "+name)
	return name, err
}

func digest(which migrations.Database) (string, error) {
	files, err := which.FS()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fmt.Fprintf(sum, "%s %d\n", path, len(text))
		sum.Write(text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

func execute(ctx context.Context, dsn, statement string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
