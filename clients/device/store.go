package device

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the database driver, without cgo
)

//go:embed schema.sql
var schema string

// schemaVersion is what a file says of itself in user_version; a newer one is refused.
const schemaVersion = 1

// keepAcknowledged is how long an acknowledged journal entry stays.
const keepAcknowledged = 7 * 24 * time.Hour

// ErrNewerFile is the answer to a file that a newer program wrote.
var ErrNewerFile = errors.New("device: the file was written by a newer version")

// Store is a device's database: six tables, vectors, and the journal. It is safe for concurrent use; its
// writes are one after the other.
type Store struct {
	db  *sql.DB
	now func() time.Time
}

// OpenStore opens or makes the SQLite file at path (":memory:" keeps nothing). now may be nil.
func OpenStore(ctx context.Context, path string, now func() time.Time) (*Store, error) {
	if now == nil {
		now = time.Now
	}
	dsn := ":memory:"
	if path != dsn {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("device: %w", err)
		}
		if err := own(abs); err != nil {
			return nil, fmt.Errorf("device: open %s: %w", path, err)
		}
		// FULL: what was answered to the backend survives a power cut.
		dsn = (&url.URL{Scheme: "file", OmitHost: true, Path: abs, RawQuery: "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"}).String()
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("device: open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // writes in turn; an in-memory database lives in its connection
	s := &Store{db: db, now: now}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("device: open %s: %w", path, err), db.Close())
	}
	return s, nil
}

// own makes the file if it is not there, for its user alone: SQLite would let everybody on the machine read it.
func own(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *Store) migrate(ctx context.Context) error {
	var version int
	if err := s.db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > schemaVersion {
		return ErrNewerFile
	}
	if version == schemaVersion {
		return s.prune(ctx)
	}
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Rows are all rows of a table, oldest first.
func (s *Store) Rows(ctx context.Context, table string) ([]Row, error) {
	if _, ok := tables[table]; !ok {
		return nil, fmt.Errorf("device: no table %q", table)
	}
	return query(ctx, s.db, "SELECT * FROM "+table+" ORDER BY createdAt, rowid")
}

// Identity is the device's own id, which the file remembers; fresh is stored the first time.
func (s *Store) Identity(ctx context.Context, fresh string) (string, error) {
	if _, err := s.db.ExecContext(ctx, "INSERT INTO identity (one, deviceId) VALUES (1, ?) ON CONFLICT DO NOTHING", fresh); err != nil {
		return "", fmt.Errorf("device: identity: %w", err)
	}
	var id string
	if err := s.db.QueryRowContext(ctx, "SELECT deviceId FROM identity WHERE one = 1").Scan(&id); err != nil {
		return "", fmt.Errorf("device: identity: %w", err)
	}
	return id, nil
}
