package rest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/cairnhq/cairn/handlers/rest"
)

// TestAThreadAsItWas: each seq answers with what the thread was then; the newest with what it is.
func TestAThreadAsItWas(t *testing.T) {
	r := newRing(t)
	ann, bob := r.user("ann"), r.user("bob")
	ann.device("laptop")
	opened := ann.post("/api/v1/threads", map[string]string{"title": "First plan"}).want(http.StatusCreated)
	thread := opened.text("id")
	path := "/api/v1/threads/" + thread
	ann.post("/api/v1/chat", map[string]string{"message": "Create a task called Buy milk", "session_id": thread}).want(http.StatusOK)
	renamed := ann.do(http.MethodPatch, path, map[string]string{"title": "Second plan"}).want(http.StatusOK)
	now := ann.see(path, renamed)
	head := uint64(now.at("version").(float64))

	var messages float64
	titles, runs := map[string]int{}, 0
	for seq := uint64(1); seq <= head; seq++ {
		then := ann.get(fmt.Sprintf("%s?at=%d", path, seq)).want(http.StatusOK)
		if uint64(then.at("version").(float64)) != seq || then.header.Get("ETag") != fmt.Sprintf(`"v%d"`, seq) {
			t.Fatalf("at %d: %s, ETag %s", seq, then.raw, then.header.Get("ETag"))
		}
		if got := then.at("messages").(float64); got < messages {
			t.Fatalf("at %d there are %v messages, before there were %v", seq, got, messages)
		} else {
			messages = got
		}
		titles[then.text("title")]++
		if then.text("active_run") != "" {
			runs++
		}
	}
	if titles[""] != 1 || titles["First plan"] < 5 || titles["Second plan"] != 1 || messages != 1 || runs < 5 {
		t.Fatalf("titles %v, %v messages, active in %d of %d states", titles, messages, runs, head)
	}
	last := ann.get(fmt.Sprintf("%s?at=%d", path, head)).want(http.StatusOK)
	if string(last.raw) != string(now.raw) {
		t.Fatalf("the newest state is %s, and the thread is %s", last.raw, now.raw)
	}
	ann.get(fmt.Sprintf("%s?at=%d", path, head), header{"If-None-Match", last.header.Get("ETag")}).want(http.StatusNotModified)
	for _, at := range []string{fmt.Sprint(head + 1), "0", "-1", "x"} {
		ann.get(path+"?at="+at).problem(http.StatusUnprocessableEntity, "invalid")
	}
	bob.get(path+"?at=1").problem(http.StatusNotFound, "not_found")
}

// TestAnAccountAsItWas: at 0 there is nothing, at the head what there is, and in between what was then.
func TestAnAccountAsItWas(t *testing.T) {
	r := newRing(t)
	ann, bob := r.user("ann"), r.user("bob")
	ann.device("laptop")
	chat := ann.post("/api/v1/chat", map[string]string{"message": "Create a task called Buy milk"}).want(http.StatusOK)
	path := "/api/v1/scopes/" + ann.scope
	now := ann.see(path, chat)
	if now.at("counts", "threads") != 1.0 || now.at("counts", "devices") != 1.0 || now.at("counts", "runs").(map[string]any)["completed"] != 1.0 ||
		now.at("counts", "open_effects") != 0.0 || len(now.list("open_runs")) != 0 || now.at("scope") != ann.scope {
		t.Fatalf("the account is %s", now.raw)
	}
	nothing := ann.get(path + "?at=0").want(http.StatusOK)
	if nothing.at("position") != 0.0 || nothing.at("at") != nil || nothing.at("counts", "threads") != 0.0 {
		t.Fatalf("at 0: %s", nothing.raw)
	}
	open, running := 0, 0
	head := uint64(now.at("position").(float64))
	for at := uint64(1); at <= head; at++ {
		then := ann.get(fmt.Sprintf("%s?at=%d", path, at)).want(http.StatusOK)
		open, running = open+len(then.list("open_effects")), running+len(then.list("open_runs"))
		if then.at("position") != float64(at) || then.text("at") == "" {
			t.Fatalf("at %d: %s", at, then.raw)
		}
	}
	if open < 3 || running < 5 {
		t.Fatalf("in %d states %d effects were open, and %d runs", head, open, running)
	}
	ann.get(fmt.Sprintf("%s?at=%d", path, head+1)).problem(http.StatusUnprocessableEntity, "invalid")
	bob.get(path).problem(http.StatusNotFound, "not_found")
}

// TestTheRunsOfAnAgentAreListed, page by page, over all threads, and only one's own.
func TestTheRunsOfAnAgentAreListed(t *testing.T) {
	r := newRing(t)
	ann, bob := r.user("ann"), r.user("bob")
	ann.device("laptop")
	var last *answer
	for i := range 3 {
		last = ann.post("/api/v1/chat", map[string]string{"message": fmt.Sprintf("Create a task called Errand %d", i)}).want(http.StatusOK)
	}
	agent := last.text("agent")
	first := ann.see("/api/v1/runs?limit=2&agent="+agent, last)
	second := ann.get(first.header.Get("Link")[1 : len(first.header.Get("Link"))-len(`>; rel="next"`)]).want(http.StatusOK)
	if len(first.list("data")) != 2 || len(second.list("data")) != 1 || second.at("nextCursor") != nil || first.list("data")[0]["id"] != last.text("run_id") {
		t.Fatalf("two pages: %s, %s", first.raw, second.raw)
	}
	if none := bob.get("/api/v1/runs?agent=" + agent).want(http.StatusOK); len(none.list("data")) != 0 {
		t.Fatalf("bob sees %s", none.raw)
	}
	ann.get("/api/v1/runs").problem(http.StatusUnprocessableEntity, "invalid")
	ann.get("/api/v1/runs?agent="+agent+"&cursor=x").problem(http.StatusUnprocessableEntity, "invalid")
}

// TestWhoIsTooFarBehindIsTold to begin anew, and from where.
func TestWhoIsTooFarBehindIsTold(t *testing.T) {
	r := newRing(t, func(c *rest.Config) { c.CatchUp = 5 })
	ann := r.user("ann")
	ann.device("laptop")
	chat := ann.post("/api/v1/chat", map[string]string{"message": "Create a task called Buy milk"}).want(http.StatusOK)
	ann.see("/api/v1/threads", chat)
	told := ann.get("/api/v1/events?after=0").problem(http.StatusGone, "reset")
	head, oldest := told.at("numbers", "head").(float64), told.at("numbers", "oldest").(float64)
	if head-oldest != 5 || told.at("numbers", "after") != 0.0 {
		t.Fatalf("told %s", told.raw)
	}
	if ok := ann.get(fmt.Sprintf("/api/v1/events?after=%.0f", oldest)).want(http.StatusOK); len(ok.list("data")) != 5 {
		t.Fatalf("from there on: %s", ok.raw)
	}
	ann.get(fmt.Sprintf("/api/v1/events?after=%.0f", oldest-1)).problem(http.StatusGone, "reset")
}
