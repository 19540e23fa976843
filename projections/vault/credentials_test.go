package vault_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
)

func TestAnEmailIsClaimedOnce(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	digest, err := v.EmailDigest(t.Context(), "ann@example.com")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var won atomic.Int32
	holders := make([]string, 12)
	for i := range holders {
		all.Go(func() {
			c, stored, err := w.open().Claim(t.Context(), vault.Credential{UserID: uuid.NewString(), EmailDigest: digest, PasswordHash: "h", Tier: account.Free})
			if err != nil {
				t.Error(err)
			}
			if stored {
				won.Add(1)
			}
			holders[i] = c.UserID
		})
	}
	all.Wait()
	if won.Load() != 1 || len(slices.Compact(holders)) != 1 {
		t.Fatalf("%d claims won, held by %v", won.Load(), holders)
	}
	c, err := v.ByUser(t.Context(), holders[0])
	if err != nil || c.Registered || c.Tier != account.Free || !bytes.Equal(c.EmailDigest, digest) {
		t.Fatalf("credential %+v, %v", c, err)
	}
	if bytes.Contains(digest, []byte("ann")) {
		t.Fatal("the digest shows the e-mail")
	}
	other := vault.Open(newWorld(t).pool, bytes.Repeat([]byte{9}, 32), w.now)
	if d, err := other.EmailDigest(t.Context(), "ann@example.com"); err != nil || bytes.Equal(d, digest) {
		t.Fatalf("the digest does not depend on the master key (%v)", err)
	}
}

func TestTheLaterTierStands(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	w.user(t, v, "ann")
	for _, step := range []struct {
		tier     account.Tier
		position uint64
		want     account.Tier
	}{{account.Pro, 5, account.Pro}, {account.Free, 4, account.Pro}, {account.Team, 9, account.Team}, {account.Team, 9, account.Team}} {
		if err := v.SetTier(t.Context(), "ann", step.tier, step.position); err != nil {
			t.Fatal(err)
		}
		if c, err := v.ByUser(t.Context(), "ann"); err != nil || c.Tier != step.want {
			t.Fatalf("after %s at %d: %s, %v", step.tier, step.position, c.Tier, err)
		}
	}
}

func TestErasingLeavesOnlyTheTombstone(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	ctx := t.Context()
	w.user(t, v, "ann")
	w.user(t, v, "bob")
	for _, user := range []string{"ann", "bob"} {
		if _, err := v.Current(ctx, domain.User(user)); err != nil {
			t.Fatal(err)
		}
		if _, err := v.OpenFamily(ctx, user, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := v.PutTicket(ctx, []byte(user), user, w.now().Add(time.Minute), w.now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := v.Erase(ctx, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	for table, want := range map[string]int{"credentials": 1, "refresh_families": 1, "tickets": 1, "data_keys": 1, "scope_keys": 2} {
		var n int
		if err := w.pool.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&n); err != nil || n != want {
			t.Errorf("%s has %d rows, want %d (%v)", table, n, want, err)
		}
	}
	if _, err := v.Current(ctx, "user-ann"); !errors.Is(err, streams.ErrScopeErased) {
		t.Fatalf("ann's key: %v", err)
	}
	if _, err := v.OpenFamily(ctx, "ann", time.Hour); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("a log-in of an erased user: %v", err)
	}
}

func TestARefreshTokenIsUsedOnceWithinItsGrace(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	ctx := t.Context()
	w.user(t, v, "ann")
	begin := func() vault.Family {
		f, err := v.OpenFamily(ctx, "ann", 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	use := func(f vault.Family, n, want int64) {
		t.Helper()
		got, err := v.UseToken(ctx, f.ID, n, 24*time.Hour)
		if err != nil || got.Number != want || got.UserID != "ann" {
			t.Fatalf("token %d gave %+v, %v; want number %d", n, got, err, want)
		}
	}
	revoked := func(f vault.Family, n int64) {
		t.Helper()
		if _, err := v.UseToken(ctx, f.ID, n, time.Hour); !errors.Is(err, vault.ErrReused) {
			t.Fatalf("token %d: %v, want ErrReused", n, err)
		}
		for n := range int64(5) {
			if _, err := v.UseToken(ctx, f.ID, n, time.Hour); !errors.Is(err, vault.ErrNotFound) {
				t.Fatalf("token %d of a revoked family: %v", n, err)
			}
		}
	}
	f, bystander := begin(), begin()
	use(f, 1, 2)
	w.later(vault.Grace)
	use(f, 1, 2) // the same successor, to the last moment
	w.later(time.Second)
	use(bystander, 1, 2)
	revoked(f, 1)
	use(bystander, 1, 2) // reuse revokes one family only

	g := begin()
	use(g, 1, 2)
	use(g, 2, 3)
	revoked(g, 1) // the one before the previous has no grace

	future := begin()
	revoked(future, 2) // a number that was never given out

	out := begin()
	if err := v.Revoke(ctx, out.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := v.UseToken(ctx, out.ID, 1, time.Hour); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("after log-out: %v", err)
	}
	old := begin()
	w.later(24 * time.Hour)
	if _, err := v.UseToken(ctx, old.ID, 1, time.Hour); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("after its time: %v", err)
	}
	if err := v.Tidy(ctx); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := w.pool.QueryRow(ctx, `SELECT count(*) FROM refresh_families WHERE expires_at < $1`, w.now()).Scan(&left); err != nil || left != 0 {
		t.Fatalf("%d expired families are left (%v)", left, err)
	}
}

// Two tabs use the same token at once: both get the same successor.
func TestOneSuccessorHoweverManyAsk(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	w.user(t, v, "ann")
	f, err := v.OpenFamily(t.Context(), "ann", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if got, err := v.UseToken(t.Context(), f.ID, 1, time.Hour); err != nil || got.Number != 2 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
}

func TestATicketIsTakenOnce(t *testing.T) {
	w := newWorld(t)
	v := w.open()
	ctx := t.Context()
	w.user(t, v, "ann")
	put := func() []byte {
		digest := []byte(rand.Text())
		if err := v.PutTicket(ctx, digest, "ann", w.now().Add(30*time.Second), w.now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	digest := put()
	var all sync.WaitGroup
	var taken atomic.Int32
	for range 8 {
		all.Go(func() {
			user, until, err := v.TakeTicket(ctx, digest)
			if err == nil && user == "ann" && until.Equal(w.now().Add(time.Hour)) {
				taken.Add(1)
			} else if !errors.Is(err, vault.ErrNotFound) {
				t.Errorf("%s, %v", user, err)
			}
		})
	}
	all.Wait()
	if taken.Load() != 1 {
		t.Fatalf("taken %d times", taken.Load())
	}
	late := put()
	w.later(30 * time.Second)
	if _, _, err := v.TakeTicket(ctx, late); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("after 30 s: %v", err)
	}
	if err := v.PutTicket(ctx, []byte("x"), "nobody", w.now(), w.now()); !errors.Is(err, vault.ErrNotFound) {
		t.Fatalf("a ticket for nobody: %v", err)
	}
}
