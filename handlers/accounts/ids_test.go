package accounts_test

import (
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// An account can be erased whatever its clients called their requests.
func TestNoRequestIDStandsInTheWayOfErasure(t *testing.T) {
	w := newWorld(t)
	a, tokens := w.register(t, email)
	p, err := w.Verify(tokens.Access)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"erase", "register", "tier"} {
		id := streams.CommandID(a.Scope, request)
		if _, err := w.Ask(t.Context(), streams.Command{
			Scope: a.Scope, ID: id, Request: []byte(request), Actor: domain.Actor{Kind: domain.ActorUser, ID: a.UserID},
			Body: thread.Open{On: thread.On{Thread: streams.Derive(id, "thread")}},
		}); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
	}
	if err := w.Erase(t.Context(), p); err != nil {
		t.Fatalf("the account stays: %v", err)
	}
	if n := w.events("account.erased"); n != 1 {
		t.Fatalf("%d erasures in the log", n)
	}
	if n := w.count(t, "credentials"); n != 0 {
		t.Fatalf("%d credentials are left", n)
	}
}
