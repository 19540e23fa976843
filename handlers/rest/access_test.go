package rest_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/streams"
)

// who are those that come to a route.
type who int

const (
	owner  who = iota // of what the path names
	other             // another account
	nobody            // without a token, or with one that is none
)

// access is a request that is good for the owner of what its path names, and what each who comes is answered.
// A route of the document that has none fails the test. Ids stand for what ann has: {thread}, {run}, {device}.
type access struct {
	method, path, body string
	answers            map[who]int
}

// private is for things of one account: for others they do not exist.
func private(method, path, body string, status int) access {
	return access{method, path, body, map[who]int{owner: status, other: http.StatusNotFound, nobody: http.StatusUnauthorized}}
}

// own is for what each account has of its own: the same question, another answer.
func own(method, path, body string, status int) access {
	return access{method, path, body, map[who]int{owner: status, other: status, nobody: http.StatusUnauthorized}}
}

// public is for everybody.
func public(method, path, body string, status int) access {
	return access{method, path, body, map[who]int{owner: status, other: status, nobody: status}}
}

func accesses() []access {
	return []access{
		public("POST", "/api/v1/accounts", `{"email":"ann@example.com","password":"correct horse ann"}`, 409),
		public("POST", "/api/v1/sessions", `{"email":"ann@example.com","password":"correct horse ann"}`, 200),
		public("POST", "/api/v1/sessions/refresh", `{"refresh_token":"nonsense"}`, 401),
		public("DELETE", "/api/v1/sessions", `{"refresh_token":"nonsense"}`, 204),
		public("GET", "/healthz", "", 200),
		public("GET", "/readyz", "", 200),
		public("GET", "/problems/behind", "", 200),
		public("GET", "/", "", 200),
		public("GET", "/docs", "", 200),
		public("GET", "/docs/rapidoc.js", "", 200),
		public("GET", "/openapi.yaml", "", 200),
		public("GET", "/openapi.json", "", 200),
		public("GET", "/asyncapi.yaml", "", 200),

		own("GET", "/api/v1/me", "", 200),
		own("POST", "/api/v1/ws/tickets", "", 201),
		own("GET", "/api/v1/threads", "", 200),
		own("POST", "/api/v1/threads", `{}`, 201),
		own("GET", "/api/v1/requests/x", "", 200),
		own("GET", "/api/v1/devices", "", 200),
		own("GET", "/api/v1/events", "", 200),
		own("GET", "/api/v1/effects", "", 200),
		own("GET", "/api/v1/runs?agent=task_agent", "", 200),
		own("POST", "/api/v1/storage/vectors/embed", `{"text":"hello"}`, 200),

		private("GET", "/api/v1/threads/{thread}", "", 200),
		private("GET", "/api/v1/threads/{thread}?at=1", "", 200),
		private("GET", "/api/v1/scopes/{scope}", "", 200),
		private("GET", "/api/v1/scopes/{scope}?at=1", "", 200),
		private("PATCH", "/api/v1/threads/{thread}", `{"title":"Other plans"}`, 200),
		private("GET", "/api/v1/threads/{thread}/timeline", "", 200),
		private("GET", "/api/v1/threads/{thread}/timeline?limit=0", "", 200),
		private("GET", "/api/v1/threads/{thread}/timeline?direction=after&seq=0", "", 200),
		private("GET", "/api/v1/threads/{thread}/head", "", 200),
		private("GET", "/api/v1/threads/{thread}/last", "", 200),
		private("GET", "/api/v1/threads/{thread}/last-message", "", 200),
		private("GET", "/api/v1/threads/{thread}/runs", "", 200),
		private("POST", "/api/v1/chat", `{"message":"hello","session_id":"{thread}"}`, 200),
		private("GET", "/api/v1/runs/{run}", "", 200),
		private("GET", "/api/v1/runs/{run}/events", "", 200),
		private("POST", "/api/v1/runs/{run}/cancel", "", 409),
		private("GET", "/api/v1/streams/thread-{thread}/events", "", 200),
		private("GET", "/api/v1/devices/{device}", "", 200),
		private("GET", "/api/v1/devices/{device}/data-requests", "", 200),
		private("POST", "/api/v1/devices/{device}/data-requests", `{"action":"select","table":"tasks"}`, 200),
		private("GET", "/api/v1/devices/{device}/data-requests/{question}", "", 200),
		private("GET", "/api/v1/devices/{device}/mutations", "", 200),
		private("POST", "/api/v1/devices/{device}/mutations", `{"action":"insert","table":"tasks","data":{"title":"Plans"}}`, 202),
		private("GET", "/api/v1/devices/{device}/mutations/{write}", "", 200),
		private("POST", "/api/v1/devices/{device}/mutations/{write}/cancel", "", 409),
	}
}

func TestWhoMaySeeWhat(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann, bob := r.user("ann"), r.user("bob")
	ann.device("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	thread := r.thread(ann, "Plans").text("id")
	chat := ann.post("/api/v1/chat", `{"message":"How many todo tasks do I have?","session_id":"`+thread+`"}`).want(http.StatusOK)
	question := ann.post("/api/v1/devices/laptop/data-requests", `{"action":"select","table":"tasks"}`).want(http.StatusOK)
	write := ann.post("/api/v1/devices/laptop/mutations", `{"action":"insert","table":"tasks","data":{"title":"Plans"}}`).want(http.StatusAccepted)
	r.eventually("the write is done", func() bool { return ann.get(write.header.Get("Location")).text("status") == "completed" })
	ids := strings.NewReplacer("{thread}", thread, "{run}", chat.text("run_id"), "{device}", "laptop", "{scope}", ann.scope,
		"{question}", question.text("id"), "{write}", write.text("id"))

	seen := map[string]bool{}
	for _, one := range accesses() {
		var body any
		if one.body != "" {
			body = ids.Replace(one.body)
		}
		path := ids.Replace(one.path)
		template, op := r.says.operation(one.method, path)
		if op == nil {
			t.Errorf("%s %s is not in the document", one.method, one.path)
			continue
		}
		seen[one.method+" "+template] = true
		for _, caller := range []*user{r.nobody(), {r: r, token: "nonsense"}} {
			got := caller.do(one.method, path, body)
			if got.status != one.answers[nobody] || got.status == http.StatusUnauthorized && got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s by nobody: %d, want %d: %.300s", got.what, got.status, one.answers[nobody], got.raw)
			}
		}
		if got := bob.do(one.method, path, body); got.status != one.answers[other] {
			t.Errorf("%s by another: %d, want %d: %.300s", got.what, got.status, one.answers[other], got.raw)
		} else if text := string(got.raw); strings.Contains(text, "Plans") || strings.Contains(text, ann.scope) && !strings.Contains(text, "access_token") {
			t.Errorf("%s tells bob of ann: %s", got.what, text)
		}
		got := ann.do(one.method, path, body)
		if got.status != one.answers[owner] {
			t.Errorf("%s by the owner: %d, want %d: %.300s", got.what, got.status, one.answers[owner], got.raw)
		}
		if op.Responses.Status(got.status) != nil && op.Responses.Status(got.status).Value.Headers["Position"] != nil {
			if p, err := streams.ParsePosition(got.header.Get("Position")); err != nil || string(p.Scope) != ann.scope {
				t.Errorf("%s: Position %q: %v", got.what, got.header.Get("Position"), err)
			}
		}
	}
	for _, path := range []string{"/api/v1/threads", "/api/v1/events", "/api/v1/devices", "/api/v1/effects"} {
		if text := string(bob.get(path).raw); strings.Contains(text, thread) || strings.Contains(text, "Plans") || strings.Contains(text, ann.scope) {
			t.Errorf("%s tells bob of ann: %s", path, text)
		}
	}

	// Erasure ends all of it.
	erase := own("DELETE", "/api/v1/me", "", 204)
	r.nobody().do(erase.method, erase.path, nil).problem(erase.answers[nobody], "unauthorized")
	ann.do(erase.method, erase.path, nil).want(erase.answers[owner])
	seen[erase.method+" "+erase.path] = true
	for _, path := range []string{"/api/v1/me", "/api/v1/threads/" + thread} {
		if got := ann.get(path); got.status < 400 || strings.Contains(string(got.raw), "plans") {
			t.Errorf("after erasure %s: %d %s", path, got.status, got.raw)
		}
	}
	bob.get("/api/v1/me").want(http.StatusOK) // what bob has is there
	ann.post("/api/v1/sessions/refresh", map[string]string{"refresh_token": ann.refresh}).problem(http.StatusUnauthorized, "unauthorized")
	ann.post("/api/v1/sessions", map[string]string{"email": ann.email, "password": ann.password}).problem(http.StatusUnauthorized, "bad_credentials")

	for _, path := range slices.Sorted(maps.Keys(r.says.Paths.Map())) {
		for method := range r.says.Paths.Value(path).Operations() {
			if !seen[method+" "+path] {
				t.Errorf("nobody tried who may %s %s: give it a line above", method, path)
			}
		}
	}
}
