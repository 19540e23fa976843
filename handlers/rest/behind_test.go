package rest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/streams"
)

// reads are all reads that take min_position, of something that the caller has.
func reads(thread, run string) []string {
	of := "/api/v1/threads/" + thread
	return []string{"/api/v1/me", "/api/v1/threads", of, of + "/timeline", of + "/head", of + "/last", of + "/last-message", of + "/runs",
		"/api/v1/runs/" + run, "/api/v1/requests/x", "/api/v1/devices", "/api/v1/events", "/api/v1/effects"}
}

func position(t *testing.T, a *answer) streams.Position {
	t.Helper()
	p, err := streams.ParsePosition(a.header.Get("Position"))
	check(t, err)
	return p
}

func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	for i := range 20 {
		made := r.thread(ann, "Plans")
		if got := ann.see("/api/v1/threads/"+made.text("id"), made); got.text("title") != "Plans" || got.header.Get("ETag") != made.header.Get("ETag") {
			t.Fatalf("%d: %s after %s", i, got.raw, made.raw)
		}
	}

	t.Run("every read shows at least what it was asked to", func(t *testing.T) {
		chat := ann.post("/api/v1/chat", `{"message":"hello"}`).want(http.StatusOK)
		for _, path := range reads(chat.text("session_id"), chat.text("run_id")) {
			made := r.thread(ann, "Plans")
			want := position(t, made)
			if got := position(t, ann.see(path, made)); got.Position < want.Position || string(got.Scope) != ann.scope {
				t.Errorf("%s shows %+v, not %+v", path, got, want)
			}
		}
	})

	t.Run("no read takes a position that is none, or another's, or beyond the log", func(t *testing.T) {
		chat := ann.post("/api/v1/chat", `{"message":"hello"}`).want(http.StatusOK)
		beyond := position(t, chat)
		beyond.Position, beyond.Offset = beyond.Position+1000, beyond.Offset+1000
		foreign := streams.Position{Scope: domain.User("somebody"), Position: 1, Era: 1}
		for _, path := range reads(chat.text("session_id"), chat.text("run_id")) {
			ann.get(path+"?min_position=nonsense").problem(http.StatusBadRequest, "malformed_position")
			ann.get(path+"?min_position=").problem(http.StatusBadRequest, "malformed_position")
			ann.get(path+"?min_position="+foreign.String()).problem(http.StatusBadRequest, "foreign_position")
			began := time.Now()
			got := ann.get(path+"?min_position="+beyond.String()).problem(http.StatusConflict, "position_unknown")
			if took := time.Since(began); took > time.Second || got.text("min_position") != beyond.String() || got.text("position") == "" {
				t.Errorf("%s: after %v: %s", path, took, got.raw)
			}
		}
	})
}

// A read waits for the projector, is woken by it, and does not wait for ever.
func TestAReadModelThatIsBehind(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	first := r.thread(ann, "Plans")
	ann.see("/api/v1/threads", first)
	tx, err := r.pool.Begin(t.Context())
	check(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), `SELECT FROM projection_checkpoints WHERE projection = 'threads' FOR UPDATE`)
	check(t, err)

	made := r.thread(ann, "More plans")
	began := time.Now()
	got := ann.get("/api/v1/threads?min_position="+made.header.Get("Position")).problem(http.StatusServiceUnavailable, "behind")
	if took := time.Since(began); took < time.Second || took > 8*time.Second || got.header.Get("Retry-After") != "1" {
		t.Errorf("after %v: %v", took, got.header)
	}
	reached, err := streams.ParsePosition(got.text("position"))
	check(t, err)
	if want := position(t, first); got.text("min_position") != made.header.Get("Position") || reached != want {
		t.Errorf("it reached %+v, which is %+v, in %s", reached, want, got.raw)
	}
	if got := ann.get("/api/v1/threads").want(http.StatusOK); len(got.list("data")) != 1 || position(t, got) != (streams.Position{Scope: reached.Scope}) && position(t, got).Position > reached.Position {
		t.Errorf("without a position: %s at %s", got.raw, got.header.Get("Position"))
	}

	shown := make(chan *answer, 1)
	go func() { shown <- ann.get("/api/v1/threads?min_position=" + made.header.Get("Position")) }()
	check(t, tx.Rollback(t.Context()))
	if got := <-shown; got.status != http.StatusOK || len(got.list("data")) != 2 {
		t.Errorf("when it went on: %d %s", got.status, got.raw)
	}
}

func TestAModelThatStandsStillSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	first := r.thread(ann, "Plans")
	ann.see("/api/v1/threads", first)

	wants := func(code string, after, want streams.Position) {
		t.Helper()
		began := time.Now()
		got := ann.get("/api/v1/threads?min_position="+want.String()).problem(http.StatusServiceUnavailable, code)
		reached, err := streams.ParsePosition(got.text("position"))
		if took := time.Since(began); took > time.Second || got.header.Get("Retry-After") != "30" || got.text("min_position") != want.String() || err != nil ||
			reached.Position < after.Position || reached.Position >= want.Position {
			t.Errorf("after %v: %v %s", took, got.header, got.raw)
		}
		ann.get("/api/v1/threads").want(http.StatusOK) // what it has it still gives
	}
	check(t, projections.Pause(t.Context(), r.pool, threads.Name, "the test"))
	r.eventually("a pause that the engine has heard of", func() bool {
		made := r.thread(ann, "Plans")
		got := ann.get("/api/v1/threads?min_position=" + made.header.Get("Position"))
		if got.status == http.StatusOK {
			first = made
		}
		return got.status != http.StatusOK
	})
	made := r.thread(ann, "More plans")
	wants("paused", position(t, first), position(t, made))
	ann.see("/api/v1/events", made) // the others go on
	check(t, projections.Resume(t.Context(), r.pool, threads.Name))
	r.eventually("a model that goes on", func() bool {
		return ann.get("/api/v1/threads?min_position="+made.header.Get("Position")).status == http.StatusOK
	})

	_, err := r.pool.Exec(t.Context(), `UPDATE projection_checkpoints SET stopped_at = cairn_now(), stopped_offset = next_offset,
		stopped_event = 'an event', stopped_reason = 'the test' WHERE projection = 'threads'`)
	check(t, err)
	next := position(t, made)
	next.Position, next.Offset = next.Position+100, next.Offset+100 // what comes next
	wants("stopped", position(t, made), next)
}
