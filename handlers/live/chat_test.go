package live_test

import (
	"testing"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

// TestARequestIsToldToItsEnd: text while it is written, then the end, and each carries the request's id.
func TestARequestIsToldToItsEnd(t *testing.T) {
	r := newRing(t, live.Timing{})
	c := r.device("ada", "laptop", nil)
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Hello"})
	start := c.expect("stream_start")
	run := r.of("ada", "r1")
	if start.text("request_id") != "r1" || start.text("run_id") != run.run || start.text("session_id") != run.thread {
		t.Fatalf("started with %v", start)
	}
	run.route("task_agent")
	await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run })
	run.say(1, 1, 1, 0, "Hel")
	if f := c.expect("stream_text"); f.text("chunk") != "Hel" {
		t.Fatalf("got %v", f)
	}
	run.turn(1, 1, "Hello there")
	if f := c.expect("stream_text"); f.text("chunk") != "lo there" {
		t.Fatalf("got %v", f)
	}
	if f := c.expect("stream_end"); f["error"] != nil || f["mutations"] == nil {
		t.Fatalf("got %v", f)
	}
	c.alive()
}
