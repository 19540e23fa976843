package live_test

import (
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

func TestCalls(t *testing.T) {
	r := newRing(t, live.Timing{})
	for name, test := range map[string]func(*ring, string){
		"a call goes out and its answer comes in":            callAndAnswer,
		"answers that are none become errors for the model":  badAnswers,
		"a late answer is recorded and acknowledged":         lateAnswer,
		"an answer to an unknown call is refused":            unknownCall,
		"a call belongs to the device that asked":            boundToADevice,
		"a device that connects again replaces itself only":  replaced,
		"what may be repeated is offered again":              offeredAgain,
		"a client with a journal is offered an insert again": journal,
		"without a journal an insert's outcome is unknown":   outcomeUnknown,
		"a call waits for its device":                        waitsForDevice,
		"a newer socket at another gateway wins":             otherGateway,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(r.in(t), "user"+strings.Map(letters, strings.ToLower(name)))
		})
	}
}

// calling brings a run to where it asks the device for something.
func calling(r *ring, c *client, user, request string, plans ...planned) *conversation {
	r.t.Helper()
	c.send(frame{"type": "home_request", "request_id": request, "message": "Do it"})
	c.expect("stream_start")
	run := r.of(user, request)
	run.route("task_agent")
	run.turn(1, 1, "", plans...)
	return run
}

func (c *conversation) step(index int) string {
	return thread.StepID(thread.CallID(c.run, 1, index), 1)
}

func callAndAnswer(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	run := calling(r, c, user, "r1", insertTask())
	call := c.expect("tool_call")
	data, _ := call["data"].(map[string]any)
	if call.text("id") != run.step(0) || call.text("action") != "insert" || call.text("table") != "tasks" ||
		data["title"] != "Buy milk" || call.text("run_id") != run.run || call["seq"] == nil || call.text("deadline") == "" {
		r.t.Fatalf("got %v", call)
	}
	if _, ok := call["filters"]; ok {
		r.t.Fatalf("an absent filter was sent: %v", call)
	}
	offered, _ := await(r, func(e thread.ToolCallOffered) bool { return e.RunID == run.run })
	if !offered.Started || offered.DeviceID != "laptop" {
		r.t.Fatalf("offered %+v: an insert to a client without a journal must not go out twice", offered)
	}
	c.send(frame{"type": "tool_ack", "id": call.text("id")})
	answer := frame{"type": "tool_result", "id": call.text("id"), "row": frame{"id": "t1", "title": "Buy <milk> & \u0000"}}
	c.send(answer)
	if f := c.expect("tool_result_ack"); f.text("id") != call.text("id") {
		r.t.Fatalf("got %v", f)
	}
	c.send(answer) // a repeat is the same command
	c.expect("tool_result_ack")
	run.turn(2, 1, `{"type":"entity_ref","entity":"task"}`)
	block := c.expect("stream_block")
	if block.text("block_type") != "entity_ref" {
		r.t.Fatalf("got %v", block)
	}
	end := c.expect("stream_end")
	mutations, _ := end["mutations"].([]any)
	if len(mutations) != 1 || mutations[0].(map[string]any)["id"] != "t1" || mutations[0].(map[string]any)["table"] != "tasks" {
		r.t.Fatalf("ended with %v", end)
	}
	if n := count(r, func(e thread.ToolCallCompleted) bool { return e.RunID == run.run }); n != 1 {
		r.t.Fatalf("%d results were recorded", n)
	}
	if n := count(r, func(e thread.LateResultRecorded) bool { return strings.HasPrefix(e.CallID, run.run) }); n != 0 {
		r.t.Fatalf("the repeat was recorded %d times", n)
	}
}

func badAnswers(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	update := planned{thread.Plan{Tool: "update_task", Executor: thread.OnDevice, Action: "update", Table: "tasks", Repeatable: true}, `{"data":{"id":"t1","updates":{}}}`}
	drop := planned{thread.Plan{Tool: "delete_task", Executor: thread.OnDevice, Action: "delete", Table: "tasks", Repeatable: true}, `{"data":{"id":"t1"}}`}
	cases := []struct {
		plan   planned
		answer frame
		reason thread.FailureReason // empty: it completes
		bytes  bool
	}{
		{selectTasks(), frame{"rows": "none"}, thread.BadResult, false},
		{selectTasks(), frame{"rows": nil}, thread.BadResult, false},
		{selectTasks(), frame{"row": frame{"id": "t1"}}, thread.BadResult, false},
		{selectTasks(), frame{}, thread.BadResult, false},
		{selectTasks(), frame{"rows": []any{nil}}, thread.BadResult, false},
		{selectTasks(), frame{"rows": []any{}}, "", false},
		{selectTasks(), frame{"rows": []any{}, "error": nil}, "", false},
		{selectTasks(), frame{"error": "no such table"}, thread.DeviceError, false},
		{selectTasks(), frame{"rows": []frame{{"id": "t1", "title": strings.Repeat("x", 1<<20)}}}, thread.ResultTooLarge, true},
		{insertTask(), frame{"row": nil}, thread.BadResult, false},
		{insertTask(), frame{"row": frame{"title": "no id"}}, thread.BadResult, false},
		{insertTask(), frame{"row": frame{"id": "Buy milk for Ann"}}, thread.BadResult, false},
		{insertTask(), frame{"row": frame{"id": "a\x00b"}}, thread.BadResult, false},
		{update, frame{"row": frame{"id": strings.Repeat("x", 201)}}, thread.BadResult, false},
		{insertTask(), frame{"error": frame{"code": "SQLITE_FULL"}}, thread.DeviceError, false},
		{update, frame{"row": nil}, "", false},
		{update, frame{"row": 7}, thread.BadResult, false},
		{drop, frame{"deleted": false}, "", false},
		{drop, frame{"deleted": nil}, thread.BadResult, false},
	}
	plans := make([]planned, len(cases))
	for i, test := range cases {
		plans[i] = test.plan
	}
	run := calling(r, c, user, "r1", plans...)
	for range cases {
		id := c.expect("tool_call").text("id")
		for i, test := range cases {
			if run.step(i) == id {
				test.answer["type"], test.answer["id"] = "tool_result", id
			}
		}
	}
	for i, test := range cases {
		c.send(test.answer)
		c.expect("tool_result_ack")
		call := thread.CallID(run.run, 1, i)
		if test.reason == "" {
			done, _ := await(r, func(e thread.ToolCallCompleted) bool { return e.CallID == call })
			if len(done.Mutations) != 0 {
				r.t.Errorf("%v changed %v", test.answer, done.Mutations)
			}
			continue
		}
		failed, _ := await(r, func(e thread.ToolCallFailed) bool { return e.CallID == call })
		if failed.Reason != test.reason || (failed.Bytes > 1<<20) != test.bytes {
			r.t.Errorf("case %d failed as %s with %d bytes, want %s", i, failed.Reason, failed.Bytes, test.reason)
		}
	}
	run.turn(2, 1, "None of it worked.")
	if _, end := c.end(); len(end["mutations"].([]any)) != 0 {
		r.t.Fatalf("an error counted as a change: %v", end)
	}
}

// end reads on to a stream_end.
func (c *client) end() (text string, end frame) {
	c.t.Helper()
	for {
		switch f := c.next(); f.text("type") {
		case "stream_text":
			text += f.text("chunk")
		case "stream_end":
			return text, f
		}
	}
}

func lateAnswer(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	run := calling(r, c, user, "r1", insertTask())
	id := c.expect("tool_call").text("id")
	c.send(frame{"type": "cancel", "request_id": "r1"})
	c.expect("stream_end")
	c.send(frame{"type": "tool_result", "id": id, "row": frame{"id": "t1"}})
	if f := c.expect("tool_result_ack"); f.text("id") != id {
		r.t.Fatalf("got %v", f)
	}
	late, _ := await(r, func(e thread.LateResultRecorded) bool { return strings.HasPrefix(e.CallID, run.run) })
	if len(late.Mutations) != 1 || late.Mutations[0].ID != "t1" {
		r.t.Fatalf("recorded %+v", late)
	}
	// The device says something else now: it is recorded as well, and acknowledged.
	c.send(frame{"type": "tool_result", "id": id, "error": "no"})
	c.expect("tool_result_ack")
}

func unknownCall(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	for _, id := range []string{"x", r.of(user, "never").step(0), strings.Repeat("y", 5000)} {
		c.send(frame{"type": "tool_result", "id": id, "rows": []any{}})
		c.refused("unknown_call")
	}
	c.send(frame{"type": "tool_result", "rows": []any{}})
	c.refused("malformed")
	c.alive()
}

func boundToADevice(r *ring, user string) {
	first, second := r.device(user, "first", nil), r.device(user, "second", nil)
	run := calling(r, first, user, "r1", selectTasks())
	other := calling(r, second, user, "r2", selectTasks())
	if f := first.expect("tool_call"); f.text("id") != run.step(0) {
		r.t.Fatalf("the first got %v", f)
	}
	if f := second.expect("tool_call"); f.text("id") != other.step(0) {
		r.t.Fatalf("the second got %v", f)
	}
	second.send(frame{"type": "tool_result", "id": run.step(0), "rows": []any{}})
	if f := second.refused("wrong_device"); f.text("id") != run.step(0) {
		r.t.Fatalf("got %v", f)
	}
	first.send(frame{"type": "tool_result", "id": run.step(0), "rows": []any{}})
	first.expect("tool_result_ack")
	// The first one goes; the second's run is none of its business.
	first.ws.Close()
	second.send(frame{"type": "tool_result", "id": other.step(0), "rows": []any{}})
	second.expect("tool_result_ack")
	other.turn(2, 1, "Fine.")
	second.end()
}

func replaced(r *ring, user string) {
	older, bystander := r.device(user, "laptop", nil), r.device(user, "phone", nil)
	run := calling(r, older, user, "r1", selectTasks())
	older.expect("tool_call")
	newer := r.device(user, "laptop", nil)
	older.gone(4001)
	if f := newer.expect("tool_call"); f.text("id") != run.step(0) {
		r.t.Fatalf("got %v", f)
	}
	bystander.alive()
	newer.send(frame{"type": "tool_result", "id": run.step(0), "rows": []any{}})
	newer.expect("tool_result_ack")
}

func offeredAgain(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	run := calling(r, c, user, "r1", selectTasks())
	c.expect("tool_call")
	c.ws.Close()
	c = r.device(user, "laptop", nil)
	if f := c.expect("tool_call"); f.text("id") != run.step(0) {
		r.t.Fatalf("got %v", f)
	}
	c.send(frame{"type": "tool_result", "id": run.step(0), "rows": []any{}})
	c.expect("tool_result_ack")
	await(r, func(e thread.ToolCallCompleted) bool { return e.RunID == run.run })
	if n := count(r, func(e thread.ToolCallOffered) bool { return e.RunID == run.run }); n != 1 {
		r.t.Fatalf("%d offers were recorded", n)
	}
}

func journal(r *ring, user string) {
	hello := frame{"journal": true}
	c := r.device(user, "laptop", hello)
	run := calling(r, c, user, "r1", insertTask())
	c.expect("tool_call")
	c.ws.Close()
	c = r.device(user, "laptop", hello)
	if f := c.expect("tool_call"); f.text("id") != run.step(0) {
		r.t.Fatalf("got %v", f)
	}
	offered, _ := await(r, func(e thread.ToolCallOffered) bool { return e.RunID == run.run })
	if offered.Started {
		r.t.Fatalf("offered %+v", offered)
	}
	c.send(frame{"type": "tool_result", "id": run.step(0), "row": frame{"id": "t1"}})
	c.expect("tool_result_ack")
}

func outcomeUnknown(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	run := calling(r, c, user, "r1", insertTask())
	c.expect("tool_call")
	c.ws.Close()
	failed, _ := await(r, func(e thread.ToolCallFailed) bool { return e.RunID == run.run })
	if failed.Reason != thread.OutcomeUnknown || !strings.Contains(failed.Result.Text, "Look before you repeat") {
		r.t.Fatalf("failed as %+v", failed)
	}
	c = r.device(user, "laptop", nil)
	run.turn(2, 1, "I will look.")
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Do it"})
	if text, _ := c.story("r1"); text != "I will look." { // and no tool_call came again
		r.t.Fatalf("told %q", text)
	}
}

func waitsForDevice(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Do it"})
	c.expect("stream_start")
	c.ws.Close()
	run := r.of(user, "r1")
	run.route("task_agent")
	run.turn(1, 1, "", insertTask(), selectTasks())
	await(r, func(e thread.ToolCallRequested) bool { return e.RunID == run.run })
	if n := count(r, func(e thread.ToolCallOffered) bool { return e.RunID == run.run }); n != 0 {
		r.t.Fatal("a call was offered to nobody")
	}
	c = r.device(user, "laptop", nil)
	got := map[string]bool{c.expect("tool_call").text("id"): true, c.expect("tool_call").text("id"): true}
	if !got[run.step(0)] || !got[run.step(1)] {
		r.t.Fatalf("got %v", got)
	}
}

func otherGateway(r *ring, user string) {
	there := r.start(live.Timing{})
	older := r.device(user, "laptop", nil)
	r.here(user)
	newer := there.device(user, "laptop", nil)
	run := calling(r, newer, user, "r1", selectTasks())
	if f := newer.expect("tool_call"); f.text("id") != run.step(0) {
		r.t.Fatalf("got %v", f)
	}
	newer.send(frame{"type": "tool_result", "id": run.step(0), "rows": []any{}})
	newer.expect("tool_result_ack")
	_ = older
}
