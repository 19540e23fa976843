package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairnhq/cairn/clients/api"
)

// serve is a backend whose access tokens last as long as given, and that counts renewals.
func serve(t *testing.T, lasts time.Duration) (url string, renewals *atomic.Int64) {
	renewals = &atomic.Int64{}
	tokens := func(n int64) map[string]any {
		name := string(rune('a' + n))
		return map[string]any{"access_token": "access-" + name, "access_expires_at": time.Now().Add(lasts), "refresh_token": "refresh-" + name,
			"account": map[string]string{"user_id": "1", "scope": "user-1", "tier": "free"}}
	}
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("POST /api/v1/sessions", func(w http.ResponseWriter, _ *http.Request) { say(w, tokens(0)) })
	mux.HandleFunc("POST /api/v1/sessions/refresh", func(w http.ResponseWriter, _ *http.Request) {
		say(w, tokens(renewals.Add(1)))
	})
	mux.HandleFunc("GET /api/v1/me", func(w http.ResponseWriter, r *http.Request) {
		say(w, map[string]string{"user_id": r.Header.Get("Authorization")})
	})
	mux.HandleFunc("GET /api/v1/threads", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(`{"code":"busy","detail":"a run is going on"}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, renewals
}

func TestASessionRenewsItself(t *testing.T) {
	for lasts, want := range map[time.Duration]int64{time.Hour: 0, time.Second: 4} {
		url, renewals := serve(t, lasts)
		file := api.TokenFile(filepath.Join(t.TempDir(), "tokens"))
		c := api.New(url, api.KeepingTokens(file.Save))
		if _, err := c.Token(t.Context()); !errors.Is(err, api.ErrNoSession) {
			t.Errorf("without a session: %v", err)
		}
		if account, err := c.Login(t.Context(), "a@b.c", "x"); err != nil || account.Scope != "user-1" {
			t.Fatalf("log in: %v, %v", account, err)
		}
		var me api.Account
		for range 3 {
			if err := c.Get(t.Context(), "/api/v1/me", &me); err != nil {
				t.Fatal(err)
			}
		}
		if answer, err := c.Operations().GetMeWithResponse(t.Context(), nil); err != nil || answer.JSON200 == nil || answer.JSON200.UserID != me.UserID && want == 0 {
			t.Errorf("an operation of the contract: %+v, %v", answer, err)
		} else if answer.JSON200 != nil {
			me = *answer.JSON200
		}
		kept, ok, err := file.Load()
		if err != nil || !ok || "Bearer "+kept.Access != me.UserID || renewals.Load() != want {
			t.Errorf("lasting %v: kept %+v, used %q, %d renewals, %v", lasts, kept, me.UserID, renewals.Load(), err)
		}
	}
}

func TestProblemsAreErrors(t *testing.T) {
	url, _ := serve(t, time.Hour)
	c := api.New(url, api.WithTokens(api.Tokens{Access: "x", Refresh: "y", AccessExpires: time.Now().Add(time.Hour)}))
	var p *api.Problem
	if err := c.Get(t.Context(), "/api/v1/threads", nil); !errors.As(err, &p) || p.Code != "busy" || p.Status != http.StatusTeapot {
		t.Errorf("got %v", err)
	}
	if answer, err := c.Operations().ListThreadsWithResponse(t.Context(), nil); err != nil || !errors.As(api.Refused(answer.HTTPResponse, answer.Body), &p) || p.Code != "busy" {
		t.Errorf("got %v, %v", answer, err)
	}
	if err := c.Get(t.Context(), "/api/v1/nothing", nil); !errors.As(err, &p) || p.Status != http.StatusNotFound || p.Title == "" {
		t.Errorf("got %v", err)
	}
	if _, ok, err := api.TokenFile(filepath.Join(t.TempDir(), "none")).Load(); ok || err != nil {
		t.Errorf("no file: %v, %v", ok, err)
	}
}
