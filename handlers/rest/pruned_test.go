package rest_test

import (
	"fmt"
	"net/http"
	"testing"
)

// prune deletes the history of a thread as the command does: all but its newest event and that of its title.
func (r *ring) prune(u *user, thread string) {
	r.t.Helper()
	_, err := r.pool.Exec(r.t.Context(), `WITH head AS (SELECT max(version) AS version FROM events_1 WHERE scope = $1 AND stream = $2), gone AS (
			DELETE FROM events_1 e USING head WHERE e.scope = $1 AND e.stream = $2 AND e.version < head.version AND e.type <> 'thread.titled' RETURNING e.position
		) INSERT INTO event_floors SELECT 1, $1, $2, version, now() FROM head UNION ALL SELECT 1, $1, '', max(position), now() FROM gone`,
		u.scope, "thread-"+thread)
	check(r.t, err)
}

// TestAPrunedThreadSaysSoAndGoesOn: nothing answers as if what was deleted had never been, and who talks in it is answered.
func TestAPrunedThreadSaysSoAndGoesOn(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	thread := ann.post("/api/v1/threads", map[string]string{"title": "Plan"}).want(http.StatusCreated).text("id")
	say := func(key, text string) *answer {
		return ann.post("/api/v1/chat", map[string]string{"message": text, "session_id": thread}, header{"Idempotency-Key", key})
	}
	of := "/api/v1/threads/" + thread
	first := say("one", "Hello").want(http.StatusOK)
	whole := ann.see(of+"/head", first)
	if whole.at("pruned_before") != nil {
		t.Fatalf("nothing was pruned, but %s", whole.raw)
	}
	head := int(whole.at("max_seq").(float64))
	r.prune(ann, thread)

	ann.get(of+"/last-message").problem(http.StatusGone, "pruned")
	if last := ann.get(of + "/last").want(http.StatusOK); last.text("entry", "kind") != "run_end" {
		t.Fatalf("the newest entry is %s", last.raw)
	}
	ann.get(of+"?at=1").problem(http.StatusGone, "pruned")
	for _, query := range []string{"", fmt.Sprintf("?direction=before&seq=%d", head), "?direction=after&seq=0", "?limit=0"} {
		page := ann.get(of + "/timeline" + query).want(http.StatusOK)
		if page.at("window", "pruned_before") != float64(head) || page.at("has_older") != false {
			t.Errorf("timeline%s: %s", query, page.raw)
		}
	}
	if got := ann.get(of + "/head").want(http.StatusOK); got.at("pruned_before") != float64(head) {
		t.Errorf("head: %s", got.raw)
	}
	say("one", "Hello").problem(http.StatusGone, "pruned") // its answer is not told in part

	again := say("two", "Hello again").want(http.StatusOK)
	if again.text("response") == "" {
		t.Fatalf("the answer is %s", again.raw)
	}
	if told := ann.see(of+"/last-message", again); told.text("text") == "" {
		t.Errorf("the newest message is %s", told.raw)
	}
	rest := ann.get(of + "/timeline?limit=0").want(http.StatusOK)
	if entries := rest.list("entries"); entries[0]["seq"] != float64(head) || rest.at("window", "pruned_before") != float64(head) {
		t.Errorf("what there is begins with %v of %s", entries[0], rest.raw)
	}
}
