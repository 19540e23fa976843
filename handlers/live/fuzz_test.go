package live_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

var (
	requestKinds = []string{"chat_request", "home_request", "floating_request"}
	actions      = []string{"select", "get", "insert", "update", "delete", "vector_upsert", "vector_search", "drop", ""}
)

// FuzzRequestFrame: what the gateway makes of any frame is a command that the decider can decide, the same each time, and the
// same however the client orders its fields.
func FuzzRequestFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"home_request","message":"hello","request_id":"q1"}`, `{"message":"hi","context":{"conversation_history":[{"role":"user","content":"a"},{"role":"x","content":[1]}],"project_id":"p","session_id":"t"}}`,
		`{"message":"x","scope":{"type":"task","id":"1"},"on_busy":"interrupt"}`, `{"message":"x","scope":null}`, `{"message":1}`, `{"message":" "}`, `{"message":"x","session_id":"../t"}`,
		`{"message":"x","request_id":"\u0000"}`, `{"message":"\u0000"}`, `{}`, `null`, `[]`, ``, `{"message":"x","conversation_history":[null,{"role":"user"}]}`, `{"message":"x","on_busy":"later"}`,
		`{"message":"\ud800"}`, `{"message":"x","n":1e400,"m":1.0}`, `{"message":"a","message":"b"}`,
	} {
		for kind := range requestKinds {
			f.Add([]byte(seed), kind)
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, kind int) {
		if !utf8.Valid(frame) || !json.Valid(frame) || len(frame) > 1<<16 { // the session answers those before
			return
		}
		name := requestKinds[uint(kind)%uint(len(requestKinds))]
		r, err := live.Parse(name, frame, "user-a")
		if err != nil {
			return
		}
		if r.Post.New {
			var no *domain.Rejection
			if _, err := (thread.State{}).Decide(r.Post); err != nil && !errors.As(err, &no) {
				t.Fatalf("undecidable: %v", err)
			} else if err != nil {
				t.Fatalf("the edge let through what the decider refuses: %v", no)
			}
		}
		again, err := live.Parse(name, r.Body, "user-a")
		if err != nil || !bytes.Equal(again.Body, r.Body) {
			t.Fatalf("its canonical form %s is not stable: %s, %v", r.Body, again.Body, err)
		}
		if !r.Minted && again.Command != r.Command {
			t.Fatal("the same request became another command")
		}
	})
}

// FuzzToolResult: whatever a device answers is recorded whole, as JSON, and is a result, or a failure in one of the decider's words.
func FuzzToolResult(f *testing.F) {
	for _, seed := range []string{
		`{"type":"tool_result","id":"r.1.0.1","rows":[{"id":"1"}]}`, `{"id":"r.1.0.1","row":null}`, `{"id":"x","row":{"id":"1"}}`, `{"id":"x","deleted":1}`, `{"id":"x","ok":true}`,
		`{"id":"x","results":[{"id":"1","content":"c","score":0.5}]}`, `{"id":"x","error":"no"}`, `{"id":"x","error":null}`, `{"id":1}`, `{}`, `null`, `[]`, ``, `{"id":"x","rows":[null]}`,
		`{"id":"x","row":{"id":" "}}`, `{"id":"x","deleted":"yes"}`, `{"id":"x","id":"y","ok":false}`, `{"id":"x","rows":1e400}`,
	} {
		for action := range actions {
			f.Add([]byte(seed), action)
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, action int) {
		if !utf8.Valid(frame) || len(frame) > 1<<16 {
			return
		}
		a, err := live.Answer(frame, actions[uint(action)%uint(len(actions))])
		if err != nil {
			return
		}
		if !json.Valid(a.Body) || a.ID == "" {
			t.Fatalf("%s became %+v", frame, a)
		}
		if a.Failure != "" && len(a.Mutations) > 0 {
			t.Fatalf("%s failed and changed something: %+v", frame, a)
		}
		w := thread.State{}
		for _, c := range []thread.Command{
			thread.PostMessage{On: thread.On{Thread: "t"}, New: true, RunID: "r", Channel: thread.Chat, DeviceID: "d", Content: thread.Content{Text: "x"}},
			thread.DecideRoute{On: thread.On{Thread: "t"}, RunID: "r", Attempt: 1},
			thread.CompleteTurn{
				On: thread.On{Thread: "t"}, RunID: "r", Turn: 1, Attempt: 1, FinishReason: "tool_calls", Plans: []thread.Plan{{Tool: "t", Executor: thread.OnDevice}},
				Content: thread.PlannedTurn{Calls: []thread.TurnCall{{}}, Payloads: []thread.Payload{{}}},
			},
			thread.RecordResult{On: thread.On{Thread: "t"}, CallID: "r.1.0", Step: 1, DeviceID: "d", Failure: a.Failure, Mutations: a.Mutations, Result: thread.Result{Device: a.Body}},
		} {
			events, err := w.Decide(c)
			if err != nil || len(events) == 0 {
				t.Fatalf("%T: %v, %v", c, events, err)
			}
			for _, e := range events {
				w = w.Evolve(e)
			}
		}
		// The same answer with its fields in order is the same answer.
		if b, err := live.Answer([]byte(`{"id":"r","n":`+string(a.Body)+`}`), ""); err != nil || !bytes.Contains(b.Body, a.Body) {
			t.Fatalf("%s inside another frame became %s, %v", a.Body, b.Body, err)
		}
	})
}

// FuzzHello: no hello makes the gateway fall over, and what it lets through has an id and a name of bounded length.
func FuzzHello(f *testing.F) {
	for _, seed := range []string{
		`{"type":"device_hello","device_id":"d","protocol":3,"name":"N","timezone":"Europe/Rome","journal":true}`, `{"device_id":""}`, `{"device_id":"d","protocol":9}`,
		`{"device_id":"d","timezone":"../../etc/passwd"}`, `{"device_id":"d","timezone":"Local"}`, `{"device_id":"d\u0000"}`, `{"device_id":1}`, `null`, ``, `{"device_id":"é d"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		why, err := live.Wrong(frame)
		if err != nil || why != "" {
			return
		}
		var h struct {
			DeviceID string `json:"device_id"`
			Name     string
		}
		if json.Unmarshal(frame, &h) != nil || h.DeviceID == "" || len(h.DeviceID) > 200 || utf8.RuneCountInString(h.Name) > 200 {
			t.Fatalf("let through %s", frame)
		}
	})
}

// FuzzCallFrame: the fields of a step can't take the place of what the gateway says, and nothing is sent as null.
func FuzzCallFrame(f *testing.F) {
	for _, seed := range []string{`{"data":{"title":"x"}}`, `{"id":"mine","type":"hello","run_id":null}`, `{"filters":null,"limit":5}`, `{}`, `null`, `[]`, ``, `{"a":"<&>"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, fields []byte) {
		frame, err := live.CallFrame(fields)
		if err != nil {
			return
		}
		var got map[string]json.RawMessage
		if json.Unmarshal(frame, &got) != nil || string(got["type"]) != `"tool_call"` || string(got["id"]) != `"r.1.0.1"` || string(got["run_id"]) != `"r"` {
			t.Fatalf("%s became %s", fields, frame)
		}
		for name, value := range got {
			if string(value) == "null" {
				t.Fatalf("%s is sent as null", name)
			}
		}
	})
}

// FuzzGuard: whatever bytes a client sends, cut into reads at any place, the guard passes on no message over the limit, falls over
// nothing, and answers the same however the bytes were cut.
func FuzzGuard(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, false, 1, bytes.Repeat([]byte("a"), 200)), true, 0, bytes.Repeat([]byte("b"), 200)), uint64(1))
	f.Add(appendFrame(appendFrame(nil, true, 1, []byte("hello")), true, 9, []byte("ping")), uint64(2))
	f.Add(appendFrame(nil, true, 1, bytes.Repeat([]byte("a"), 70_000)), uint64(3))
	f.Add([]byte{0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5}, uint64(4))
	f.Add([]byte{0x80, 0x80, 0, 0, 0, 0}, uint64(5))
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64) {
		const limit = 300
		if len(wire) > 1<<17 || longest(wire) > 1<<20 {
			return // the reader of this test makes room for what a header announces
		}
		got, large, _ := read(bytes.Clone(wire), limit, seed)
		again, largeAgain, _ := read(bytes.Clone(wire), limit, seed+1)
		if len(got) != len(again) || large != largeAgain {
			t.Fatalf("cut otherwise: %d messages and %d too large, %d and %d", len(got), large, len(again), largeAgain)
		}
		for i, m := range got {
			if len(m) > limit || m != again[i] {
				t.Fatalf("passed a message of %d bytes", len(m))
			}
		}
	})
}

// longest is the greatest length that any eight bytes could announce where a header may stand.
func longest(wire []byte) uint64 {
	var most uint64
	for i := range wire {
		if wire[i]&0x7f == 127 && i+9 <= len(wire) {
			var n uint64
			for _, b := range wire[i+1 : i+9] {
				n = n<<8 | uint64(b)
			}
			most = max(most, n)
		}
	}
	return most
}
