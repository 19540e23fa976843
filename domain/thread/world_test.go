package thread_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
)

// world is a thread and what its events asked for, kept as the read models keep it.
type world struct {
	state   thread.State
	events  []thread.Event
	effects map[string]domain.Effect // open
	closed  map[string]bool
	timers  map[string]domain.Timer
	started map[string]bool
	active  string
	ended   map[string]bool
}

func newWorld() *world {
	return &world{
		effects: map[string]domain.Effect{}, closed: map[string]bool{}, timers: map[string]domain.Timer{},
		started: map[string]bool{}, ended: map[string]bool{},
	}
}

// do decides a command and folds what it led to. The error is about a broken law; a rejection is none.
func (w *world) do(c thread.Command) ([]thread.Event, *domain.Rejection, error) {
	events, err := w.state.Decide(c)
	var no *domain.Rejection
	switch {
	case errors.As(err, &no) && len(events) > 0:
		return nil, no, fmt.Errorf("%T was refused and has events", c)
	case errors.As(err, &no):
		return nil, no, nil
	case err != nil:
		return nil, nil, fmt.Errorf("%T: %w", c, err)
	}
	for _, e := range events {
		w.state = w.state.Evolve(e)
		w.events = append(w.events, e)
		if err := w.follow(e); err != nil {
			return events, nil, err
		}
	}
	return events, nil, nil
}

// follow keeps the open effects and the timers: first what an event ends, then what it begins.
func (w *world) follow(e thread.Event) error {
	if c, ok := e.(domain.Closes); ok {
		for _, id := range c.Closes() {
			if w.closed[id] {
				return fmt.Errorf("%T closes %s a second time", e, id)
			}
			if _, open := w.effects[id]; open {
				w.closed[id] = true
				delete(w.effects, id)
			}
		}
	}
	if c, ok := e.(domain.Clears); ok {
		for _, id := range c.Clears() {
			delete(w.timers, id)
		}
	}
	if g, ok := e.(domain.ClosesGroup); ok {
		for id, effect := range w.effects {
			if effect.Group == g.ClosesGroup() {
				w.closed[id] = true
				delete(w.effects, id)
			}
		}
		maps.DeleteFunc(w.timers, func(_ string, t domain.Timer) bool { return t.Group == g.ClosesGroup() })
	}
	if s, ok := e.(domain.Starts); ok {
		for _, id := range s.Starts() {
			if _, open := w.effects[id]; !open || w.started[id] {
				return fmt.Errorf("%T starts %s, which is not open or started already", e, id)
			}
			w.started[id] = true
		}
	}
	if o, ok := e.(domain.Opens); ok {
		for _, effect := range o.Opens() {
			if _, open := w.effects[effect.ID]; open || w.closed[effect.ID] {
				return fmt.Errorf("%T opens %s a second time", e, effect.ID)
			}
			if effect.Group == "" || effect.Kind == thread.EffectDevice && effect.Device == "" {
				return fmt.Errorf("%T opens %+v", e, effect)
			}
			w.effects[effect.ID] = effect
		}
	}
	if s, ok := e.(domain.Sets); ok {
		for _, t := range s.Sets() {
			if t.After <= 0 || t.Group == "" {
				return fmt.Errorf("%T sets %+v", e, t)
			}
			w.timers[t.ID] = t
		}
	}
	return w.count(e)
}

// count checks that at most one run is active and that each ends once.
func (w *world) count(e thread.Event) error {
	end := func(run string) error {
		if w.ended[run] {
			return fmt.Errorf("run %s ended twice", run)
		}
		if w.ended[run] = true; w.active == run {
			w.active = ""
		}
		return nil
	}
	switch e := any(e).(type) { // of some only
	case thread.RunStarted:
		if w.active != "" || w.ended[e.RunID] {
			return fmt.Errorf("run %s started beside %q", e.RunID, w.active)
		}
		w.active = e.RunID
	case thread.RunCompleted:
		return end(e.RunID)
	case thread.RunFailed:
		return end(e.RunID)
	case thread.RunCancelled:
		return end(e.RunID)
	}
	return nil
}

// kind is the Go name of an event, with what matters of it.
func kind(e thread.Event) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", e), "thread.")
	switch e := any(e).(type) { // of some only
	case thread.RunResumed:
		return name + " " + strings.Join(e.Steps, " ")
	case thread.MessagePosted:
		if e.Queued {
			name += " queued"
		}
	case thread.RunStarted:
		name += " " + e.RunID
	case thread.RunCancelled:
		name += " " + e.RunID + " by " + e.By
	case thread.RunFailed:
		name += fmt.Sprintf(" %s: %s", e.Code, e.Reason)
	case thread.RouteRequested:
		name += fmt.Sprintf(" %d", e.Attempt)
	case thread.RouteFailed:
		name += fmt.Sprintf(" %s %v", e.Class, e.RetryAfter)
	case thread.RouteDecided:
		name += " " + e.Agent
		if e.Fallback {
			name += " fallback"
		}
	case thread.TurnRequested:
		name += fmt.Sprintf(" %d.%d", e.Turn, e.Attempt)
		if e.NoTools {
			name += " no tools"
		}
	case thread.TurnFailed:
		name += fmt.Sprintf(" %s %v", e.Class, e.RetryAfter)
	case thread.TurnCompleted:
		name += fmt.Sprintf(" %d calls", e.Calls)
	case thread.ToolCallRequested:
		name += " " + e.ID() + " " + string(e.Executor)
	case thread.ToolStepRequested:
		name += " " + e.ID() + " " + string(e.Executor)
		if e.Background {
			name += " background"
		}
	case thread.ToolCallOffered:
		name += " " + thread.StepID(e.CallID, e.Step)
	case thread.ToolStepCompleted:
		name += " " + thread.StepID(e.CallID, e.Step)
	case thread.ToolCallCompleted:
		name += " " + thread.StepID(e.CallID, e.Step)
		if e.NotIndexed {
			name += " not indexed"
		}
	case thread.ToolCallFailed:
		name += " " + thread.StepID(e.CallID, e.Step) + " " + string(e.Reason)
	case thread.IndexingFailed:
		name += fmt.Sprintf(" %s %s %v", thread.StepID(e.CallID, e.Step), e.Reason, e.RetryAfter)
	case thread.IndexingEnded:
		name += fmt.Sprintf(" %v", e.OK)
	}
	return name
}

func kinds(events []thread.Event) []string {
	var names []string
	for _, e := range events {
		names = append(names, kind(e))
	}
	return names
}

func encoded(s thread.State) string {
	b, err := json.Marshal(s)
	if err != nil {
		return "broken: " + err.Error()
	}
	return string(b)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Commands, as their senders write them.

var on = thread.On{Thread: "t"}

func post(run string, change ...func(*thread.PostMessage)) thread.PostMessage {
	c := thread.PostMessage{On: on, RunID: run, Channel: thread.Home, DeviceID: "d1", Content: thread.Content{Text: "hello"}}
	for _, f := range change {
		f(&c)
	}
	return c
}

func first(c *thread.PostMessage)      { c.New = true }
func interrupt(c *thread.PostMessage)  { c.OnBusy = thread.Interrupt }
func refuse(c *thread.PostMessage)     { c.OnBusy = thread.Refuse }
func deviceless(c *thread.PostMessage) { c.DeviceID = "" }

func route(run, agent string) thread.DecideRoute {
	return thread.DecideRoute{On: on, RunID: run, Attempt: 1, Agent: agent}
}

func answer(run string, turn, attempt int, text string, plans ...thread.Plan) thread.CompleteTurn {
	c := thread.CompleteTurn{On: on, RunID: run, Turn: turn, Attempt: attempt, Model: "m", FinishReason: "stop", Plans: plans}
	c.Content.Text = text
	for i := range plans {
		c.Content.Calls = append(c.Content.Calls, thread.TurnCall{ModelID: fmt.Sprint(i), Tool: plans[i].Tool, Arguments: "{}"})
		c.Content.Payloads = append(c.Content.Payloads, thread.Payload{Answer: "no"})
	}
	return c
}

var (
	list   = thread.Plan{Tool: "list_tasks", Executor: thread.OnDevice, Action: "select", Table: "tasks", Repeatable: true}
	insert = thread.Plan{Tool: "create_note", Executor: thread.OnDevice, Action: "insert", Table: "notes", Then: thread.IndexNote}
	search = thread.Plan{Tool: "search_notes", Executor: thread.OnServer, Then: "embed_query"}
	wrong  = thread.Plan{Tool: "unknown", Executor: thread.AtOnce}
	upsert = thread.Plan{Tool: "create_note", Executor: thread.OnDevice, Action: "vector_upsert", Repeatable: true}
	vector = thread.Plan{Tool: "search_notes", Executor: thread.OnDevice, Action: "vector_search", Repeatable: true}
)

func offer(call string, step int) thread.OfferCall {
	return thread.OfferCall{On: on, CallID: call, Step: step, DeviceID: "d1"}
}

func result(call string, step int) thread.RecordResult {
	return thread.RecordResult{On: on, CallID: call, Step: step, DeviceID: "d1", Result: thread.Result{Device: []byte(`{"ok":true}`)}}
}

func advance(call string, step int, next *thread.Plan) thread.AdvanceCall {
	return thread.AdvanceCall{On: on, CallID: call, Step: step, Next: next}
}

func resume(run, device string) thread.ResumeRun {
	return thread.ResumeRun{On: on, RunID: run, DeviceID: device}
}

func fire(timer string) thread.FireTimer { return thread.FireTimer{On: on, Timer: timer} }

func failTurn(run string, turn, attempt int, class thread.FailureClass) thread.FailTurn {
	return thread.FailTurn{On: on, RunID: run, Turn: turn, Attempt: attempt, Class: class}
}
