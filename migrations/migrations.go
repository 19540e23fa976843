// Package migrations holds the SQL of the two databases and brings them up to date. It goes only forward.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	_ "github.com/jackc/pgx/v5/stdlib" // the database/sql driver that goose needs
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed read vault
var files embed.FS

// Database is one of the two databases; its text is the folder of its migrations.
type Database string

// The databases: read models and work tables, which can be lost, and the vault, which can't.
const (
	Read  Database = "read"
	Vault Database = "vault"
)

// Name is what the database is called in a cluster of ours.
func (d Database) Name() string {
	if d == Vault {
		return "cairn_vault"
	}
	return "cairn"
}

// FS are the migrations of a database, at the root.
func (d Database) FS() (fs.FS, error) { return fs.Sub(files, string(d)) }

// oldest is the number of the migration that a program must know at least to use a database as this one leaves it. It is
// raised by a migration that takes away what the release before uses; one that only adds leaves the way back open.
func oldest(which Database) int64 {
	switch which {
	case Read:
		return 11 // tables of read models are named by their generation
	case Vault:
		return 1
	default:
		return 0
	}
}

// Up applies what is missing. Processes that start at once take turns. A database that a newer program has migrated is
// used as it is, if that program says that this one can; else it is refused.
func Up(ctx context.Context, dsn string, which Database) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("migrations: open %s: %w", which.Name(), err)
	}
	defer db.Close()
	provider, err := newProvider(db, which)
	if errors.Is(err, goose.ErrNoMigrations) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("migrations: %s: %w", which.Name(), err)
	}
	newer, err := refuseNewer(ctx, db, provider, which)
	if err != nil || newer {
		return err
	}
	if err := renumber(ctx, db); err != nil {
		return fmt.Errorf("migrations: %s: %w", which.Name(), err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrations: %s: %w", which.Name(), err)
	}
	return leaveWayBack(ctx, db, which)
}

// renumber lets the numbers of the list of migrations go on after the last one. They start anew after a crash of a Postgres
// that logs as little as it may (wal_level = minimal): it does not log the numbers that the transaction took which made the
// list, and the next 31 not either. Every migration since would else fail, and with it the start. The sequence is asked for
// by what it belongs to: processes that made the list at once can have left it another name.
func renumber(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `SELECT setval(numbers, last) FROM (
			SELECT pg_get_serial_sequence('cairn_migrations', 'id')::regclass AS numbers, max(id)::bigint AS last FROM cairn_migrations) AS list
		WHERE last > coalesce(pg_sequence_last_value(numbers), 0)`); err != nil {
		return fmt.Errorf("the numbers of the list of migrations: %w", err)
	}
	return nil
}

const wayBack = "cairn programs from migration %d on can use this database"

// leaveWayBack notes which programs can use the database.
func leaveWayBack(ctx context.Context, db *sql.DB, which Database) error {
	note := fmt.Sprintf(wayBack, oldest(which))
	if has, err := noted(ctx, db); err != nil || has == note {
		return err
	}
	if _, err := db.ExecContext(ctx, "COMMENT ON TABLE cairn_migrations IS '"+note+"'"); err != nil {
		return fmt.Errorf("migrations: %s: %w", which.Name(), err)
	}
	return nil
}

func noted(ctx context.Context, db *sql.DB) (string, error) {
	var note sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT obj_description('cairn_migrations'::regclass, 'pg_class')").Scan(&note); err != nil {
		return "", fmt.Errorf("migrations: which programs can use the database: %w", err)
	}
	return note.String, nil
}

func newProvider(db *sql.DB, which Database) (*goose.Provider, error) {
	sources, err := which.FS()
	if err != nil {
		return nil, err
	}
	// A try a second, for five minutes: another process may be migrating a large table.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, sources,
		goose.WithSessionLocker(locker), goose.WithTableName("cairn_migrations"), goose.WithDisableGlobalRegistry(true))
}

// ErrNewer is a database that a newer program has migrated.
var ErrNewer = errors.New("the database was migrated by a newer cairn")

// refuseNewer reports whether a newer program has migrated the database, and refuses one that this program can't use.
func refuseNewer(ctx context.Context, db *sql.DB, provider *goose.Provider, which Database) (newer bool, err error) {
	has, knows, err := provider.GetVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("migrations: versions of %s: %w", which.Name(), err)
	}
	if has <= knows {
		return false, nil
	}
	note, err := noted(ctx, db)
	if err != nil {
		return true, err
	}
	var from int64
	if _, err := fmt.Sscanf(note, wayBack, &from); err != nil || from > knows {
		return true, fmt.Errorf("migrations: %s is at version %d, this cairn knows %d: %w", which.Name(), has, knows, ErrNewer)
	}
	return true, nil
}

// Version is the number of the newest migration that a database has; 0: none.
func Version(ctx context.Context, dsn string, which Database) (int64, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return 0, fmt.Errorf("migrations: open %s: %w", which.Name(), err)
	}
	defer db.Close()
	provider, err := newProvider(db, which)
	if err != nil {
		return 0, fmt.Errorf("migrations: %s: %w", which.Name(), err)
	}
	has, err := provider.GetDBVersion(ctx)
	if err != nil {
		return 0, fmt.Errorf("migrations: version of %s: %w", which.Name(), err)
	}
	return has, nil
}

// UpTo applies what is missing up to a version, so that rows of a copy that old fit. ErrNewer: this program does not know it.
func UpTo(ctx context.Context, dsn string, which Database, version int64) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("migrations: open %s: %w", which.Name(), err)
	}
	defer db.Close()
	provider, err := newProvider(db, which)
	if err != nil {
		return fmt.Errorf("migrations: %s: %w", which.Name(), err)
	}
	if sources := provider.ListSources(); len(sources) == 0 || sources[len(sources)-1].Version < version {
		return fmt.Errorf("migrations: the copy of %s has version %d: %w", which.Name(), version, ErrNewer)
	}
	if _, err := provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrations: %s: %w", which.Name(), err)
	}
	return nil
}
