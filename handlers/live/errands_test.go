package live_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/work"
	"github.com/cairnhq/cairn/streams"
)

// What a device is asked outside a run: a question goes out as data_request, an approved write as mutation.
func TestRequestsToDevices(t *testing.T) {
	r := newRing(t, live.Timing{})
	for name, test := range map[string]func(*ring, string){
		"a question goes out and rows come in":               question,
		"a write goes out and its row comes in":              mutation,
		"a journal may answer a question by any frame":       anyFrame,
		"wrong answers to requests are recorded as failures": wrongAnswers,
		"a request belongs to one device":                    oneDevice,
		"a request waits for its device":                     waitsOutside,
		"a question is asked again":                          askedAgain,
		"a write to a journal is sent again":                 writtenAgain,
		"without a journal a write is not sent again":        writtenOnce,
		"a late answer to a request is recorded":             lateOutside,
		"what was answered elsewhere is known after a start": afterStart,
		"an answer to no request is refused":                 noRequest,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(r.in(t), "user"+strings.Map(letters, strings.ToLower(name)))
		})
	}
}

// outside asks a device for something outside a run, and answers the request's id.
func (r *ring) outside(user, name, action, fields string) string {
	r.t.Helper()
	id := uuid.NewString()
	var body domain.Command = device.RequestMutation{Device: name, RequestID: id, Action: action, Table: "tasks", Payload: device.Payload{Fields: []byte(fields)}}
	if action == "select" || action == "get" {
		body = device.RequestData{Device: name, RequestID: id, Action: action, Table: "tasks", Payload: device.Payload{Fields: []byte(fields)}}
	}
	_, err := r.asker.Ask(r.t.Context(), streams.Command{
		Scope: domain.User(user), ID: uuid.NewString(), Actor: domain.Actor{Kind: domain.ActorUser, ID: user}, Body: body,
	})
	check(r.t, err)
	return id
}

// asked is outside for a client that is here, and the frame that it gets.
func (c *client) asked(r *ring, user, action, fields string) (id string, f frame) {
	r.t.Helper()
	r.knows(user, "laptop")
	id = r.outside(user, "laptop", action, fields)
	return id, c.next()
}

// knows waits until the log has a device's hello.
func (r *ring) knows(user, name string) {
	r.t.Helper()
	late := time.After(15 * time.Second)
	for {
		r.mu.Lock()
		more := r.more
		known := slices.ContainsFunc(r.seen, func(s seen) bool {
			return s.Scope == domain.User(user) && s.Stream == domain.NewStream("device", name)
		})
		r.mu.Unlock()
		if known {
			return
		}
		select {
		case <-more:
		case <-late:
			r.t.Fatal("no hello of the device came")
		}
	}
}

// absent waits until no device of the user is online.
func (r *ring) absent(user string) {
	r.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		found, err := work.New(r.pool).Presence(r.t.Context(), domain.User(user))
		check(r.t, err)
		if len(found) > 0 && !found[0].Online {
			return
		}
	}
	r.t.Fatal("the device is still online")
}

func question(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	id, f := c.asked(r, user, "select", `{"filters":{"status":"todo"},"limit":3,"data":null}`)
	filters, _ := f["filters"].(map[string]any)
	if f.text("type") != "data_request" || f.text("id") != id || f.text("action") != "select" || f.text("table") != "tasks" ||
		filters["status"] != "todo" || f["limit"] != 3.0 || f.text("deadline") == "" || f["run_id"] != nil {
		r.t.Fatalf("got %v", f)
	}
	if _, ok := f["data"]; ok {
		r.t.Fatalf("an absent field was sent: %v", f)
	}
	answer := frame{"type": "data_response", "id": id, "rows": []frame{{"id": "t1", "title": "Buy <milk>"}}}
	c.send(answer)
	if f := c.expect("tool_result_ack"); f.text("id") != id {
		r.t.Fatalf("got %v", f)
	}
	c.send(answer) // a repeat is the same command
	c.expect("tool_result_ack")
	got, _ := await(r, func(e device.DataAnswered) bool { return e.RequestID == id })
	if string(got.Result.Device) != `{"rows":[{"id":"t1","title":"Buy <milk>"}]}` {
		r.t.Fatalf("recorded %s", got.Result.Device)
	}
	if n := count(r, func(e device.LateAnswerRecorded) bool { return e.RequestID == id }); n != 0 {
		r.t.Fatalf("the repeat was recorded %d times", n)
	}
	c.alive()
}

func mutation(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	id, f := c.asked(r, user, "insert", `{"data":{"title":"Buy milk"}}`)
	if f.text("type") != "mutation" || f.text("id") != id || f.text("action") != "insert" || f.text("table") != "tasks" {
		r.t.Fatalf("got %v", f)
	}
	offered, _ := await(r, func(e device.RequestOffered) bool { return e.RequestID == id })
	if !offered.Started {
		r.t.Fatal("an insert to a client without a journal must not go out twice")
	}
	c.send(frame{"type": "tool_ack", "id": id})
	c.send(frame{"type": "data_response", "id": id, "row": frame{"id": "t1"}}) // for questions alone; the write still waits
	c.refused("unknown_call")
	c.send(frame{"type": "tool_result", "id": id, "row": frame{"id": "t1"}})
	c.expect("tool_result_ack")
	done, _ := await(r, func(e device.MutationCompleted) bool { return e.RequestID == id })
	if len(done.Mutations) != 1 || done.Mutations[0] != (device.Mutation{Table: "tasks", Action: "insert", ID: "t1"}) {
		r.t.Fatalf("changed %v", done.Mutations)
	}
}

func anyFrame(r *ring, user string) {
	c := r.device(user, "laptop", frame{"journal": true})
	id, _ := c.asked(r, user, "get", `{"data":{"id":"t1"}}`)
	c.send(frame{"type": "tool_result", "id": id, "row": nil})
	c.expect("tool_result_ack")
	await(r, func(e device.DataAnswered) bool { return e.RequestID == id })
}

func wrongAnswers(r *ring, user string) {
	c := r.device(user, "laptop", frame{"journal": true})
	for _, test := range []struct {
		action string
		answer frame
		reason device.FailureReason
		bytes  bool
	}{
		{"select", frame{"rows": "none"}, device.BadResult, false},
		{"select", frame{"row": frame{"id": "t1"}}, device.BadResult, false},
		{"select", frame{"error": "no such table"}, device.DeviceError, false},
		{"select", frame{"rows": []frame{{"id": "t1", "title": strings.Repeat("x", 1<<20)}}}, device.ResultTooLarge, true},
		{"insert", frame{"row": nil}, device.BadResult, false},
		{"insert", frame{"row": frame{"id": "Buy milk for Ann"}}, device.BadResult, false},
		{"delete", frame{"deleted": nil}, device.BadResult, false},
		{"update", frame{"error": frame{"code": "SQLITE_FULL"}}, device.DeviceError, false},
	} {
		id, f := c.asked(r, user, test.action, `{"data":{"id":"t1","updates":{}}}`)
		test.answer["type"], test.answer["id"] = "tool_result", id
		c.send(test.answer)
		c.expect("tool_result_ack")
		var reason device.FailureReason
		var size int64
		var words string
		if f.text("type") == "data_request" {
			e, _ := await(r, func(e device.DataFailed) bool { return e.RequestID == id })
			reason, size, words = e.Reason, e.Bytes, e.Result.Text
		} else {
			e, _ := await(r, func(e device.MutationFailed) bool { return e.RequestID == id })
			reason, size, words = e.Reason, e.Bytes, e.Result.Text
		}
		if reason != test.reason || (size > 1<<20) != test.bytes || test.bytes != strings.Contains(words, "ask for less") {
			r.t.Errorf("%v failed as %s with %d bytes: %q", test.action, reason, size, words)
		}
	}
	c.alive()
}

func oneDevice(r *ring, user string) {
	first, second := r.device(user, "laptop", nil), r.device(user, "phone", nil)
	stranger := r.device(user+"x", "laptop", nil)
	id, _ := first.asked(r, user, "select", `{}`)
	second.alive()
	answer := frame{"type": "data_response", "id": id, "rows": []any{}}
	second.send(answer)
	if f := second.refused("wrong_device"); f.text("id") != id {
		r.t.Fatalf("got %v", f)
	}
	stranger.send(answer)
	stranger.refused("unknown_call")
	first.send(answer)
	first.expect("tool_result_ack")
}

func waitsOutside(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	r.knows(user, "laptop")
	c.ws.Close()
	r.absent(user)
	id := r.outside(user, "laptop", "insert", `{"data":{"title":"Buy milk"}}`)
	if n := count(r, func(e device.RequestOffered) bool { return e.RequestID == id }); n != 0 {
		r.t.Fatal("a request was offered to nobody")
	}
	c = r.device(user, "laptop", nil)
	if f := c.expect("mutation"); f.text("id") != id {
		r.t.Fatalf("got %v", f)
	}
}

func askedAgain(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	id, _ := c.asked(r, user, "select", `{}`)
	c.ws.Close()
	c = r.device(user, "laptop", nil)
	if f := c.expect("data_request"); f.text("id") != id {
		r.t.Fatalf("got %v", f)
	}
	c.send(frame{"type": "data_response", "id": id, "rows": []any{}})
	c.expect("tool_result_ack")
	if n := count(r, func(e device.RequestOffered) bool { return e.RequestID == id }); n != 1 {
		r.t.Fatalf("%d offers were recorded", n)
	}
}

func writtenAgain(r *ring, user string) {
	c := r.device(user, "laptop", frame{"journal": true})
	id, _ := c.asked(r, user, "insert", `{"data":{"title":"Buy milk"}}`)
	c.ws.Close()
	c = r.device(user, "laptop", frame{"journal": true})
	if f := c.expect("mutation"); f.text("id") != id {
		r.t.Fatalf("got %v", f)
	}
	c.send(frame{"type": "tool_result", "id": id, "row": frame{"id": "t1"}})
	c.expect("tool_result_ack")
}

func writtenOnce(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	id, _ := c.asked(r, user, "insert", `{"data":{"title":"Buy milk"}}`)
	c.ws.Close()
	failed, _ := await(r, func(e device.MutationFailed) bool { return e.RequestID == id })
	if failed.Reason != device.OutcomeUnknown || !strings.Contains(failed.Result.Text, "Look before you repeat") {
		r.t.Fatalf("failed as %+v", failed)
	}
	c = r.device(user, "laptop", nil)
	c.alive() // and it did not come again
}

func lateOutside(r *ring, user string) {
	c := r.device(user, "laptop", frame{"journal": true})
	id, _ := c.asked(r, user, "insert", `{"data":{"title":"Buy milk"}}`)
	_, err := r.asker.Ask(r.t.Context(), streams.Command{
		Scope: domain.User(user), ID: uuid.NewString(), Actor: domain.Actor{Kind: domain.ActorTimer},
		Body: device.FireTimer{Device: "laptop", Timer: "offer:" + id},
	})
	check(r.t, err)
	await(r, func(e device.MutationFailed) bool { return e.RequestID == id && e.Reason == device.TimedOut })
	c.send(frame{"type": "tool_result", "id": id, "row": frame{"id": "t1"}})
	c.expect("tool_result_ack")
	late, _ := await(r, func(e device.LateAnswerRecorded) bool { return e.RequestID == id })
	if len(late.Mutations) != 1 || late.Mutations[0].ID != "t1" {
		r.t.Fatalf("recorded %+v", late)
	}
}

func afterStart(r *ring, user string) {
	c := r.device(user, "laptop", frame{"journal": true})
	id, _ := c.asked(r, user, "update", `{"data":{"id":"t1","updates":{}}}`)
	there := r.start(live.Timing{}) // another gateway, which never offered it
	c = there.device(user, "laptop", frame{"journal": true})
	c.send(frame{"type": "tool_result", "id": id, "row": frame{"id": "t1"}})
	for acked := false; !acked; { // it may be offered here as well, meanwhile
		switch f := c.next(); f.text("type") {
		case "tool_result_ack":
			acked = f.text("id") == id
		case "mutation":
		default:
			r.t.Fatalf("got %v", f)
		}
	}
	done, _ := await(r, func(e device.MutationCompleted) bool { return e.RequestID == id })
	if len(done.Mutations) != 1 || done.Mutations[0].ID != "t1" {
		r.t.Fatalf("recorded %+v", done)
	}
	model := requests.New(projections.NewDB(r.pool))
	if got, err := model.Get(r.t.Context(), domain.User(user), id); err != nil || got.Device != "laptop" {
		r.t.Fatalf("got %+v, %v", got, err)
	}
}

func noRequest(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	for _, kind := range []string{"data_response", "tool_result"} {
		for _, id := range []string{uuid.NewString(), "x", "a b", r.of(user, "never").step(0)} {
			c.send(frame{"type": kind, "id": id, "rows": []any{}})
			c.refused("unknown_call")
		}
		c.send(frame{"type": kind, "rows": []any{}})
		c.refused("malformed")
	}
	c.alive()
}
