package rest_test

import (
	"net/http"
	"testing"
)

// What is left of an erased account is shown to nobody, though its access token lives on for a while.
func TestNothingIsShownOfAnErasedAccount(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	thread := r.thread(ann, "Plans").text("id")
	chat := ann.post("/api/v1/chat", `{"message":"hello","session_id":"`+thread+`"}`, header{"Idempotency-Key", "hello"}).want(http.StatusOK)
	ann.do("DELETE", "/api/v1/me", nil).want(http.StatusNoContent)
	of, run := "/api/v1/threads/"+thread, "/api/v1/runs/"+chat.text("run_id")
	for _, path := range []string{
		"/api/v1/me", "/api/v1/threads", of, of + "/timeline", of + "/timeline?limit=0", of + "/head", of + "/last", of + "/last-message",
		of + "/runs", run, "/api/v1/requests/hello", "/api/v1/devices", "/api/v1/events", "/api/v1/effects",
	} {
		ann.get(path).problem(http.StatusGone, "scope_erased")
	}
	ann.post("/api/v1/threads", `{}`).problem(http.StatusGone, "scope_erased")
	ann.post("/api/v1/chat", `{"message":"hello"}`).problem(http.StatusGone, "scope_erased")
	ann.do("POST", run+"/cancel", nil).problem(http.StatusGone, "scope_erased")
	ann.do("POST", "/api/v1/ws/tickets", nil).problem(http.StatusUnauthorized, "unauthorized")
	ann.do("DELETE", "/api/v1/me", nil).want(http.StatusNoContent) // again is the same
}
