// Package vault is the one database that can't be rebuilt: wrapped data keys, credentials and the claim to
// an e-mail, refresh families, tickets, voids, where policies begin, the format level. It is no read
// model: nothing here comes from the log.
package vault

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// DataFormat is the form in which this program stores things in the vault.
const DataFormat = 1

// MasterKeySize is the size of a master key in bytes.
const MasterKeySize = 32

const (
	// keep is how long an opened key stays in memory, and so how long after its destruction a process may
	// still open content.
	keep = 60 * time.Second
	// patience is how long one question to the database may take before the vault counts as unreachable.
	patience  = 5 * time.Second
	cacheSize = 50_000 // scopes
	checkText = "cairn master key"
)

// What a vault says when it is opened with something that does not fit it.
var (
	ErrMasterMissing = errors.New("no master key: set it, or this vault's content can't be opened (it must be the key the vault was made with)")
	ErrMasterWrong   = errors.New("wrong master key: it is not the one this vault was made with, and its keys can't be unwrapped")
	ErrNewer         = errors.New("the vault was written by a newer cairn")
	ErrNotFound      = errors.New("not in the vault")
)

// Vault implements streams.Keys, and keeps what else must not be lost. It is safe for concurrent use.
type Vault struct {
	pool   *pgxpool.Pool
	master []byte
	now    func() time.Time
	kek    *subtle.AESGCM
	emails []byte
	used   func(context.Context, domain.Scope) (bool, error)

	mu      sync.Mutex
	checked bool
	opened  *lru.Cache[domain.Scope, *opened]
}

// Option changes a Vault under construction.
type Option func(*Vault)

// NoSecondKey mints no key for a scope that has events already: its key was here, and is lost. A vault that was
// put back from an older copy answers ErrKeyAbsent then, instead of sealing under a key that opens nothing old.
func NoSecondKey(hasEvents func(context.Context, domain.Scope) (bool, error)) Option {
	return func(v *Vault) { v.used = hasEvents }
}

// Open is a vault on a migrated database. It asks the database nothing yet: Check does, and so does the
// first use, which fails with the same errors.
func Open(pool *pgxpool.Pool, master []byte, now func() time.Time, options ...Option) *Vault {
	cache, err := lru.New[domain.Scope, *opened](cacheSize)
	if err != nil {
		panic(err) // only for a size below 1
	}
	// As Postgres keeps it, so that what is stored compares equal with what was to be stored.
	stored := func() time.Time { return now().UTC().Truncate(time.Microsecond) }
	v := &Vault{
		pool: pool, master: bytes.Clone(master), now: stored, opened: cache,
		used: func(context.Context, domain.Scope) (bool, error) { return false, nil },
	}
	for _, option := range options {
		option(v)
	}
	return v
}

// Fresh reports whether no program has used this vault yet, so that a master key may still be drawn.
func Fresh(ctx context.Context, pool *pgxpool.Pool) (bool, error) {
	var used bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM vault)`).Scan(&used); err != nil {
		return false, fmt.Errorf("vault: %w", err)
	}
	return !used, nil
}

// Check makes sure that the master key and the data format are those of the vault; in a fresh one it lays
// down a check value of the master key. Errors: ErrMasterMissing, ErrMasterWrong, ErrNewer, streams.ErrKeysUnreachable.
func (v *Vault) Check(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.checked {
		return nil
	}
	switch len(v.master) {
	case MasterKeySize:
	case 0:
		return fmt.Errorf("vault: %w", ErrMasterMissing)
	default:
		return fmt.Errorf("vault: a master key has %d bytes, not %d: %w", MasterKeySize, len(v.master), ErrMasterWrong)
	}
	kek, err := v.wrapper()
	if err != nil {
		return err
	}
	emails, err := Derive(v.master, "e-mail claims")
	if err != nil {
		return err
	}
	if err := v.checkAgainst(ctx, kek); err != nil {
		return err
	}
	v.kek, v.emails, v.checked = kek, emails, true
	return nil
}

// Derive makes a key of 32 bytes for one purpose out of the master key (HKDF-SHA-256, RFC 5869).
func Derive(master []byte, purpose string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, master, nil, "cairn/"+purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("vault: deriving the key for %s: %w", purpose, err)
	}
	return key, nil
}

func (v *Vault) wrapper() (*subtle.AESGCM, error) {
	raw, err := Derive(v.master, "wrapping keys")
	if err != nil {
		return nil, err
	}
	kek, err := subtle.NewAESGCM(raw)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return kek, nil
}

func (v *Vault) checkAgainst(ctx context.Context, kek *subtle.AESGCM) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sealed, err := kek.Encrypt([]byte(checkText), []byte("check"))
	if err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	if _, err := v.pool.Exec(ctx, `
		INSERT INTO vault (data_format, format_level, master_check, created_at) VALUES ($1, 1, $2, $3)
		ON CONFLICT DO NOTHING`, DataFormat, sealed, v.now()); err != nil {
		return unreachable(err)
	}
	var format int
	var stored []byte
	if err := v.pool.QueryRow(ctx, `SELECT data_format, master_check FROM vault`).Scan(&format, &stored); err != nil {
		return unreachable(err)
	}
	if format > DataFormat {
		return fmt.Errorf("vault: data format %d, this program knows %d: %w", format, DataFormat, ErrNewer)
	}
	if text, err := kek.Decrypt(stored, []byte("check")); err != nil || string(text) != checkText {
		return fmt.Errorf("vault: %w", ErrMasterWrong)
	}
	return nil
}

// Run keeps the promises that need a clock until ctx ends: it forgets opened keys in time although nobody asks
// for them any more, and deletes tickets and families that have run out.
func (v *Vault) Run(ctx context.Context) error {
	forget, tidy := time.NewTicker(keep/4), time.NewTicker(time.Hour)
	defer forget.Stop()
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-forget.C:
			v.forget()
		case <-tidy.C:
			// What is not deleted now is an hour later; it has run out in any case.
			_ = v.Tidy(ctx)
		}
	}
}

// Tidy deletes tickets and refresh families that have run out.
func (v *Vault) Tidy(ctx context.Context) error {
	if _, err := v.exec(ctx, `DELETE FROM tickets WHERE valid_until < $1`, v.now()); err != nil {
		return err
	}
	_, err := v.exec(ctx, `DELETE FROM refresh_families WHERE expires_at < $1`, v.now())
	return err
}

// exec runs one statement after the check, and answers how many rows it concerned.
func (v *Vault) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if err := v.Check(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tag, err := v.pool.Exec(ctx, sql, args...)
	if err != nil {
		return 0, unreachable(err)
	}
	return tag.RowsAffected(), nil
}

// row reads one row after the check; none is ErrNotFound.
func (v *Vault) row(ctx context.Context, into []any, sql string, args ...any) error {
	if err := v.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := v.pool.QueryRow(ctx, sql, args...).Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return unreachable(err)
	}
	return nil
}

// within runs do in one transaction after the check; no row where do needs one is ErrNotFound.
func (v *Vault) within(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	if err := v.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return unreachable(err)
	}
	return nil
}

// unreachable: whatever the database says instead of an answer, the vault could not be asked.
func unreachable(err error) error {
	return fmt.Errorf("vault: %w: %w", streams.ErrKeysUnreachable, err)
}
