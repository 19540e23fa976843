package controls_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
)

// talk is a thread whose effects are followed as the read model follows them.
type talk struct {
	*testing.T
	state    thread.State
	outcomes map[string]int
	starts   map[string]int
}

var to = thread.On{Thread: "t"}

// newTalk is a thread with a run whose model has asked for an insert on the device.
func newTalk(t *testing.T) *talk {
	w := &talk{T: t, outcomes: map[string]int{}, starts: map[string]int{}}
	w.must(thread.PostMessage{On: to, New: true, RunID: "r", Channel: thread.Chat, DeviceID: "d", Content: thread.Content{Text: "add two tasks"}})
	w.must(thread.DecideRoute{On: to, RunID: "r", Attempt: 1, Agent: "task_agent"})
	w.must(asks)
	return w
}

var asks = thread.CompleteTurn{
	On: to, RunID: "r", Turn: 1, Attempt: 1, Model: "m", FinishReason: "tool_calls",
	Plans: []thread.Plan{
		{Tool: "create_task", Executor: thread.OnDevice, Action: "insert", Table: "tasks"},
		{Tool: "create_task", Executor: thread.OnDevice, Action: "insert", Table: "tasks"},
	},
	Content: thread.PlannedTurn{Calls: []thread.TurnCall{{Tool: "create_task"}, {Tool: "create_task"}}, Payloads: make([]thread.Payload, 2)},
}

func (w *talk) do(c thread.Command) error {
	events, err := w.state.Decide(c)
	for _, e := range events {
		w.state = w.state.Evolve(e)
		if ends, ok := e.(domain.Closes); ok {
			for _, id := range ends.Closes() {
				w.outcomes[id]++
			}
		}
		if begins, ok := e.(domain.Starts); ok {
			for _, id := range begins.Starts() {
				w.starts[id]++
			}
		}
	}
	return err
}

func (w *talk) must(c thread.Command) {
	w.Helper()
	if err := w.do(c); err != nil {
		w.Fatalf("%T: %v", c, err)
	}
}

// Two workers give the same model call an outcome, and a device answers a call twice, the second time otherwise: the first
// outcome stands.
func TestAnEffectHasOneOutcome(t *testing.T) {
	w := newTalk(t)
	w.must(asks)
	w.must(thread.FailTurn{On: to, RunID: "r", Turn: 1, Attempt: 1, Class: thread.Unavailable})
	for range 2 {
		w.must(thread.RecordResult{On: to, CallID: "r.1.0", Step: 1, DeviceID: "d", Result: thread.Result{Device: []byte(`{}`)}})
	}
	for _, id := range []string{thread.TurnEffect("r", 1, 1), "r.1.0.1"} {
		if n := w.outcomes[id]; n != 1 {
			t.Errorf("effect %s has %d outcomes", id, n)
		}
	}
}

// What must not be repeated is begun once, whoever asks again.
func TestAStepIsBegunOnce(t *testing.T) {
	w := newTalk(t)
	begin := thread.OfferCall{On: to, CallID: "r.1.0", Step: 1, DeviceID: "d", Started: true}
	w.must(begin)
	var no *domain.Rejection
	if err := w.do(begin); !errors.As(err, &no) || no.Code != thread.CodeStarted {
		t.Errorf("begun a second time: %v", err)
	}
	if n := w.starts["r.1.0.1"]; n != 1 {
		t.Errorf("the step was begun %d times", n)
	}
}

// A call that is offered again, also after the device's program was started anew, is answered as before and not done.
func TestADeviceDoesACallOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device.db")
	call := device.Call{ID: "r.1.0.1", Action: "insert", Table: "tasks", Data: []byte(`{"title":"once"}`)}
	var answers []string
	for range 2 {
		store, err := device.OpenStore(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			answer, _, err := store.ExecuteOnce(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, string(answer))
		}
		rows, err := store.Rows(t.Context(), "tasks")
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 {
			t.Errorf("the call was done %d times", len(rows))
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range answers[1:] {
		if other != answers[0] {
			t.Errorf("answered %s and %s", answers[0], other)
		}
	}
}
