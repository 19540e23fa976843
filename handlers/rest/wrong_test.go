package rest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/streams"
)

func (r *ring) thread(u *user, title string) *answer {
	r.t.Helper()
	return u.post("/api/v1/threads", map[string]string{"title": title}).want(http.StatusCreated)
}

func TestWrongInput(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	made := r.thread(ann, "Plans")
	of := "/api/v1/threads/" + made.text("id")
	ann.see(of, made)
	head := int(ann.see(of+"/head", made).at("max_seq").(float64))
	if head != 2 {
		t.Fatalf("head %d", head)
	}
	foreign := streams.Position{Scope: domain.User("somebody"), Position: 1, Era: 1}.String()
	big := `"` + strings.Repeat("x", 1<<20) + `"`
	cases := []struct {
		method, path, body string
		status             int
		code, says         string
	}{
		{"POST", "/api/v1/threads", "", 400, "malformed", "empty"},
		{"POST", "/api/v1/threads", "{", 400, "malformed", "JSON"},
		{"POST", "/api/v1/threads", "{} {}", 400, "malformed", "follows"},
		{"POST", "/api/v1/threads", "{\"title\":\"\xff\"}", 400, "malformed", "UTF-8"},
		{"POST", "/api/v1/threads", `[]`, 422, "invalid", "expected an object, got a list"},
		{"POST", "/api/v1/threads", `null`, 422, "invalid", "expected an object, got null"},
		{"POST", "/api/v1/threads", `{"title":7}`, 422, "invalid", "/title: expected a text, got a number"},
		{"POST", "/api/v1/threads", `{"TITLE":"x"}`, 422, "invalid", "/TITLE: unknown field"},
		{"POST", "/api/v1/threads", `{"title":"a\u0000b"}`, 422, "invalid", "NUL"},
		{"POST", "/api/v1/threads", `{"title":"   "}`, 422, "invalid", "between 1 and 200"},
		{"POST", "/api/v1/threads", `{"title":"` + strings.Repeat("ü", 201) + `"}`, 422, "invalid", "between 1 and 200"},
		{"POST", "/api/v1/threads", `{"title":"` + strings.Repeat("x", 70_000) + `"}`, 413, "too_large", "65536"},
		{"POST", "/api/v1/threads?x=1", `{}`, 422, "invalid", "no parameters"},
		{"PATCH", of, `{}`, 422, "invalid", "/title: is missing"},
		{"PATCH", "/api/v1/threads/nothing", `{"title":"x"}`, 404, "not_found", ""},
		{"PUT", of, `{}`, 405, "method_not_allowed", ""},
		{"GET", "/api/v1/nothing", "", 404, "not_found", "path"},
		{"GET", "/api/v1/threads/nothing", "", 404, "not_found", ""},
		{"GET", "/api/v1/threads/NOT%2FAN%00ID", "", 404, "not_found", ""},
		{"GET", of + "?at=0", "", 422, "invalid", "at: is at least 1"},
		{"GET", of + "?at=9223372036854775808", "", 422, "invalid", "at: is too large"},
		{"GET", of + "?at=9223372036854775807", "", 422, "invalid", "at: 9223372036854775807 does not exist yet; the newest is 2"},
		{"GET", "/api/v1/threads?limit=0", "", 422, "invalid", "between 1 and 200"},
		{"GET", "/api/v1/threads?limit=201", "", 422, "invalid", "between 1 and 200"},
		{"GET", "/api/v1/threads?limit=x", "", 422, "invalid", "whole number"},
		{"GET", "/api/v1/threads?cursor=nonsense", "", 422, "invalid", "cursor"},
		{"GET", "/api/v1/threads?page=2", "", 422, "invalid", "page: unknown parameter"},
		{"GET", "/api/v1/threads?limit=1&limit=2", "", 400, "malformed", "twice"},
		{"GET", "/api/v1/threads?cursor=%00", "", 400, "malformed", "NUL"},
		{"GET", "/api/v1/threads?min_position=nonsense", "", 400, "malformed_position", ""},
		{"GET", "/api/v1/threads?min_position=" + foreign, "", 400, "foreign_position", ""},
		{"GET", of + "/timeline?limit=-1", "", 422, "invalid", "whole number"},
		{"GET", of + "/timeline?limit=1001", "", 422, "invalid", "at most 1000"},
		{"GET", of + "/timeline?direction=sideways", "", 422, "invalid", "none of tail, before, after"},
		{"GET", of + "/timeline?direction=after", "", 422, "invalid", "needs one"},
		{"GET", of + "/timeline?seq=1", "", 422, "invalid", "belongs to before and after"},
		{"GET", of + "/timeline?direction=after&seq=3", "", 422, "invalid", "3 does not exist yet; the newest is 2"},
		{"GET", of + "/timeline?direction=before&seq=99999999999999999999", "", 422, "invalid", "too large"},
		{"GET", of + "/timeline?steps=maybe", "", 422, "invalid", "none of true, false"},
		{"GET", "/api/v1/events?after=999", "", 422, "invalid", "999 does not exist yet"},
		{"GET", "/api/v1/events?after=-1", "", 422, "invalid", "whole number"},
		{"POST", "/api/v1/runs/nothing/cancel", "", 404, "not_found", ""},
		{"POST", "/api/v1/chat", `{}`, 422, "invalid", "/message: is missing"},
		{"POST", "/api/v1/chat", `{"message":" \n "}`, 422, "invalid", "/message: is empty"},
		{"POST", "/api/v1/chat", `{"message":"a\u0000"}`, 422, "invalid", "NUL"},
		{"POST", "/api/v1/chat", `{"message":"x","on_busy":"panic"}`, 422, "invalid", "/on_busy"},
		{"POST", "/api/v1/chat", `{"message":"x","timezone":"Mars/Olympus"}`, 422, "invalid", "/timezone"},
		{"POST", "/api/v1/chat", `{"message":"x","device_id":"somebodys"}`, 422, "invalid", "/device_id"},
		{"POST", "/api/v1/chat", `{"message":"x","session_id":""}`, 422, "invalid", "/session_id"},
		{"POST", "/api/v1/chat", `{"message":"x","session_id":"nothing"}`, 404, "not_found", ""},
		{"POST", "/api/v1/chat", `{"message":"x","session_id":"NOT/AN/ID"}`, 404, "not_found", ""},
		{"POST", "/api/v1/chat", `{"message":"x","conversation_history":[{"role":"god","content":"y"}]}`, 422, "invalid", "/conversation_history/0/role"},
		{"POST", "/api/v1/chat", `{"message":"x","conversation_history":[{"role":"user","content":["y"]}]}`, 422, "invalid", "/conversation_history/0/content: expected a text"},
		{"POST", "/api/v1/chat", `{"message":"x","conversation_history":[{"role":"user","content":` + big + `}]}`, 413, "too_large", "1048576"},
		{"POST", "/api/v1/chat", `{"message":"x","conversation_history":[7` + strings.Repeat(",7", 2_000_000) + `]}`, 413, "too_large", "100000 values"},
		{"POST", "/api/v1/chat", `{"message":"` + strings.Repeat(`,\"[`, 200_000) + `","on_busy":"panic"}`, 422, "invalid", "/on_busy"},
		{"POST", "/api/v1/storage/vectors/embed", `{"text":""}`, 422, "invalid", "/text: is empty"},
		{"POST", "/api/v1/storage/vectors/embed", `{"text":` + big + `}`, 413, "too_large", ""},
		{"POST", "/api/v1/accounts", `{"email":"nonsense","password":"short"}`, 422, "invalid", "e-mail"},
		{"POST", "/api/v1/accounts", `{"email":"Ann <ann@example.org>","password":"long enough"}`, 422, "invalid", "/email"},
		{"POST", "/api/v1/accounts", `{"email":"ann@example.com","password":"another password"}`, 409, "email_taken", ""},
		{"POST", "/api/v1/sessions", `{"email":"ann@example.com","password":"wrong password"}`, 401, "bad_credentials", ""},
		{"POST", "/api/v1/sessions", `{"email":"nobody@example.com","password":"wrong password"}`, 401, "bad_credentials", ""},
		{"POST", "/api/v1/sessions", `{"email":"","password":""}`, 401, "bad_credentials", ""},
		{"POST", "/api/v1/sessions", `{}`, 422, "invalid", "/email: is missing"},
		{"POST", "/api/v1/sessions", `{"email":"ann@example.com"}`, 422, "invalid", "/password: is missing"},
		{"POST", "/api/v1/sessions", `{"email":null,"password":7}`, 422, "invalid", "/email: expected a text, got null"},
		{"POST", "/api/v1/sessions/refresh", `{}`, 422, "invalid", "/refresh_token: is missing"},
		{"POST", "/api/v1/sessions/refresh", `{"refresh_token":"nonsense"}`, 401, "unauthorized", ""},
		{"GET", "/problems/nothing", "", 404, "not_found", ""},
	}
	for _, c := range cases {
		var body any
		if c.body != "" || c.method == "POST" && c.status == 400 {
			body = c.body
		}
		got := ann.do(c.method, c.path, body).problem(c.status, c.code)
		if !strings.Contains(got.text("detail"), c.says) {
			t.Errorf("%s %.80s: %q does not say %q", got.what, c.body, got.text("detail"), c.says)
		}
		if strings.Contains(string(got.raw), "xxxxxxxx") {
			t.Errorf("%s: the problem repeats the input", got.what)
		}
	}

	t.Run("all faults are told at once, and nothing that was sent", func(t *testing.T) {
		got := ann.post("/api/v1/chat", `{"message":"","on_busy":"secretly","timezone":"secret/zone","conversation_history":[{"role":"secret","content":7},{"role":"user"}],
			"session_id":"","a/b~c":"secret"}`, header{"Idempotency-Key", strings.Repeat("k", 201)}).problem(422, "invalid")
		var at []string
		for _, fault := range got.list("errors") {
			at = append(at, fault["pointer"].(string))
		}
		want := []string{"Idempotency-Key", "/a~1b~0c", "/conversation_history/0/content", "/conversation_history/0/role", "/conversation_history/1/content",
			"/message", "/on_busy", "/session_id", "/timezone"}
		if !slices.Equal(at, want) || strings.Contains(string(got.raw), "secret") {
			t.Errorf("faults at %v, want %v: %s", at, want, got.raw)
		}
		got = ann.get("/api/v1/threads/x/timeline?limit=-1&steps=secret&direction=secret&secret_x=1").problem(422, "invalid")
		if len(got.list("errors")) != 4 || strings.Contains(strings.ReplaceAll(string(got.raw), "secret_x", ""), "secret") {
			t.Errorf("faults %s", got.raw)
		}
	})
	t.Run("whatever is sent, a problem is small", func(t *testing.T) {
		history := `{"message":"x","conversation_history":[%s]}`
		valid, unknown := `{"role":"user","content":"x"}`, strings.Builder{}
		for i := range 6000 {
			fmt.Fprintf(&unknown, `"%x":0,`, i)
		}
		for name, c := range map[string]struct {
			path, body string
			faults     int // 0: as many as are told
		}{
			"lists":    {"/api/v1/chat", fmt.Sprintf(history, "7"+strings.Repeat(",7", 90_000)), 0},
			"NULs":     {"/api/v1/chat", fmt.Sprintf(history, `"\u0000"`+strings.Repeat(`,"\u0000"`, 90_000)), 0},
			"fields":   {"/api/v1/sessions", "{" + unknown.String() + `"email":"x","password":"x"}`, 0},
			"a late 1": {"/api/v1/chat", fmt.Sprintf(history, valid+strings.Repeat(","+valid, 1000)+",7"), 1},
		} {
			began := time.Now()
			got := ann.post(c.path, c.body).problem(422, "invalid")
			if n := len(got.list("errors")); c.faults > 0 && n != c.faults || n == 0 || len(got.raw) > 16<<10 {
				t.Errorf("%s: %d faults in %d bytes: %.200s", name, n, len(got.raw), got.raw)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
		}
	})
	t.Run("media types and keys", func(*testing.T) {
		ann.post("/api/v1/threads", `{}`, header{"Content-Type", "text/plain"}).problem(415, "unsupported_media_type")
		ann.post("/api/v1/threads", `{}`, header{"Content-Type", "application/json; charset=latin1"}).problem(415, "unsupported_media_type")
		ann.post("/api/v1/threads", `{}`, header{"Content-Type", "application/json; charset=UTF-8"}).want(201)
		ann.post("/api/v1/threads", `{}`, header{"Idempotency-Key", strings.Repeat("k", 201)}).problem(422, "invalid")
		ann.post("/api/v1/threads", `{}`, header{"Idempotency-Key", "ümlaut"}).problem(422, "invalid")
	})
	t.Run("problem types are served", func(t *testing.T) {
		got := r.nobody().get("/problems/behind").want(200)
		if got.text("title") == "" || got.text("about") == "" || got.at("status") != 503.0 {
			t.Errorf("problem type %s", got.raw)
		}
	})
	t.Run("request ids", func(t *testing.T) {
		if got := ann.get("/api/v1/nothing", header{"X-Request-Id", "mine-1"}); got.header.Get("X-Request-Id") != "mine-1" || got.text("traceId") != "mine-1" {
			t.Errorf("request id %v", got.header)
		}
		if got := ann.get("/api/v1/me", header{"X-Request-Id", "evil id\tx"}); got.header.Get("X-Request-Id") == "evil id\tx" {
			t.Error("an impossible request id was taken")
		}
	})
}

func TestRatesAreLimited(t *testing.T) {
	t.Parallel()
	r := newRing(t, func(c *rest.Config) {
		c.Limits = rest.Limits{Commands: 0.1, CommandBurst: 3, Sessions: 0.1, SessionBurst: 3}
	})
	ann, bob := r.user("ann"), r.user("bob")
	for range 3 {
		ann.post("/api/v1/storage/vectors/embed", `{"text":"x"}`).want(200)
	}
	got := ann.post("/api/v1/storage/vectors/embed", `{"text":"x"}`).problem(429, "rate_limited")
	if got.header.Get("Retry-After") == "" || !strings.HasPrefix(got.header.Get("RateLimit"), `"commands";r=0`) {
		t.Errorf("headers %v", got.header)
	}
	ann.get("/api/v1/me").want(200) // reads go on
	bob.post("/api/v1/storage/vectors/embed", `{"text":"x"}`).want(200)
	bob.post("/api/v1/sessions", `{"email":"bob@example.com","password":"wrong password"}`).problem(401, "bad_credentials")
	bob.post("/api/v1/sessions", map[string]string{"email": bob.email, "password": bob.password}).problem(429, "rate_limited")
}

func TestSessions(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	in := ann.post("/api/v1/sessions", map[string]string{"email": ann.email, "password": ann.password}).want(200)
	if in.text("account", "user_id") != ann.account || in.text("account", "tier") != "free" || in.header.Get("Cache-Control") != "no-store" {
		t.Errorf("logged in %s", in.raw)
	}
	next := ann.post("/api/v1/sessions/refresh", map[string]string{"refresh_token": in.text("refresh_token")}).want(200)
	ann.token = next.text("access_token")
	if me := ann.get("/api/v1/me").want(200); me.text("user_id") != ann.account || me.text("scope") != ann.scope {
		t.Errorf("me %s", me.raw)
	}
	ann.do("DELETE", "/api/v1/sessions", map[string]string{"refresh_token": next.text("refresh_token")}).want(204)
	ann.do("DELETE", "/api/v1/sessions", map[string]string{"refresh_token": "nonsense"}).want(204)
	ann.post("/api/v1/sessions/refresh", map[string]string{"refresh_token": next.text("refresh_token")}).problem(401, "unauthorized")
	ticket := ann.post("/api/v1/ws/tickets", nil).want(201)
	if at, err := time.Parse(time.RFC3339, ticket.text("expires_at")); err != nil || time.Until(at) > 31*time.Second || ticket.text("ticket") == "" {
		t.Errorf("ticket %s", ticket.raw)
	}
	r.nobody().get("/healthz").want(200)
	r.nobody().get("/readyz?verbose").want(200)
}
