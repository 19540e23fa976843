package accounts_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/projections/vault"
	"github.com/cairnhq/cairn/streams"
)

func TestAccessTokensRunOutAndCannotBeForged(t *testing.T) {
	w := newWorld(t)
	_, tokens := w.register(t, email)
	parts := strings.Split(tokens.Access, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"sub": "x", "iss": "cairn", "aud": "cairn", "exp": w.now().Add(time.Hour).Unix()}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "x", "iss": "cairn", "aud": "cairn", "exp": w.now().Add(time.Hour).Unix()}).SignedString(w.master)
	if err != nil {
		t.Fatal(err)
	}

	stranger := w.service(bytes.Repeat([]byte{6}, vault.MasterKeySize))
	if _, err := stranger.Verify(tokens.Access); !errors.Is(err, accounts.ErrToken) {
		t.Errorf("a token of another master key: %v", err)
	}
	for _, master := range [][]byte{nil, {}, make([]byte, 5)} {
		keyless := w.service(master)
		if _, err := keyless.Verify(tokens.Access); !errors.Is(err, accounts.ErrToken) {
			t.Errorf("without a master key: %v", err)
		}
	}
	longer := base64.RawURLEncoding.EncodeToString(bytes.Replace(payload, []byte(`"exp":1`), []byte(`"exp":9`), 1))
	for name, bad := range map[string]string{
		"nothing": "", "unsigned": unsigned, "a shared secret": shared, "half": tokens.Access[:len(tokens.Access)/2], "no signature": parts[0] + "." + parts[1] + ".",
		"a longer life": parts[0] + "." + longer + "." + parts[2], "a refresh token": tokens.Refresh,
	} {
		if p, err := w.Verify(bad); !errors.Is(err, accounts.ErrToken) || p != (accounts.Principal{}) || strings.Contains(err.Error(), "eyJ") {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if got := tokens.AccessExpires.Sub(w.now()); got > accounts.AccessLasts || got < accounts.AccessLasts-time.Second {
		t.Errorf("it lasts %v", got)
	}
	w.later(accounts.AccessLasts - 2*time.Second)
	if _, err := w.Verify(tokens.Access); err != nil {
		t.Errorf("before its time: %v", err)
	}
	w.later(2 * time.Second)
	if _, err := w.Verify(tokens.Access); !errors.Is(err, accounts.ErrToken) {
		t.Errorf("after its time: %v", err)
	}
}

func TestRefreshTokensRotate(t *testing.T) {
	w := newWorld(t)
	a, first := w.register(t, email)
	second, err := w.Refresh(t.Context(), first.Refresh)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.Verify(second.Access); err != nil || p.UserID != a.UserID || second.Refresh == first.Refresh {
		t.Fatalf("%+v, %v", p, err)
	}
	w.later(vault.Grace)
	again, err := w.Refresh(t.Context(), first.Refresh)
	if err != nil || again.Refresh != second.Refresh || !again.RefreshExpires.Equal(second.RefreshExpires) {
		t.Fatalf("within its grace the first gives %v, want the same successor (%v)", again.Refresh, err)
	}
	_, bystander, err := w.Login(t.Context(), email, password, "r")
	if err != nil {
		t.Fatal(err)
	}
	w.later(time.Second)
	if _, err := w.Refresh(t.Context(), first.Refresh); !errors.Is(err, accounts.ErrToken) || !errors.Is(err, vault.ErrReused) {
		t.Fatalf("past its grace: %v", err)
	}
	if _, err := w.Refresh(t.Context(), second.Refresh); !errors.Is(err, accounts.ErrToken) {
		t.Fatalf("the successor outlived its family: %v", err)
	}
	third, err := w.Refresh(t.Context(), bystander.Refresh)
	if err != nil {
		t.Fatalf("another log-in was revoked, too: %v", err)
	}
	for range 2 {
		if err := w.Logout(t.Context(), third.Refresh); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Refresh(t.Context(), third.Refresh); !errors.Is(err, accounts.ErrToken) {
		t.Fatalf("after log-out: %v", err)
	}
}

// A token nobody gave out says nothing and revokes nothing, although it names a family.
func TestForgedRefreshTokensDoNothing(t *testing.T) {
	w := newWorld(t)
	_, tokens := w.register(t, email)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(tokens.Refresh, "cr_"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		forged := "cr_" + base64.RawURLEncoding.EncodeToString(changed)
		if _, err := w.Refresh(t.Context(), forged); !errors.Is(err, accounts.ErrToken) || errors.Is(err, vault.ErrReused) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if err := w.Logout(t.Context(), forged); !errors.Is(err, accounts.ErrToken) {
			t.Fatalf("logged out with byte %d changed: %v", i, err)
		}
	}
	for _, bad := range []string{"", "cr_", tokens.Refresh + "A", tokens.Access, strings.TrimPrefix(tokens.Refresh, "cr_"), strings.Repeat("cr_", 1000)} {
		if _, err := w.Refresh(t.Context(), bad); !errors.Is(err, accounts.ErrToken) {
			t.Errorf("%.30q: %v", bad, err)
		}
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh); err != nil {
		t.Fatalf("the true one: %v", err)
	}
}

func TestTwoRefreshesAtOnceGetOneSuccessor(t *testing.T) {
	w := newWorld(t)
	_, tokens := w.register(t, email)
	got := make([]string, 8)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			next, err := w.Refresh(t.Context(), tokens.Refresh)
			if err != nil {
				t.Error(err)
			}
			got[i] = next.Refresh
		})
	}
	all.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatal("two successors")
		}
	}
}

func TestTicketsAreForOneUse(t *testing.T) {
	w := newWorld(t)
	_, tokens := w.register(t, email)
	p, err := w.Verify(tokens.Access)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := w.Ticket(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got := ticket.ExpiresAt.Sub(w.now()); got != accounts.TicketLasts {
		t.Errorf("a ticket for %v", got)
	}
	if got, err := w.Redeem(t.Context(), ticket.Ticket); err != nil || got != p {
		t.Fatalf("redeemed to %+v, %v; want %+v", got, err, p)
	}
	late, err := w.Ticket(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	w.later(accounts.TicketLasts)
	for _, bad := range []string{ticket.Ticket, late.Ticket, "", "ct_", tokens.Access, strings.Repeat("ct_", 100)} {
		if _, err := w.Redeem(t.Context(), bad); !errors.Is(err, accounts.ErrToken) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func TestErasureEndsEverything(t *testing.T) {
	w := newWorld(t)
	a, tokens := w.register(t, email)
	p, err := w.Verify(tokens.Access)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := w.Ticket(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	// The erasure breaks off after the event, and is finished by repeating it.
	w.after.Store(true)
	if err := w.Erase(t.Context(), p); !errors.Is(err, streams.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Erase(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.events("account.erased"); n != 1 {
		t.Fatalf("%d erasures in the log", n)
	}
	_, _, login := w.Login(t.Context(), email, password, "r")
	_, refresh := w.Refresh(t.Context(), tokens.Refresh)
	_, redeem := w.Redeem(t.Context(), ticket.Ticket)
	_, me := w.Me(t.Context(), p)
	_, again := w.Ticket(t.Context(), p)
	_, key := w.vault.Current(t.Context(), a.Scope)
	for what, got := range map[string][2]error{
		"login": {login, accounts.ErrCredentials}, "refresh": {refresh, accounts.ErrToken}, "redeem": {redeem, accounts.ErrToken},
		"me": {me, accounts.ErrToken}, "ticket": {again, accounts.ErrToken}, "key": {key, streams.ErrScopeErased},
	} {
		if !errors.Is(got[0], got[1]) {
			t.Errorf("%s: %v, want %v", what, got[0], got[1])
		}
	}
	// The e-mail is free again, for another account.
	if b, _ := w.register(t, email); b.UserID == a.UserID {
		t.Error("the new account has the old one's id")
	}
}

// A restored back-up brings back what was erased since; the log takes it away again.
func TestErasuresAreAppliedAgainAfterARestore(t *testing.T) {
	w := newWorld(t)
	a, tokens := w.register(t, email)
	b, _ := w.register(t, "bob@example.com")
	for range 2 {
		if err := w.ApplyErasures(t.Context(), []domain.Scope{a.Scope, "org-gone", "user-never-here"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Refresh(t.Context(), tokens.Refresh); !errors.Is(err, accounts.ErrToken) {
		t.Errorf("a restored log-in: %v", err)
	}
	for _, scope := range []domain.Scope{a.Scope, "org-gone", "user-never-here"} {
		if _, err := w.vault.Current(t.Context(), scope); !errors.Is(err, streams.ErrScopeErased) {
			t.Errorf("the key of %s: %v", scope, err)
		}
	}
	if _, err := w.vault.Current(t.Context(), b.Scope); err != nil {
		t.Errorf("bob's key: %v", err)
	}
}
