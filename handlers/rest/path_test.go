package rest_test

import (
	"net/http"
	"net/url"
	"testing"
)

// Clients choose their request ids: each is found again, whatever characters it has.
func TestARequestIsFoundByTheIDThatItCameUnder(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	for _, id := range []string{"plain", "a b", "a/b", "100%", "a%2Fb", "?x=1", "#1", "a+b;c"} {
		done := ann.post("/api/v1/chat", `{"message":"hello"}`, header{"Idempotency-Key", id}).want(http.StatusOK)
		found := ann.get("/api/v1/requests/" + url.PathEscape(id) + "?min_position=" + url.QueryEscape(done.header.Get("Position"))).want(http.StatusOK)
		if found.at("committed") != true || found.text("run_id") != done.text("run_id") || found.text("request_id") != id {
			t.Errorf("%q: %s", id, found.raw)
		}
	}
	opened := r.thread(ann, "Plans")
	thread := opened.text("id")
	ann.see("/api/v1/threads/%"+hex(thread[0])+thread[1:], opened).want(http.StatusOK)
}

func hex(b byte) string { return string("0123456789ABCDEF"[b>>4]) + string("0123456789ABCDEF"[b&15]) }
