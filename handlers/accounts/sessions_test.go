package accounts_test

import (
	"slices"
	"testing"

	"github.com/cairnhq/cairn/handlers/accounts"
)

// TestASessionEndsWithItsLogOut: an access token, and a ticket made of it, say which log-in they came of; when that is
// logged out it has ended, and no other one has.
func TestASessionEndsWithItsLogOut(t *testing.T) {
	w := newWorld(t)
	_, first := w.register(t, email)
	verify := func(tokens accounts.Tokens) accounts.Principal {
		t.Helper()
		p, err := w.Verify(tokens.Access)
		if err != nil || p.Session == "" {
			t.Fatalf("%+v, %v", p, err)
		}
		return p
	}
	p := verify(first)
	next, err := w.Refresh(t.Context(), first.Refresh)
	if err != nil {
		t.Fatal(err)
	}
	if again := verify(next); again.Session != p.Session {
		t.Errorf("a refreshed token is of session %s, and was of %s", again.Session, p.Session)
	}
	ticket, err := w.Ticket(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if redeemed, err := w.Redeem(t.Context(), ticket.Ticket); err != nil || redeemed.Session != p.Session {
		t.Errorf("a ticket stands for %+v, %v", redeemed, err)
	}
	_, other := w.register(t, "other@example.org")
	sessions := []string{p.Session, verify(other).Session}
	if ended, err := w.Ended(t.Context(), sessions); err != nil || len(ended) > 0 {
		t.Errorf("ended: %v, %v", ended, err)
	}
	if err := w.Logout(t.Context(), next.Refresh); err != nil {
		t.Fatal(err)
	}
	if ended, err := w.Ended(t.Context(), sessions); err != nil || !slices.Equal(ended, sessions[:1]) {
		t.Errorf("ended: %v, %v", ended, err)
	}
}
