package live_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

func TestRequests(t *testing.T) {
	r := newRing(t, live.Timing{})
	for name, test := range map[string]func(*ring, string){
		"a request is told to its end":                      toldToItsEnd,
		"a floating request says its domain first":          floating,
		"v2 requests run one after the other":               oneAfterTheOther,
		"a failed attempt is taken back":                    takenBack,
		"a failed attempt is a line break on v2":            takenBackV2,
		"a repeated request is told whole":                  repeated,
		"a request that is repeated while it runs":          repeatedWhileRunning,
		"another body under a used id is refused":           anotherBody,
		"a cancel ends a request once":                      cancelled,
		"a cancel does not overtake its request":            cancelAtOnce,
		"requests at once do not mix":                       atOnce,
		"a session id goes on with a thread":                goesOn,
		"wrong requests are refused in words":               wrongRequests,
		"what is no request is answered and the rest lives": garbage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(r.in(t), "user"+strings.Map(letters, strings.ToLower(name)))
		})
	}
}

func letters(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
		return c
	}
	return -1
}

func toldToItsEnd(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Hello"})
	start := c.expect("stream_start")
	run := r.of(user, "r1")
	if start.text("request_id") != "r1" || start.text("run_id") != run.run || start.text("session_id") != run.thread {
		r.t.Fatalf("started with %v", start)
	}
	run.route("task_agent")
	await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run })
	run.say(1, 1, 1, 0, "Hel")
	if f := c.expect("stream_text"); f.text("chunk") != "Hel" {
		r.t.Fatalf("got %v", f)
	}
	run.turn(1, 1, "Hello there")
	if f := c.expect("stream_text"); f.text("chunk") != "lo there" {
		r.t.Fatalf("got %v", f)
	}
	if f := c.expect("stream_end"); f["error"] != nil || f["mutations"] == nil {
		r.t.Fatalf("got %v", f)
	}
	c.alive()
	posted, _ := await(r, func(e thread.MessagePosted) bool { return e.RunID == run.run })
	if posted.DeviceID != "laptop" || posted.Timezone != "Europe/Rome" || posted.Channel != thread.Home || posted.Content.Text != "Hello" {
		r.t.Fatalf("posted %+v", posted)
	}
}

func floating(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	c.send(frame{"type": "floating_request", "request_id": "r1", "message": "What is it about?", "scope": frame{"type": "note", "id": "n1"}})
	run := r.of(user, "r1")
	run.route("note_agent")
	if f := c.expect("floating_domain"); f.text("domain") != "notes" || f.text("request_id") != "r1" {
		r.t.Fatalf("got %v", f)
	}
	run.turn(1, 1, "Notes.")
	if text, end := c.story("r1"); text != "Notes." || end["error"] != nil {
		r.t.Fatalf("told %q, %v", text, end)
	}
	posted, _ := await(r, func(e thread.MessagePosted) bool { return e.RunID == run.run })
	if posted.Focus == nil || posted.Focus.Type != "note" || posted.Focus.ID != "n1" {
		r.t.Fatalf("posted %+v", posted)
	}
}

func oneAfterTheOther(r *ring, user string) {
	c := r.device(user, "laptop", frame{"protocol": nil})
	for _, id := range []string{"r1", "r2"} {
		c.send(frame{"type": "chat_request", "request_id": id, "message": "Hello " + id, "context": frame{
			"conversation_history": []frame{{"role": "user", "content": "Before"}, {"role": "assistant", "content": "Yes"}}, "project_id": "p1"}})
	}
	for _, id := range []string{"r1", "r2"} {
		run := r.of(user, id)
		run.route("task_agent")
		if other := r.of(user, "r2"); id == "r1" && count(r, func(e thread.MessagePosted) bool { return e.RunID == other.run }) > 0 {
			r.t.Fatal("the second request did not wait")
		}
		run.turn(1, 1, "Answer "+id)
		if f := c.expect("text_chunk"); f.text("text") != "Answer "+id {
			r.t.Fatalf("got %v", f)
		}
		if f := c.expect("final"); f.text("response") != "Answer "+id {
			r.t.Fatalf("got %v", f)
		}
	}
	run := r.of(user, "r1")
	posted, _ := await(r, func(e thread.MessagePosted) bool { return e.RunID == run.run })
	if len(posted.Content.History) != 2 || posted.Content.ProjectID != "p1" || posted.Channel != thread.Chat {
		r.t.Fatalf("posted %+v", posted)
	}
}

// failOnce lets an attempt say something and fail.
func failOnce(r *ring, c *client, user string, kind string) *conversation {
	c.send(frame{"type": kind, "request_id": "r1", "message": "Hello"})
	run := r.of(user, "r1")
	run.route("task_agent")
	await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run })
	run.say(1, 1, 1, 0, "Half a sen")
	return run
}

func takenBack(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	run := failOnce(r, c, user, "home_request")
	c.expect("stream_start")
	c.expect("stream_text")
	run.must(thread.FailTurn{On: thread.On{Thread: run.thread}, RunID: run.run, Turn: 1, Attempt: 1, Class: thread.Truncated})
	if f := c.expect("stream_block"); f.text("block_type") != "retry" || f.text("request_id") != "r1" {
		r.t.Fatalf("got %v", f)
	}
	run.must(thread.FireTimer{On: thread.On{Thread: run.thread}, Timer: "retry:" + run.run + ":1:2"})
	run.turn(1, 2, "A whole sentence.")
	if f := c.expect("stream_text"); f.text("chunk") != "A whole sentence." {
		r.t.Fatalf("got %v", f)
	}
	c.expect("stream_end")
}

func takenBackV2(r *ring, user string) {
	c := r.device(user, "laptop", frame{"protocol": 2})
	run := failOnce(r, c, user, "chat_request")
	c.expect("text_chunk")
	run.must(thread.FailTurn{On: thread.On{Thread: run.thread}, RunID: run.run, Turn: 1, Attempt: 1, Class: thread.Refused})
	if f := c.expect("text_chunk"); f.text("text") != "\n" {
		r.t.Fatalf("got %v", f)
	}
	if f := c.expect("final"); !strings.Contains(f.text("response"), "did not complete") {
		r.t.Fatalf("got %v", f)
	}
}

func repeated(r *ring, user string) {
	request := frame{"type": "home_request", "request_id": "r1", "message": "Hello"}
	c := r.device(user, "laptop", nil)
	c.send(request)
	c.expect("stream_start")
	run := r.of(user, "r1")
	run.route("task_agent")
	await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run })
	run.say(1, 1, 1, 0, "Whole ")
	c.expect("stream_text") // the gateway has had it
	c.ws.Close()
	c = r.device(user, "laptop", nil)
	c.send(request)
	c.expect("stream_start")
	run.say(1, 1, 2, 6, "answer") // where its beginning is not kept any more, it waits for the commit
	run.turn(1, 1, "Whole answer.")
	if text, _ := c.story("r1"); text != "Whole answer." {
		r.t.Fatalf("told %q", text)
	}
	c.send(request)
	if text, _ := c.story("r1"); text != "Whole answer." {
		r.t.Fatalf("told %q", text)
	}
	if n := count(r, func(e thread.MessagePosted) bool { return e.RunID == run.run }); n != 1 {
		r.t.Fatalf("%d messages were posted", n)
	}
}

func repeatedWhileRunning(r *ring, user string) {
	request := frame{"type": "home_request", "request_id": "r1", "message": "Hello"}
	c := r.device(user, "laptop", nil)
	c.send(request)
	c.expect("stream_start")
	c.send(request)
	c.expect("stream_start")
	run := r.of(user, "r1")
	run.route("task_agent")
	run.turn(1, 1, "Once.")
	if f := c.expect("stream_text"); f.text("chunk") != "Once." {
		r.t.Fatalf("got %v", f)
	}
	c.expect("stream_end")
	c.alive()
}

func anotherBody(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Hello"})
	c.expect("stream_start")
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Something else"})
	if f := c.refused("id_reused"); f.text("request_id") != "r1" {
		r.t.Fatalf("got %v", f)
	}
	run := r.of(user, "r1")
	run.route("task_agent")
	run.turn(1, 1, "Still here.")
	c.expect("stream_text")
	c.expect("stream_end")
}

func cancelled(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Hello"})
	c.expect("stream_start")
	r.of(user, "r1").route("task_agent")
	c.send(frame{"type": "cancel", "run_id": r.of(user, "r1").run})
	_, end := c.story("r1")
	if e, ok := end["error"].(map[string]any); !ok || e["code"] != "cancelled" {
		r.t.Fatalf("ended with %v", end)
	}
	c.send(frame{"type": "cancel", "request_id": "r1"}) // it has its end: nothing is said
	c.send(frame{"type": "cancel", "request_id": "never"})
	if f := c.refused("not_found"); f.text("request_id") != "never" {
		r.t.Fatalf("got %v", f)
	}
	c.send(frame{"type": "cancel"})
	c.refused("invalid")
}

func cancelAtOnce(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Hello"})
	c.send(frame{"type": "cancel", "request_id": "r1"})
	if _, end := c.story("r1"); end["error"] == nil {
		r.t.Fatalf("ended with %v", end)
	}
	c.alive()
}

func atOnce(r *ring, user string) {
	first, second := r.device(user, "first", nil), r.device(user, "second", nil)
	const each = 10
	ids := map[*client][]string{}
	for i := range each {
		for name, c := range map[string]*client{"a": first, "b": second} {
			id := name + string(rune('0'+i))
			ids[c] = append(ids[c], id)
			c.send(frame{"type": "home_request", "request_id": id, "message": "Hello " + id})
		}
	}
	for _, c := range []*client{first, second} {
		for _, id := range ids[c] {
			run := r.of(user, id)
			run.route("task_agent")
			run.turn(1, 1, "For "+id)
		}
	}
	for _, c := range []*client{first, second} {
		texts, ends := map[string]string{}, map[string]int{}
		for len(ends) < each {
			f := c.next()
			switch f.text("type") {
			case "stream_text":
				texts[f.text("request_id")] += f.text("chunk")
			case "stream_end":
				ends[f.text("request_id")]++
			}
		}
		for _, id := range ids[c] {
			if texts[id] != "For "+id || ends[id] != 1 {
				r.t.Fatalf("%s was told %q and ended %d times", id, texts[id], ends[id])
			}
		}
		c.alive()
	}
}

func goesOn(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	c.send(frame{"type": "home_request", "message": "Hello"}) // without a request id
	start := c.expect("stream_start")
	first := r.of(user, "")
	first.thread, first.run = start.text("session_id"), start.text("run_id")
	first.route("task_agent")
	first.turn(1, 1, "Hi")
	c.restOf(start.text("request_id"))
	c.send(frame{"type": "home_request", "request_id": "r2", "message": "More", "session_id": first.thread,
		"conversation_history": []frame{{"role": "user", "content": "made up"}}})
	if f := c.expect("stream_start"); f.text("session_id") != first.thread {
		r.t.Fatalf("got %v", f)
	}
	run := r.of(user, "r2")
	posted, at := await(r, func(e thread.MessagePosted) bool { return e.RunID == run.run })
	if at.Stream.ID() != first.thread || len(posted.Content.History) != 0 {
		r.t.Fatalf("posted %+v in %s", posted, at.Stream)
	}
	// Somebody else's thread is none.
	other := r.device(user+"2", "laptop", nil)
	other.send(frame{"type": "home_request", "request_id": "r3", "message": "Mine?", "session_id": first.thread})
	other.refused("not_found")
	// A busy thread may refuse.
	c.send(frame{"type": "home_request", "request_id": "r4", "message": "Now", "session_id": first.thread, "on_busy": "refuse"})
	if f := c.refused("busy"); f.text("request_id") != "r4" {
		r.t.Fatalf("got %v", f)
	}
}

// restOf reads on to the end of a request that has started.
func (c *client) restOf(request string) {
	c.t.Helper()
	for f := c.next(); f.text("type") != "stream_end"; f = c.next() {
		if f.text("request_id") != request {
			c.t.Fatalf("got %v", f)
		}
	}
}
