package vault_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/migrations"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/streamstest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// world is one vault database, a clock, and a line to the database that can be cut.
type world struct {
	pool   *pgxpool.Pool
	master []byte
	shift  atomic.Int64
	cut    atomic.Bool
}

var errCut = errors.New("the line is cut")

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{master: bytes.Repeat([]byte{7}, vault.MasterKeySize)}
	config, err := pgxpool.ParseConfig(pgtest.DSN(t, migrations.Vault))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if w.cut.Load() {
			return errCut
		}
		return nil
	}
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return !w.cut.Load(), nil }
	if w.pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	return w
}

func (w *world) now() time.Time {
	return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(time.Duration(w.shift.Load()))
}

func (w *world) later(d time.Duration) { w.shift.Add(int64(d)) }

func (w *world) open() *vault.Vault { return vault.Open(w.pool, w.master, w.now) }

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) user(t *testing.T, v *vault.Vault, id string) {
	t.Helper()
	digest, err := v.EmailDigest(t.Context(), id+"@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, stored, err := v.Claim(t.Context(), vault.Credential{UserID: id, EmailDigest: digest, PasswordHash: "hash", Tier: account.Free}); err != nil || !stored {
		t.Fatalf("claim: %v, %v", stored, err)
	}
}

func TestKeys(t *testing.T) {
	w := newWorld(t)
	streamstest.Keys(t, func(t *testing.T) streamstest.Vault {
		w.exec(t, `TRUNCATE vault, scope_keys, data_keys`) // one database for all laws: making one takes longer than a law
		return streamstest.Vault{
			Open:    func(*testing.T) streams.Keys { return w.open() },
			Destroy: func(ctx context.Context, scope domain.Scope) error { return w.open().Destroy(ctx, scope) },
			Cut:     func() { w.cut.Store(true) }, Mend: func() { w.cut.Store(false) },
			Later: w.later,
		}
	})
}

func TestMasterKeyIsCheckedAtOpen(t *testing.T) {
	w := newWorld(t)
	if fresh, err := vault.Fresh(t.Context(), w.pool); err != nil || !fresh {
		t.Fatalf("a new vault is fresh: %v, %v", fresh, err)
	}
	if err := vault.Open(w.pool, nil, w.now).Check(t.Context()); !errors.Is(err, vault.ErrMasterMissing) {
		t.Fatalf("no master key: %v", err)
	}
	if _, err := w.open().Current(t.Context(), "user-ann"); err != nil {
		t.Fatal(err)
	}
	if fresh, err := vault.Fresh(t.Context(), w.pool); err != nil || fresh {
		t.Fatalf("a used vault is not fresh: %v, %v", fresh, err)
	}
	other := bytes.Repeat([]byte{8}, vault.MasterKeySize)
	for _, c := range []struct {
		master []byte
		want   error
	}{{nil, vault.ErrMasterMissing}, {other, vault.ErrMasterWrong}, {w.master[1:], vault.ErrMasterWrong}} {
		v := vault.Open(w.pool, c.master, w.now)
		_, err1 := v.Current(t.Context(), "user-ann")
		_, err2 := v.ByUser(t.Context(), "ann")
		for _, err := range []error{v.Check(t.Context()), err1, err2, v.Destroy(t.Context(), "user-ann")} {
			if !errors.Is(err, c.want) || errors.Is(err, streams.ErrKeysUnreachable) || errors.Is(err, streams.ErrKeyAbsent) {
				t.Errorf("master key of %d bytes: %v, want %v", len(c.master), err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "master key") {
				t.Errorf("the error does not say what is wrong: %v", err)
			}
		}
	}
	if err := w.open().Check(t.Context()); err != nil {
		t.Fatalf("the right master key: %v", err)
	}
	w.exec(t, `UPDATE vault SET data_format = 99`)
	if err := w.open().Check(t.Context()); !errors.Is(err, vault.ErrNewer) {
		t.Fatalf("a newer vault: %v", err)
	}
}

// A check that could not reach the vault is made again, by itself.
func TestCheckIsRepeatedAfterTheVaultWasAway(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	w.cut.Store(true)
	if _, err := v.Current(t.Context(), "user-ann"); !errors.Is(err, streams.ErrKeysUnreachable) || !errors.Is(err, errCut) {
		t.Fatalf("cut: %v", err)
	}
	w.cut.Store(false)
	if _, err := v.Current(t.Context(), "user-ann"); err != nil {
		t.Fatal(err)
	}
}

// Nobody who holds a copy of the database but not the master key has a key.
func TestKeysAreStoredWrapped(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	index, err := v.Index(t.Context(), "user-ann")
	if err != nil {
		t.Fatal(err)
	}
	var stored []byte
	if err := w.pool.QueryRow(t.Context(), `SELECT index_key FROM scope_keys`).Scan(&stored); err != nil || bytes.Contains(stored, index) {
		t.Fatalf("the index key stands in clear (%v)", err)
	}
	// Rows moved to another scope open nothing: they are wrapped for theirs.
	if _, err := v.Current(t.Context(), "user-bob"); err != nil {
		t.Fatal(err)
	}
	w.exec(t, `UPDATE data_keys b SET wrapped = a.wrapped FROM data_keys a WHERE a.scope = 'user-ann' AND b.scope = 'user-bob'`)
	w.exec(t, `UPDATE scope_keys b SET index_key = a.index_key FROM scope_keys a WHERE a.scope = 'user-ann' AND b.scope = 'user-bob'`)
	fresh := w.open()
	_, err1 := fresh.Current(t.Context(), "user-bob")
	_, err2 := fresh.Version(t.Context(), "user-bob", 1)
	_, err3 := fresh.Index(t.Context(), "user-bob")
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, streams.ErrKeyAbsent) {
			t.Errorf("a key wrapped for another scope: %v, want ErrKeyAbsent", err)
		}
	}
	// A lost key is given up by an operator, which ends the waiting.
	if err := fresh.Lost(t.Context(), "user-bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Current(t.Context(), "user-bob"); !errors.Is(err, streams.ErrScopeErased) {
		t.Fatalf("after giving the key up: %v", err)
	}
}

func TestRotatedKeysOpenWhatTheySealed(t *testing.T) {
	w := newWorld(t)
	v, other := w.open(), w.open()
	ctx := t.Context()
	old, err := v.Current(ctx, "user-ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Current(ctx, "user-ann"); err != nil {
		t.Fatal(err)
	}
	blob, err := old.AEAD.Encrypt([]byte("text"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Rotate(ctx, "user-ann"); err != nil {
		t.Fatal(err)
	}
	current, err := v.Current(ctx, "user-ann")
	if err != nil || current.Version != 2 {
		t.Fatalf("current is %d, %v", current.Version, err)
	}
	// Another process, whose cache is older than the rotation, opens what the new key sealed.
	if _, err := other.Version(ctx, "user-ann", 2); err != nil {
		t.Fatal(err)
	}
	back, err := v.Version(ctx, "user-ann", 1)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := back.AEAD.Decrypt(blob, nil); err != nil || string(text) != "text" {
		t.Fatalf("opened %q, %v", text, err)
	}
	if _, err := current.AEAD.Decrypt(blob, nil); err == nil {
		t.Fatal("the new key opens what the old one sealed")
	}
}

// Destroying races minting: whatever the order, in the end there is a tombstone and no key.
func TestNoKeyOutlivesItsTombstone(t *testing.T) {
	w := newWorld(t)
	for n := range 20 {
		scope := domain.User(strings.Repeat("x", n+1))
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := w.open().Current(t.Context(), scope); err != nil && !errors.Is(err, streams.ErrScopeErased) {
					t.Errorf("current: %v", err)
				}
			})
			all.Go(func() {
				if err := w.open().Rotate(t.Context(), scope); err != nil && !errors.Is(err, streams.ErrScopeErased) {
					t.Errorf("rotate: %v", err)
				}
			})
		}
		all.Go(func() {
			if err := w.open().Destroy(t.Context(), scope); err != nil {
				t.Errorf("destroy: %v", err)
			}
		})
		all.Wait()
		if _, err := w.open().Current(t.Context(), scope); !errors.Is(err, streams.ErrScopeErased) {
			t.Fatalf("scope %s after all: %v", scope, err)
		}
	}
	var keys int
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM data_keys`).Scan(&keys); err != nil || keys != 0 {
		t.Fatalf("%d keys are left (%v)", keys, err)
	}
}

// An opened key is used for at most 60 s, and one that nobody asks for is forgotten as well.
func TestKeysAreKeptSixtySeconds(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	if _, err := v.Current(t.Context(), "user-ann"); err != nil {
		t.Fatal(err)
	}
	w.cut.Store(true)
	w.later(59 * time.Second)
	if _, err := v.Current(t.Context(), "user-ann"); err != nil {
		t.Fatalf("after 59 s: %v", err)
	}
	w.later(time.Second)
	if _, err := v.Current(t.Context(), "user-ann"); !errors.Is(err, streams.ErrKeysUnreachable) {
		t.Fatalf("after 60 s: %v", err)
	}
}

func TestOperatorsNotesStay(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	ctx := t.Context()
	if err := v.Void(ctx, vault.Void{Era: 1, Partition: 2, Offset: 3}); err == nil {
		t.Fatal("voided without a reason")
	}
	for _, reason := range []string{"first", "second"} {
		if err := v.Void(ctx, vault.Void{Era: 1, Partition: 2, Offset: 3, Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := v.Voids(ctx, 1); err != nil || !slices.Equal(got, []vault.Void{{Era: 1, Partition: 2, Offset: 3, Reason: "first"}}) {
		t.Fatalf("voids %v, %v", got, err)
	}
	if got, err := v.Voids(ctx, 2); err != nil || len(got) > 0 {
		t.Fatalf("voids of another era %v, %v", got, err)
	}
	for _, at := range []int64{10, 20} {
		if got, err := v.PolicyBegin(ctx, "mail", 1, 0, at); err != nil || got != 10 {
			t.Fatalf("began at %d, %v", got, err)
		}
	}
	for _, step := range [][2]int{{1, 1}, {3, 3}, {2, 3}} {
		if err := v.RaiseFormatLevel(ctx, step[0]); err != nil {
			t.Fatal(err)
		}
		if got, err := v.FormatLevel(ctx); err != nil || got != step[1] {
			t.Fatalf("level %d, %v; want %d", got, err, step[1])
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	v := newWorld(t).open()
	go func() { done <- v.Run(ctx) }()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on")
	}
}

// TestNoSecondKey opens a vault that was put back from a copy older than a scope: what stands in the log was sealed
// under a key that is gone, and a new one would open none of it.
func TestNoSecondKey(t *testing.T) {
	w := newWorld(t)
	const old, fresh = domain.Scope("user-old"), domain.Scope("user-fresh")
	var away error
	v := vault.Open(w.pool, w.master, w.now, vault.NoSecondKey(func(_ context.Context, scope domain.Scope) (bool, error) {
		return scope == old, away
	}))
	for range 2 { // the first try leaves nothing behind that the second would find
		if _, err := v.Current(t.Context(), old); !errors.Is(err, streams.ErrKeyAbsent) {
			t.Errorf("a key of a scope with events: %v", err)
		}
		if _, err := v.Index(t.Context(), old); !errors.Is(err, streams.ErrKeyAbsent) {
			t.Errorf("an index key of a scope with events: %v", err)
		}
	}
	if _, err := v.Current(t.Context(), fresh); err != nil {
		t.Errorf("a key of a new scope: %v", err)
	}
	away = errors.New("the database is away")
	if _, err := v.Current(t.Context(), "user-other"); !errors.Is(err, streams.ErrKeysUnreachable) {
		t.Errorf("a key where nobody knows whether the scope is new: %v", err)
	}
	if _, err := v.Current(t.Context(), fresh); err != nil {
		t.Errorf("a key that is there needs no answer: %v", err)
	}
	if err := v.Lost(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Current(t.Context(), old); !errors.Is(err, streams.ErrScopeErased) {
		t.Errorf("a scope whose key was given up: %v", err)
	}
}
