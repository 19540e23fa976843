package rest_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/streams"
)

func TestARunThatWaits(t *testing.T) {
	t.Parallel()
	r := newRing(t, func(c *rest.Config) { c.Limits.ChatWait = 500 * time.Millisecond })
	ann := r.user("ann")
	_, leave := ann.visitor("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	leave()
	r.eventually("a device that is away", func() bool { return ann.get("/api/v1/devices/laptop").at("online") == false })

	body := map[string]any{"message": "How many todo tasks do I have?"}
	accepted := ann.post("/api/v1/chat", body, key(1)).want(http.StatusAccepted)
	run := accepted.text("run_id")
	if accepted.header.Get("Location") != "/api/v1/runs/"+run || accepted.text("status") != "running" {
		t.Errorf("accepted %v %s", accepted.header, accepted.raw)
	}
	r.eventually("a run that waits", func() bool { return ann.see("/api/v1/runs/"+run, accepted).text("status") == "waiting" })
	open := ann.get("/api/v1/effects").want(http.StatusOK).list("data")
	if len(open) != 1 || open[0]["kind"] != "device" || open[0]["device_id"] != "laptop" || open[0]["run_id"] != run {
		t.Errorf("open effects %v", open)
	}
	busy := map[string]any{"message": "and another", "session_id": accepted.text("session_id"), "on_busy": "refuse"}
	ann.post("/api/v1/chat", busy).problem(http.StatusConflict, "busy")

	r.user("bob").post("/api/v1/runs/"+run+"/cancel", nil).problem(http.StatusNotFound, "not_found")
	cancelled := ann.post("/api/v1/runs/"+run+"/cancel", nil).want(http.StatusOK)
	if got := ann.see("/api/v1/runs/"+run, cancelled); got.text("status") != "cancelled" {
		t.Errorf("run %s", got.raw)
	}
	if got := ann.see("/api/v1/effects", cancelled).list("data"); len(got) != 0 {
		t.Errorf("open effects %v", got)
	}
	again := ann.post("/api/v1/chat", body, key(1)).problem(http.StatusConflict, "run_cancelled")
	if again.text("run_id") != run {
		t.Errorf("again %s", again.raw)
	}
}

// failing is an asker that fails on demand.
type failing struct {
	streams.Asker
	err atomic.Pointer[error]
}

func (f *failing) Ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	if err := f.err.Load(); err != nil {
		return streams.Answer{}, *err
	}
	return f.Asker.Ask(ctx, c)
}

func TestEveryAnswerOfTheLogHasItsProblem(t *testing.T) {
	t.Parallel()
	asker := &failing{}
	r := newRing(t, func(c *rest.Config) { asker.Asker, c.Asker = c.Asker, asker })
	ann := r.user("ann")
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{&streams.Busy{Reason: "too much", RetryAfter: 2500 * time.Millisecond}, 429, "overloaded", "3"},
		{streams.ErrOutcomeUnknown, 504, "outcome_unknown", "1"},
		{domain.Reject(domain.CodeIDReused, "another request"), 422, "id_reused", ""},
		{domain.Reject(domain.CodeScopeErased, "gone"), 410, "scope_erased", ""},
		{domain.Reject(domain.CodeTooLarge, "over the limit"), 413, "too_large", ""},
		{domain.Reject(domain.CodeInternal, "a panic"), 500, "internal", ""},
		{domain.Reject("queue_full", "100 wait"), 409, "queue_full", ""},
		{domain.Reject("never_heard_of", "no"), 409, "never_heard_of", ""},
		{errors.New("the broker is away"), 503, "unavailable", "2"},
	} {
		asker.err.Store(&c.err)
		got := ann.post("/api/v1/threads", `{}`)
		got.want(c.status)
		if got.text("code") != c.code || got.header.Get("Retry-After") != c.retry {
			t.Errorf("%v: %s, Retry-After %q", c.err, got.raw, got.header.Get("Retry-After"))
		}
	}
	asker.err.Store(nil)
	ann.post("/api/v1/threads", `{}`).want(http.StatusCreated)
}
