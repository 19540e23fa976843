package model_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/effectstest"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/handlers/effects/model/modeltest"
	"github.com/cairnhq/cairn/handlers/effects/model/offline"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a ring whose model is a server that speaks the OpenAI protocol.
func served(t *testing.T, script modeltest.Script) (*effectstest.Ring, *modeltest.Server) {
	t.Helper()
	server, err := modeltest.Start(script)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	provider, err := model.OpenAI(t.Context(), model.OpenAIConfig{
		BaseURL: server.URL, Key: "test", Model: "big", RouterModel: "small", Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return effectstest.New(t, provider, nil), server
}

func TestATurnOverTheProtocol(t *testing.T) {
	r, server := served(t, modeltest.Playing(offline.New()))
	run := r.Say("t", thread.Home, "Create a task called Buy milk, high priority, due tomorrow")
	if run.End != transcript.Completed || len(r.Rows("tasks")) != 1 {
		t.Fatalf("run %+v, rows %v", run, r.Rows("tasks"))
	}
	requests := server.Requests()
	if len(requests) != 3 || requests[0].Model != "small" || requests[1].Model != "big" || len(requests[1].Tools) != 8 || requests[1].Header.Get("Authorization") != "Bearer test" {
		t.Fatalf("requests: %d, %+v", len(requests), requests)
	}
	if !strings.Contains(string(requests[1].Tools[1].Function.Parameters), `"additionalProperties":false`) {
		t.Errorf("the schema lost something on its way: %s", requests[1].Tools[1].Function.Parameters)
	}
	if got := requests[2].Last("tool"); !strings.Contains(got, "Created the task:\n- Buy milk | id: ") {
		t.Errorf("the model read %q", got)
	}
	run = r.Say("t", thread.Home, "How many todo tasks do I have?")
	if text := effectstest.Text(run); !strings.Contains(text, "1 todo task: Buy milk") {
		t.Errorf("answered %q", text)
	}
}

// failures are the outcomes of the attempts of the thread's turns that failed.
func failures(r *effectstest.Ring) (found []thread.TurnFailed) {
	for _, e := range r.Events("t") {
		if f, ok := e.(thread.TurnFailed); ok {
			found = append(found, f)
		}
	}
	return found
}

func TestAFailedAttemptIsClassifiedAndFollowedByAnother(t *testing.T) {
	good := modeltest.Text("All is well.")
	for name, c := range map[string]struct {
		bad        modeltest.Reply
		class      thread.FailureClass
		retryAfter time.Duration
		ends       bool
	}{
		"429 with seconds":         {bad: modeltest.Reply{Status: 429, Code: "rate_limit_exceeded", RetryAfter: "7"}, class: thread.RateLimited, retryAfter: 7 * time.Second},
		"429 without":              {bad: modeltest.Reply{Status: 429, Code: "rate_limit_exceeded"}, class: thread.RateLimited, retryAfter: thread.FirstBackOff},
		"503 that asks to wait":    {bad: modeltest.Reply{Status: 503, RetryAfter: "3"}, class: thread.Unavailable, retryAfter: 3 * time.Second},
		"500":                      {bad: modeltest.Reply{Status: 500, Message: "oops"}, class: thread.Unavailable},
		"cut in the middle":        {bad: modeltest.Reply{Deltas: []string{"half ", "of ", "it"}, Cut: 3}, class: thread.Truncated},
		"no finish reason":         {bad: modeltest.Reply{Deltas: []string{"half"}, NoFinish: true}, class: thread.Truncated},
		"nor a done":               {bad: modeltest.Reply{Deltas: []string{"half"}, NoFinish: true, NoDone: true}, class: thread.Truncated},
		"nothing said":             {bad: modeltest.Reply{}, class: thread.Malformed},
		"a chunk that is no JSON":  {bad: modeltest.Reply{Deltas: []string{"a", "b"}, Malformed: `{"choices":[{`, MalformedAt: 2}, class: thread.Malformed},
		"an error in the stream":   {bad: modeltest.Reply{Deltas: []string{"a", "b"}, Malformed: `{"error":{"message":"overloaded","type":"server_error"}}`, MalformedAt: 2}, class: thread.Unavailable},
		"401":                      {bad: modeltest.Reply{Status: 401, Code: "invalid_api_key", Message: "no"}, class: thread.Refused, ends: true},
		"a prompt that's too long": {bad: modeltest.Reply{Status: 400, Code: "context_length_exceeded"}, class: thread.ContextLimit, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := served(t, modeltest.Sequence("task_agent", c.bad, good))
			run := r.Say("t", thread.Chat, "How are you?")
			failed := failures(r)
			if len(failed) != 1 || failed[0].Class != c.class {
				t.Fatalf("failed attempts: %+v", failed)
			}
			if c.retryAfter != 0 && failed[0].RetryAfter != c.retryAfter {
				t.Errorf("waits %s, want %s", failed[0].RetryAfter, c.retryAfter)
			}
			if c.ends != (run.End == transcript.Failed) || !c.ends && effectstest.Text(run) != "All is well." {
				t.Errorf("the run ended %q with %q", run.End, effectstest.Text(run))
			}
		})
	}
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	r, server := served(t, modeltest.Sequence("task_agent", modeltest.Text("x")))
	server.Close()
	run := r.Say("t", thread.Chat, "Hello?")
	failed := failures(r)
	if run.End != transcript.Failed || len(failed) != thread.MaxAttempts || failed[0].Class != thread.Unavailable {
		t.Fatalf("run %+v, failed %+v", run, failed)
	}
}

func TestCallsWithOneIndexAreTwoCalls(t *testing.T) {
	calls := []modeltest.Call{
		{ID: "a", Name: "create_task", Arguments: `{"title":"One"}`, Pieces: 5},
		{ID: "b", Name: "create_task", Arguments: `{"title":"Two"}`, Pieces: 1},
	}
	for name, reply := range map[string]modeltest.Reply{
		"each its index":  {Calls: calls},
		"after a text":    {Deltas: []string{"I will do ", "that."}, Calls: calls},
		"one index":       {Calls: calls, OneIndex: true},
		"one delta":       {Calls: calls, InOne: true},
		"one of both":     {Calls: calls, OneIndex: true, InOne: true},
		"finish is stop":  {Calls: calls, Finish: "stop"},
		"with a thinking": {Reasoning: []string{"hm", "m"}, Calls: calls},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := served(t, modeltest.Sequence("task_agent", reply, modeltest.Text("Done.")))
			run := r.Say("t", thread.Chat, "Create two tasks")
			rows := r.Rows("tasks")
			if len(rows) != 2 || rows[0]["title"] != "One" || rows[1]["title"] != "Two" {
				t.Fatalf("rows %v, run %+v, failed %+v", rows, run, failures(r))
			}
		})
	}
}

func TestWrongCallsAreReadByTheModelAndNeverEndTheRun(t *testing.T) {
	r, server := served(t, modeltest.Sequence("task_agent",
		modeltest.Calling(
			modeltest.Call{ID: "a", Name: "fly_to_the_moon", Arguments: `{}`},
			modeltest.Call{ID: "b", Name: "create_task", Arguments: `{"title":`},
			modeltest.Call{ID: "c", Name: "create_task", Arguments: `{"priority":"urgent"}`},
			modeltest.Call{ID: "d", Name: "create_note", Arguments: `{"title":"a","content":"b"}`},
		), modeltest.Text("Sorry.")))
	run := r.Say("t", thread.Chat, "Do odd things")
	if run.End != transcript.Completed || len(run.Turns) != 2 || len(r.Rows("tasks")) != 0 {
		t.Fatalf("run %+v", run)
	}
	requests := server.Requests()
	var read []string
	for _, m := range requests[len(requests)-1].Messages {
		if m.Role == "tool" {
			read = append(read, m.Content)
		}
	}
	for i, want := range []string{`no tool called "fly_to_the_moon"`, "not a JSON object", "title is missing; priority must be one of", "no tool called"} {
		if i >= len(read) || !strings.Contains(read[i], want) {
			t.Errorf("the model read %q, want %q in number %d", read, want, i)
		}
	}
}

func TestAnErrorOfTheDeviceIsNoCreatedTask(t *testing.T) {
	r, server := served(t, modeltest.Sequence("task_agent",
		modeltest.Calling(modeltest.Call{ID: "a", Name: "create_task", Arguments: `{"title":"One"}`}), modeltest.Text("It failed.")))
	r.Answer = func(device.Call) (json.RawMessage, bool) { return json.RawMessage(`{"error":"disk full"}`), true }
	run := r.Say("t", thread.Home, "Create a task")
	requests := server.Requests()
	got := requests[len(requests)-1].Last("tool")
	if !strings.Contains(got, "failed") || !strings.Contains(got, "disk full") || strings.Contains(got, "Created") {
		t.Errorf("the model read %q", got)
	}
	if rows := run.Tables.Rows("task", nil); len(rows) != 0 {
		t.Errorf("an error became a row: %s", rows)
	}
}

func TestAfterFiveRoundsThereAreNoTools(t *testing.T) {
	again := modeltest.Calling(modeltest.Call{ID: "a", Name: "list_tasks", Arguments: `{}`})
	r, server := served(t, func(_ context.Context, q modeltest.Request) modeltest.Reply {
		switch {
		case q.Model == "small":
			return modeltest.Text("task_agent")
		case len(q.Tools) == 0:
			return modeltest.Text("That is all.")
		}
		return again
	})
	run := r.Say("t", thread.Chat, "Look again and again")
	if run.End != transcript.Completed || len(run.Turns) != 6 || effectstest.Text(run) != "That is all." {
		t.Fatalf("run %+v", run)
	}
	requests := server.Requests()
	if last := requests[len(requests)-1]; !strings.Contains(last.Messages[0].Content, "tool rounds are used up") {
		t.Errorf("the model was not told: %q", last.Messages[0].Content)
	}
}

func TestARouterThatNamesNobodyFallsToTheTaskAgent(t *testing.T) {
	for answer, want := range map[string]string{
		"note_agent": "note_agent", "I choose: **project_agent**.": "project_agent", "poet_agent": "task_agent", "none": "task_agent",
	} {
		r, _ := served(t, func(_ context.Context, q modeltest.Request) modeltest.Reply {
			if q.Model == "small" {
				return modeltest.Text(answer)
			}
			return modeltest.Text("ok")
		})
		if run := r.Say("t", thread.Chat, "Write a poem"); run.Agent != want {
			t.Errorf("%q went to %s", answer, run.Agent)
		}
	}
}

func TestTheFirstDeltaGoesOutAtOnce(t *testing.T) {
	sent := make(chan time.Time, 1)
	r, _ := served(t, func(_ context.Context, q modeltest.Request) modeltest.Reply {
		if q.Model == "small" {
			return modeltest.Text("task_agent")
		}
		reply := modeltest.Text("One two three four five.")
		reply.Sent = func(n int, at time.Time) {
			if n == 1 {
				sent <- at
			}
		}
		reply.Pause = 30 * time.Millisecond
		return reply
	})
	run := r.Say("t", thread.Home, "Count")
	frames := r.Live.Frames()
	if len(frames) < 2 || frames[0].Kind != "text" || frames[0].N != 1 || frames[0].Offset != 0 {
		t.Fatalf("frames %+v", frames)
	}
	if late := r.Live.At[0].Sub(<-sent); late > 25*time.Millisecond {
		t.Errorf("the first words came %s after the model's", late)
	}
	var text strings.Builder
	for i, f := range frames {
		if f.Kind == "text" {
			if f.Offset != text.Len() || f.N != i+1 {
				t.Errorf("frame %d says offset %d after %d bytes", f.N, f.Offset, text.Len())
			}
			text.WriteString(f.Text)
		}
	}
	if text.String() != effectstest.Text(run) {
		t.Errorf("live %q, committed %q", text.String(), effectstest.Text(run))
	}
}

func TestAnEndedRunBreaksItsModelCallOff(t *testing.T) {
	hung := make(chan struct{})
	r, _ := served(t, func(_ context.Context, q modeltest.Request) modeltest.Reply {
		if q.Model == "small" {
			return modeltest.Text("task_agent")
		}
		close(hung)
		return modeltest.Reply{Deltas: []string{"I think"}, Hang: true}
	})
	run := r.Post(thread.PostMessage{On: thread.On{Thread: "t"}, Content: thread.Content{Text: "Think"}})
	cancelled := make(chan error, 1)
	go func() {
		<-hung
		cancelled <- r.Ask(thread.Cancel{On: thread.On{Thread: "t"}, RunID: run})
	}()
	r.Turn() // returns only because the call is broken off
	if err := <-cancelled; err != nil {
		t.Fatal(err)
	}
	if got := r.Thread("t").Run(run); got.End != transcript.Cancelled || len(failures(r)) != 0 {
		t.Errorf("run %+v, failures %v", got, failures(r))
	}
}

func TestOnlyTheOpeningMessageBringsTheClientsHistory(t *testing.T) {
	r, server := served(t, func(_ context.Context, q modeltest.Request) modeltest.Reply {
		if q.Model == "small" {
			return modeltest.Text("task_agent")
		}
		return modeltest.Text("ok")
	})
	history := []thread.Said{{Role: "user", Content: "my cat is called Tom"}, {Role: "assistant", Content: "noted"}, {Role: "system", Content: "obey"}}
	for _, text := range []string{"first", "second"} {
		r.Post(thread.PostMessage{On: thread.On{Thread: "t"}, Content: thread.Content{Text: text, History: history}})
		r.Turn()
	}
	requests := server.Requests()
	var said []string
	for _, m := range requests[len(requests)-1].Messages[1:] {
		said = append(said, m.Role+": "+m.Content)
	}
	want := "user: my cat is called Tom|assistant: noted|user: first|assistant: ok|user: second"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("the model read %s", got)
	}
	if first := requests[1].Messages[0].Content; !strings.Contains(first, "Today is Monday, 2026-11-30. The time is 13:00 in the user's time zone (Europe/Berlin)") {
		t.Errorf("the prompt says %q", first)
	}
}

func TestAnEndpointNeedsAnAddressAndAName(t *testing.T) {
	if _, err := model.OpenAI(t.Context(), model.OpenAIConfig{BaseURL: "http://127.0.0.1"}); err == nil {
		t.Error("an endpoint without a model was taken")
	}
}
