package rest_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/rest"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/streams"
)

// reads are all reads that take min_position, of something that the caller has, and the models that each looks at.
func reads(u *user, thread, run string) map[string][]string {
	of := "/api/v1/threads/" + thread
	all := map[string][]string{}
	for _, one := range []struct {
		models []string
		paths  []string
	}{
		{[]string{events.Name}, []string{"/api/v1/me", "/api/v1/events", of + "/timeline", of + "/head", of + "/last", of + "/last-message", of + "?at=1",
			"/api/v1/scopes/" + u.scope, "/api/v1/scopes/" + u.scope + "?at=1", "/api/v1/streams/thread-" + thread + "/events"}},
		{[]string{threads.Name, events.Name}, []string{"/api/v1/threads", of}},
		{[]string{threads.Name, runs.Name}, []string{of + "/runs"}},
		{[]string{runs.Name, events.Name}, []string{"/api/v1/runs/" + run}},
		{[]string{runs.Name}, []string{"/api/v1/runs?agent=task_agent", "/api/v1/requests/x", "/api/v1/runs/" + run + "/events"}},
		{[]string{devices.Name, events.Name}, []string{"/api/v1/devices", "/api/v1/devices/laptop"}},
		{[]string{requests.Name, devices.Name}, []string{"/api/v1/devices/laptop/data-requests", "/api/v1/devices/laptop/mutations"}},
		{[]string{openeffects.Name}, []string{"/api/v1/effects"}},
	} {
		for _, path := range one.paths {
			all[path] = one.models
		}
	}
	return all
}

// from is a path with a min_position.
func from(path, position string) string {
	if strings.Contains(path, "?") {
		return path + "&min_position=" + position
	}
	return path + "?min_position=" + position
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
	ann.device("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	for i := range 20 {
		made := r.thread(ann, "Plans")
		if got := ann.see("/api/v1/threads/"+made.text("id"), made); got.text("title") != "Plans" || got.header.Get("ETag") != made.header.Get("ETag") {
			t.Fatalf("%d: %s after %s", i, got.raw, made.raw)
		}
	}

	t.Run("every read shows at least what it was asked to", func(t *testing.T) {
		chat := ann.post("/api/v1/chat", `{"message":"hello"}`).want(http.StatusOK)
		for path := range reads(ann, chat.text("session_id"), chat.text("run_id")) {
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
		for path := range reads(ann, chat.text("session_id"), chat.text("run_id")) {
			ann.get(from(path, "nonsense")).problem(http.StatusBadRequest, "malformed_position")
			ann.get(from(path, "")).problem(http.StatusBadRequest, "malformed_position")
			ann.get(from(path, foreign.String())).problem(http.StatusBadRequest, "foreign_position")
			began := time.Now()
			got := ann.get(from(path, beyond.String())).problem(http.StatusConflict, "position_unknown")
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

// pause pauses a model that probe looks at, and answers with something that was written when the engine fed it no more: the
// others have that, and it has not.
func (u *user) pause(model, probe string) (written *answer) {
	u.r.t.Helper()
	other := "/api/v1/effects"
	if model == openeffects.Name {
		other = "/api/v1/events"
	}
	check(u.r.t, projections.Pause(u.r.t.Context(), u.r.pool, model, "the test"))
	u.r.eventually("a pause that the engine has heard of", func() bool {
		written = u.r.thread(u, "Plans")
		u.see(other, written)
		return u.get(from(probe, written.header.Get("Position"))).status != http.StatusOK
	})
	return written
}

// Each read waits for every model that it looks at, and for no other: one that stands still is told by exactly the
// reads that need it.
func TestEachReadWaitsForWhatItLooksAt(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	ann.device("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	chat := ann.post("/api/v1/chat", `{"message":"hello"}`).want(http.StatusOK)
	all := reads(ann, chat.text("session_id"), chat.text("run_id"))
	question := ann.post("/api/v1/devices/laptop/data-requests", `{"action":"select","table":"tasks"}`).want(http.StatusOK)
	write := ann.post("/api/v1/devices/laptop/mutations", `{"action":"delete","table":"tasks","data":{"id":"x"}}`).want(http.StatusAccepted)
	all[question.header.Get("Location")] = []string{requests.Name, events.Name}
	all[write.header.Get("Location")] = []string{requests.Name, events.Name}

	tried := map[string]bool{}
	for path := range all {
		template, _ := r.says.operation(http.MethodGet, path)
		tried[template] = true
	}
	for path, item := range r.says.Paths.Map() {
		if op := item.Get; op != nil && op.Parameters.GetByInAndName("query", "min_position") != nil && !tried[path] {
			t.Errorf("nobody says what GET %s looks at: give it a line above", path)
		}
	}
	for _, model := range []string{events.Name, threads.Name, runs.Name, devices.Name, requests.Name, openeffects.Name} {
		paths := slices.Sorted(maps.Keys(all))
		probe := paths[slices.IndexFunc(paths, func(path string) bool { return slices.Contains(all[path], model) })]
		written := ann.pause(model, probe)
		for path, models := range all {
			got := ann.get(from(path, written.header.Get("Position")))
			if slices.Contains(models, model) {
				if got.problem(http.StatusServiceUnavailable, "paused"); !strings.Contains(got.text("detail"), "read model "+model+" ") {
					t.Errorf("%s paused: %s says %s", model, path, got.raw)
				}
			} else if got.status != http.StatusOK {
				t.Errorf("%s paused: %s does not look at it, and answers %d %s", model, path, got.status, got.raw)
			}
		}
		check(t, projections.Resume(t.Context(), r.pool, model))
		r.eventually("a model that goes on", func() bool {
			return ann.get(from(probe, written.header.Get("Position"))).status == http.StatusOK
		})
	}
}

// A record that is behind its events has not the ETag of the newest: who kept it under that would never see the end.
func TestARecordThatIsBehindIsNotKept(t *testing.T) {
	t.Parallel()
	r := newRing(t, func(c *rest.Config) { c.Limits.ChatWait = 200 * time.Millisecond })
	ann := r.user("ann")
	_, leave := ann.visitor("laptop")
	r.eventually("a known device", func() bool { return len(ann.get("/api/v1/devices").list("data")) == 1 })
	leave()
	r.eventually("a device that is away", func() bool { return ann.get("/api/v1/devices/laptop").at("online") == false })
	accepted := ann.post("/api/v1/chat", `{"message":"How many todo tasks do I have?"}`).want(http.StatusAccepted)
	path := "/api/v1/runs/" + accepted.text("run_id")
	r.eventually("a run that waits", func() bool { return ann.see(path, accepted).text("status") == "waiting" })
	weak := header{"If-None-Match", "W/" + ann.get(path).want(http.StatusOK).header.Get("ETag")}
	ann.get(path, weak).want(http.StatusNotModified)

	ann.pause(runs.Name, path)
	cancelled := ann.post(path+"/cancel", nil).want(http.StatusOK)
	ann.see("/api/v1/events", cancelled)
	if got := ann.get(path).want(http.StatusOK); got.text("status") != "waiting" || got.header.Get("ETag") != "" {
		t.Errorf("it is %s under %s", got.text("status"), got.header.Get("ETag"))
	}
	check(t, projections.Resume(t.Context(), r.pool, runs.Name))
	r.eventually("a record of the end", func() bool { return ann.get(path).text("status") == "cancelled" })
	if got := ann.get(path, weak).want(http.StatusOK); got.header.Get("ETag") == "" {
		t.Error("the end has no ETag")
	}

	titled := r.thread(ann, "Plans")
	of := "/api/v1/threads/" + titled.text("id")
	ann.see(of, titled)
	ann.pause(events.Name, "/api/v1/me")
	ann.do(http.MethodPatch, of, map[string]string{"title": "Other plans"}).want(http.StatusOK)
	r.eventually("a thread whose title is not there yet", func() bool { return ann.get(of).at("title") == nil })
	if got := ann.get(of).want(http.StatusOK); got.header.Get("ETag") != "" {
		t.Errorf("%s under %s", got.raw, got.header.Get("ETag"))
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
	ann.pause(threads.Name, "/api/v1/threads")
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
