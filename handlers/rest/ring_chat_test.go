package rest_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheRingTurnsOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	ann := r.user("ann")
	d := ann.device("laptop")
	r.eventually("a device that is known", func() bool {
		list := ann.get("/api/v1/devices").want(http.StatusOK).list("data")
		return len(list) == 1 && list[0]["online"] == true && list[0]["name"] == "laptop of ann@example.com" && list[0]["timezone"] == "Europe/Berlin"
	})

	body := map[string]any{"message": "Create a task called Buy milk, high priority, due tomorrow"}
	first := ann.post("/api/v1/chat", body, key(1)).want(http.StatusOK)
	rows, err := d.Store().Rows(t.Context(), "tasks")
	check(t, err)
	if len(rows) != 1 || rows[0]["title"] != "Buy milk" || rows[0]["priority"] != "high" {
		t.Fatalf("the device has %v, the answer was %s", rows, first.raw)
	}
	if first.text("response") == "" || first.text("agent") != "task_agent" || len(first.list("mutations")) != 1 || first.at("metadata") == nil {
		t.Errorf("answered %s", first.raw)
	}
	thread, run := first.text("session_id"), first.text("run_id")

	t.Run("the same request has the same answer and is done once", func(t *testing.T) {
		again := ann.post("/api/v1/chat", body, key(1)).want(http.StatusOK)
		if again.text("run_id") != run || again.text("response") != first.text("response") || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("answered %s", again.raw)
		}
		if rows, err := d.Store().Rows(t.Context(), "tasks"); err != nil || len(rows) != 1 {
			t.Errorf("the device has %v, %v", rows, err)
		}
		ann.post("/api/v1/chat", map[string]any{"message": "something else"}, key(1)).problem(http.StatusUnprocessableEntity, "id_reused")
	})

	t.Run("the run's record is whole", func(t *testing.T) {
		got := ann.see("/api/v1/runs/"+run, first)
		if got.text("status") != "completed" || got.text("message") != body["message"] || got.text("answer") != first.text("response") ||
			got.text("session_id") != thread || got.text("device") != "laptop" {
			t.Errorf("run %s", got.raw)
		}
		calls := got.list("calls")
		if len(calls) != 1 || calls[0]["tool"] != "create_task" || calls[0]["arguments"] == nil || calls[0]["device_answer"] == nil {
			t.Errorf("calls %v", calls)
		}
		if list := ann.get("/api/v1/threads/" + thread + "/runs").want(http.StatusOK).list("data"); len(list) != 1 || list[0]["id"] != run {
			t.Errorf("runs %v", list)
		}
	})

	t.Run("it comes as it happens", func(t *testing.T) {
		got := ann.post("/api/v1/chat", map[string]any{"message": "How many todo tasks do I have?", "session_id": thread}, header{"Accept", "text/event-stream"}).want(http.StatusOK)
		if got.header.Get("Content-Type") != "text/event-stream" || got.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("headers %v", got.header)
		}
		text := string(got.raw)
		for _, name := range []string{"stream_start", "stream_text", "stream_end"} {
			if !strings.Contains(text, "event: "+name+"\ndata: {") {
				t.Errorf("no %s in %s", name, text)
			}
		}
		if strings.Count(text, "event: stream_end") != 1 || !strings.HasSuffix(text, "\n\n") || !strings.Contains(text, "1") {
			t.Errorf("streamed %s", text)
		}
	})

	t.Run("small queries", func(t *testing.T) {
		if got := ann.get("/api/v1/requests/key-1").want(http.StatusOK); got.at("committed") != true || got.text("run_id") != run || got.at("seq") == nil {
			t.Errorf("request %s", got.raw)
		}
		if got := ann.get("/api/v1/requests/key-2").want(http.StatusOK); got.at("committed") != false {
			t.Errorf("request %s", got.raw)
		}
		bob := r.user("bob")
		if got := bob.get("/api/v1/requests/key-1").want(http.StatusOK); got.at("committed") != false {
			t.Errorf("another's request %s", got.raw)
		}
		r.eventually("an end of the second run", func() bool {
			return ann.get("/api/v1/threads/"+thread+"/last").want(http.StatusOK).text("entry", "kind") == "run_end"
		})
		if got := ann.get("/api/v1/threads/" + thread + "/last-message").want(http.StatusOK); !strings.Contains(got.text("text"), "1") || strings.Contains(got.text("text"), "**") {
			t.Errorf("last message %s", got.raw)
		}
		head := ann.get("/api/v1/threads/" + thread + "/head").want(http.StatusOK)
		if head.at("max_seq").(float64)+1 != head.at("next_seq").(float64) {
			t.Errorf("head %s", head.raw)
		}
	})

	t.Run("a run waits for its device, is listed as open, and can be cancelled", func(t *testing.T) {
		carl := r.user("carl")
		carl.device("desk") // it goes on to be there, but is not asked
		r.eventually("a known device", func() bool { return len(carl.get("/api/v1/devices").list("data")) == 1 })
		if got := carl.get("/api/v1/effects").want(http.StatusOK).list("data"); len(got) != 0 {
			t.Errorf("effects %v", got)
		}
		carl.post("/api/v1/runs/"+run+"/cancel", nil).problem(http.StatusNotFound, "not_found")
		ann.post("/api/v1/runs/"+run+"/cancel", nil).problem(http.StatusConflict, "run_ended")
	})

	t.Run("nothing of it is in the log", func(t *testing.T) {
		for _, secret := range []string{"Buy milk", ann.token, ann.refresh, "correct horse", "ann@example.com"} {
			if strings.Contains(r.log.text(), secret) {
				t.Errorf("the log has %q", secret)
			}
		}
		if !strings.Contains(r.log.text(), `"route":"/api/v1/chat"`) {
			t.Errorf("no access log: %s", r.log.text())
		}
	})
}
