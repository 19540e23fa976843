package thread_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain/thread"
)

var (
	plans   = []thread.Plan{list, insert, search, wrong}
	nexts   = []*thread.Plan{nil, &upsert, &vector, &wrong}
	classes = []thread.FailureClass{thread.RateLimited, thread.Unavailable, thread.Truncated, thread.Malformed, thread.Refused, thread.Deadline, ""}
	reasons = []thread.FailureReason{thread.OutcomeUnknown, thread.ServerError, thread.NoDevice, thread.TimedOut}
)

func pick[T any](t *rapid.T, from []T, label string) T { return rapid.SampledFrom(from).Draw(t, label) }

// command draws what might come next: mostly outcomes and timers of what is open, sometimes anything.
func command(t *rapid.T, w *world, n int) thread.Command {
	runs := []string{"r0", "r1", "r2", "nobody"}
	if w.active != "" {
		runs = append(runs, w.active, w.active)
	}
	switch rapid.IntRange(0, 12).Draw(t, "what") {
	case 0:
		c := post(fmt.Sprintf("r%d", n), func(c *thread.PostMessage) {
			c.New = n == 0 || rapid.IntRange(0, 9).Draw(t, "new") == 0
			c.OnBusy = pick(t, []thread.OnBusy{"", thread.Queue, thread.Refuse, thread.Interrupt}, "on busy")
			c.DeviceID = pick(t, []string{"d1", "d1", "d2", ""}, "device")
		})
		return c
	case 1:
		return thread.Cancel{On: on, RunID: pick(t, runs, "run")}
	case 2, 3:
		if ids := sorted(w.timers); len(ids) > 0 {
			return fire(pick(t, ids, "timer"))
		}
		return fire(pick(t, []string{"retry:r0:1:2", "turn:r0.turn.1.1", "offer:r0.1.0.1", "index:r0.1.0.3", "x", "", "wait:", "retry:::"}, "timer"))
	case 4:
		return anything(t, runs)
	default:
		if ids := sorted(w.effects); len(ids) > 0 {
			return outcome(t, w, pick(t, ids, "effect"))
		}
		return post(fmt.Sprintf("r%d", n), func(c *thread.PostMessage) { c.New = len(w.events) == 0 })
	}
}

func scan(t *rapid.T, text, format string, into ...any) {
	if _, err := fmt.Sscanf(text, format, into...); err != nil {
		t.Fatalf("%s is not %s: %v", text, format, err)
	}
}

// outcome is one of the ways in which an effect may end, or begin.
func outcome(t *rapid.T, w *world, id string) thread.Command {
	effect := w.effects[id]
	var turn, attempt int
	switch effect.Kind {
	case thread.EffectRoute:
		scan(t, strings.TrimPrefix(id, effect.Group+".route."), "%d", &attempt)
		if rapid.Bool().Draw(t, "route ok") {
			return thread.DecideRoute{On: on, RunID: effect.Group, Attempt: attempt, Agent: pick(t, []string{"", "note_agent"}, "agent")}
		}
		return thread.FailRoute{On: on, RunID: effect.Group, Attempt: attempt, Class: pick(t, classes, "class")}
	case thread.EffectTurn:
		scan(t, strings.TrimPrefix(id, effect.Group+".turn."), "%d.%d", &turn, &attempt)
		if rapid.IntRange(0, 3).Draw(t, "turn ok") > 0 {
			c := answer(effect.Group, turn, attempt, pick(t, []string{"", "hi"}, "text"), rapid.SliceOfN(rapid.SampledFrom(plans), 0, 4).Draw(t, "plans")...)
			c.FinishReason = pick(t, []string{"stop", "stop", "stop", ""}, "finish")
			return c
		}
		c := failTurn(effect.Group, turn, attempt, pick(t, classes, "class"))
		c.RetryAfter = pick(t, []time.Duration{0, time.Second, time.Minute, time.Hour}, "retry after")
		return c
	}
	call, step, _ := thread.ParseStepID(id)
	if effect.Kind == thread.EffectServer {
		if rapid.IntRange(0, 3).Draw(t, "step ok") == 0 {
			return thread.FailStep{On: on, CallID: call, Step: step, Reason: pick(t, reasons, "reason")}
		}
		c := advance(call, step, pick(t, nexts, "next"))
		c.NotIndexed = rapid.Bool().Draw(t, "not indexed")
		return c
	}
	device := pick(t, []string{effect.Device, effect.Device, effect.Device, "d9"}, "device")
	switch rapid.IntRange(0, 3).Draw(t, "device does") {
	case 0:
		return thread.OfferCall{On: on, CallID: call, Step: step, DeviceID: device, Started: rapid.Bool().Draw(t, "started")}
	case 1:
		return thread.FailStep{On: on, CallID: call, Step: step, Reason: pick(t, reasons, "reason")}
	default:
		return thread.RecordResult{On: on, CallID: call, Step: step, DeviceID: device, Failure: pick(t, []thread.FailureReason{"", "", thread.DeviceError}, "failure")}
	}
}

// anything is a command about whatever, mostly something that is over or never was.
func anything(t *rapid.T, runs []string) thread.Command {
	run := pick(t, runs, "run")
	turn, attempt, step := rapid.IntRange(-1, 3).Draw(t, "turn"), rapid.IntRange(-1, 3).Draw(t, "attempt"), rapid.IntRange(-1, 4).Draw(t, "step")
	call := pick(t, []string{thread.CallID(run, turn, 0), thread.CallID(run, turn, attempt), run, "", "..", run + ".01.0"}, "call")
	switch rapid.IntRange(0, 10).Draw(t, "anything") {
	case 10:
		return thread.ResumeRun{On: on, RunID: run, DeviceID: "d1"}
	case 0:
		return thread.Open{On: on}
	case 1:
		return thread.Rename{On: on, Title: thread.Title{Text: "T"}}
	case 2:
		return thread.DecideRoute{On: on, RunID: run, Attempt: attempt, Agent: "x"}
	case 3:
		return thread.FailRoute{On: on, RunID: run, Attempt: attempt, Class: thread.Unavailable}
	case 4:
		return answer(run, turn, attempt, "hi", list)
	case 5:
		return failTurn(run, turn, attempt, thread.Truncated)
	case 6:
		return offer(call, step)
	case 7:
		return result(call, step)
	case 8:
		return thread.FailStep{On: on, CallID: call, Step: step, Reason: pick(t, reasons, "reason")}
	default:
		return advance(call, step, pick(t, nexts, "next"))
	}
}

// waits reports whether the group has an effect and a timer, or a timer alone where an attempt is awaited:
// whoever must act may die, the timer goes on.
func (w *world) waits(group string) bool {
	timers, effects := 0, 0
	for _, t := range w.timers {
		if t.Group == group {
			timers++
		}
	}
	for _, e := range w.effects {
		if e.Group == group {
			effects++
		}
	}
	return timers > 0 && timers >= effects
}

func (w *world) fork() *world {
	var state thread.State
	if err := json.Unmarshal([]byte(encoded(w.state)), &state); err != nil {
		panic(err)
	}
	return &world{state: state}
}

// TestAnySequenceKeepsTheLaws: whatever commands arrive in whatever order, nothing panics, at most one run
// is active, every run ends at most once, every effect is closed at most once, and what the thread waits
// for is exactly what is open: it can never be stuck, and no timer or effect outlives its use.
func TestAnySequenceKeepsTheLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for n := range rapid.IntRange(1, 120).Draw(t, "commands") {
			before := encoded(w.state)
			held := w.state
			c := command(t, w, n)
			if _, _, err := w.do(c); err != nil {
				t.Fatalf("%T: %v\n%s", c, err, strings.Join(kinds(w.events), "\n"))
			}
			if encoded(held) != before {
				t.Fatalf("%T changed a state in place", c)
			}
			if w.active != "" && !w.waits(w.active) {
				t.Fatalf("run %s waits for nothing\n%s", w.active, strings.Join(kinds(w.events), "\n"))
			}
			for id, effect := range w.effects {
				if !w.waits(effect.Group) {
					t.Fatalf("effect %s has no deadline\n%s", id, strings.Join(kinds(w.events), "\n"))
				}
			}
		}
		for _, id := range sorted(w.timers) {
			events, _ := w.state.Decide(fire(id))
			if len(events) == 0 {
				t.Fatalf("nothing waits for timer %s\n%s", id, strings.Join(kinds(w.events), "\n"))
			}
			next := newWorld()
			next.timers[id] = w.timers[id]
			for _, e := range events {
				if err := next.follow(e); err != nil && !strings.Contains(err.Error(), "not open") {
					t.Fatal(err)
				}
			}
			if _, again := next.timers[id]; again {
				t.Fatalf("timer %s fired and is still set\n%s", id, strings.Join(kinds(events), "\n"))
			}
		}
		for _, id := range sorted(w.effects) {
			if effect := w.effects[id]; effect.Kind == thread.EffectDevice || effect.Kind == thread.EffectServer {
				call, step, ok := thread.ParseStepID(id)
				events, err := w.state.Decide(thread.FailStep{On: on, CallID: call, Step: step, Reason: thread.ServerError})
				if !ok || err != nil || len(events) == 0 {
					t.Fatalf("effect %s is open and can't be ended: %v\n%s", id, err, strings.Join(kinds(w.events), "\n"))
				}
			}
		}
	})
}

// TestAStateIsAllThatCounts: encoded and decoded in the middle of any sequence it has the same future.
func TestAStateIsAllThatCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for n := range rapid.IntRange(1, 60).Draw(t, "commands") {
			c := command(t, w, n)
			other := w.fork()
			want, wantErr := w.state.Decide(c)
			got, gotErr := other.state.Decide(c)
			if diff := cmp.Diff(want, got) + cmp.Diff(fmt.Sprint(wantErr), fmt.Sprint(gotErr)); diff != "" {
				t.Fatalf("%T (-kept +stored):\n%s", c, diff)
			}
			if _, _, err := w.do(c); err != nil {
				t.Fatal(err)
			}
			for _, e := range got {
				other.state = other.state.Evolve(e)
			}
			if encoded(other.state) != encoded(w.state) {
				t.Fatalf("after %T:\n%s\n%s", c, encoded(w.state), encoded(other.state))
			}
		}
	})
}

// TestEvolveSeesClearDataOnly: events as they are read without a key lead to the same state.
func TestEvolveSeesClearDataOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for n := range rapid.IntRange(1, 60).Draw(t, "commands") {
			if _, _, err := w.do(command(t, w, n)); err != nil {
				t.Fatal(err)
			}
		}
		var state thread.State
		for _, e := range w.events {
			state = state.Evolve(cleared(t, e))
		}
		if encoded(state) != encoded(w.state) {
			t.Fatalf("with content %s\nwithout      %s", encoded(w.state), encoded(state))
		}
	})
}

// cleared is the event as its clear data says, through the wire and back.
func cleared(t *rapid.T, e thread.Event) thread.Event {
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range thread.Events {
		if k.Type() == reflect.TypeOf(e) {
			fresh := k.Fresh()
			if err := json.Unmarshal(data, fresh.Interface()); err != nil {
				t.Fatal(err)
			}
			return fresh.Elem().Interface().(thread.Event)
		}
	}
	t.Fatalf("%T has no wire name", e)
	return nil
}

// TestNothingWithoutAWireName: every event and command of the package has a wire name.
func TestNothingWithoutAWireName(t *testing.T) {
	w := newWorld()
	for _, k := range thread.Events {
		if _, ok := k.Fresh().Elem().Interface().(thread.Event); !ok {
			t.Errorf("%s is no event of a thread", k.Name())
		}
		w.state = w.state.Evolve(k.Fresh().Elem().Interface().(thread.Event))
	}
	for _, k := range thread.Commands {
		c, ok := k.Fresh().Elem().Interface().(thread.Command)
		if !ok {
			t.Errorf("%s is no command of a thread", k.Name())
			continue
		}
		if _, _, err := newWorld().do(c); err != nil {
			t.Error(err)
		}
	}
}

// conversation adds a run with a tool call and an answer, and returns its number of events.
func conversation(t *testing.T, w *world, n int) {
	run := fmt.Sprintf("run%d", n)
	message := post(run)
	message.New = n == 0
	for _, c := range []thread.Command{
		message, route(run, "task_agent"), answer(run, 1, 1, "", list), offer(run+".1.0", 1), result(run+".1.0", 1), answer(run, 2, 1, "done"),
	} {
		if _, no, err := w.do(c); no != nil || err != nil {
			t.Fatal(no, err)
		}
	}
}

// TestCostDoesNotGrow: a thread with 100,000 events has a state as small, and decides as cheaply, as a young one.
func TestCostDoesNotGrow(t *testing.T) {
	cost := func(w *world) (size int, allocations float64) {
		c := post("next")
		return len(encoded(w.state)), testing.AllocsPerRun(100, func() {
			if _, err := w.state.Decide(c); err != nil {
				t.Fatal(err)
			}
		})
	}
	w, n := newWorld(), 0
	for ; len(w.events) < 300; n++ {
		conversation(t, w, n)
	}
	size, allocations := cost(w)
	for ; len(w.events) < 100_000; n++ {
		conversation(t, w, n)
		w.closed = map[string]bool{}
	}
	sizeNow, allocationsNow := cost(w)
	t.Logf("state %d bytes after 300 events, %d after %d; allocations %v and %v", size, sizeNow, len(w.events), allocations, allocationsNow)
	if sizeNow > size+200 || allocationsNow > allocations {
		t.Errorf("the cost grew: %d to %d bytes, %v to %v allocations", size, sizeNow, allocations, allocationsNow)
	}
	if sizeNow > 4096 {
		t.Errorf("an idle thread's state has %d bytes", sizeNow)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, runs := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("%d runs", runs), func(b *testing.B) {
			var state thread.State
			for n := range runs {
				run := fmt.Sprintf("run%d", n)
				message := post(run)
				message.New = n == 0
				for _, c := range []thread.Command{message, route(run, "a"), answer(run, 1, 1, "done")} {
					events, err := state.Decide(c)
					if err != nil {
						b.Fatal(err)
					}
					for _, e := range events {
						state = state.Evolve(e)
					}
				}
			}
			for b.Loop() {
				if _, err := state.Decide(post("next")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
