package thread_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
)

// naive is a thread that keeps everything that happened, and looks up what it must know each time anew. It is what
// thread.State is held against: said from the comments of the commands, with no state of its own to go wrong.
type naive struct{ past []thread.Event }

func (n *naive) opened() bool { return len(n.past) > 0 }

// started are the runs that began, oldest first; the last is active unless it has ended.
func (n *naive) started() []thread.RunStarted {
	return collect[thread.RunStarted](n.past)
}

func collect[E thread.Event](past []thread.Event) []E {
	var found []E
	for _, e := range past {
		if e, ok := any(e).(E); ok {
			found = append(found, e)
		}
	}
	return found
}

func (n *naive) ended(run string) bool {
	return slices.ContainsFunc(n.past, func(e thread.Event) bool { return ends(e) == run })
}

// ends is the run that an event ends; empty: none.
func ends(e thread.Event) string {
	switch e := any(e).(type) { // of some only
	case thread.RunCompleted:
		return e.RunID
	case thread.RunFailed:
		return e.RunID
	case thread.RunCancelled:
		return e.RunID
	}
	return ""
}

func (n *naive) active() (thread.RunStarted, bool) {
	runs := n.started()
	if len(runs) == 0 || n.ended(runs[len(runs)-1].RunID) {
		return thread.RunStarted{}, false
	}
	return runs[len(runs)-1], true
}

// waiting are the messages that have neither begun nor been cancelled, oldest first.
func (n *naive) waiting() []thread.MessagePosted {
	return slices.DeleteFunc(collect[thread.MessagePosted](n.past), func(m thread.MessagePosted) bool {
		return n.ended(m.RunID) || slices.ContainsFunc(n.started(), func(r thread.RunStarted) bool { return r.RunID == m.RunID })
	})
}

func (n *naive) waits(run string) bool {
	return slices.ContainsFunc(n.waiting(), func(m thread.MessagePosted) bool { return m.RunID == run })
}

// remembered is the message of a run, if that is active or one of the last that ended; forgot says that more ended.
func (n *naive) remembered(run string) (m thread.MessagePosted, known, forgot bool) {
	var last []string
	for _, e := range n.past {
		if id := ends(e); id != "" {
			last = append(last, id)
		}
	}
	forgot = len(last) > thread.MaxEnded
	last = last[max(0, len(last)-thread.MaxEnded):]
	if r, is := n.active(); is {
		last = append(last, r.RunID)
	}
	for _, m := range collect[thread.MessagePosted](n.past) {
		if m.RunID == run && slices.Contains(last, run) {
			return m, true, forgot
		}
	}
	return m, false, forgot
}

// existed reports whether there was such a call, as far as a thread remembers.
func (n *naive) existed(call string) bool {
	run := thread.RunOf(call)
	if _, known, forgot := n.remembered(run); !known {
		return forgot && !n.waits(run)
	}
	return slices.ContainsFunc(collect[thread.ToolCallRequested](n.past), func(c thread.ToolCallRequested) bool { return c.CallID == call })
}

// last is the newest event of the run by which one can tell what it waits for.
func (n *naive) last(run string) thread.Event {
	for _, e := range slices.Backward(n.past) {
		switch e := any(e).(type) { // of some only
		case thread.RouteRequested:
			if e.RunID == run {
				return e
			}
		case thread.RouteFailed:
			if e.RunID == run {
				return e
			}
		case thread.TurnRequested:
			if e.RunID == run {
				return e
			}
		case thread.TurnFailed:
			if e.RunID == run {
				return e
			}
		case thread.TurnCompleted:
			if e.RunID == run {
				return e
			}
		}
	}
	return nil
}

// routes and thinks report whether exactly this attempt is awaited.
func (n *naive) routes(run string, attempt int) bool {
	r, is := n.active()
	e, ok := n.last(run).(thread.RouteRequested)
	return is && r.RunID == run && ok && e.Attempt == attempt
}

func (n *naive) thinks(run string, turn, attempt int) (thread.TurnRequested, bool) {
	r, is := n.active()
	e, ok := n.last(run).(thread.TurnRequested)
	return e, is && r.RunID == run && ok && e.Turn == turn && e.Attempt == attempt
}

// work is a step of a call that has no outcome.
type work struct {
	step             thread.Step
	device           string // of its run
	offered, started bool
	background       bool
	indexing         bool // the note is stored, only its index is missing
	attempt          int  // to index it, in the background
}

// step finds a step that waits for an outcome.
func (n *naive) step(call string, number int) (work, bool) {
	var w work
	found := false
	for _, e := range n.past {
		switch e := any(e).(type) { // of some only
		case thread.ToolCallRequested:
			if e.CallID == call {
				w, found = work{step: e.Step}, true
			}
		case thread.ToolStepRequested:
			if e.CallID == call {
				w.step, w.offered, w.started, w.background, found = e.Step, false, false, e.Background, true
				w.indexing = w.indexing || e.Executor == thread.OnServer && e.Then == thread.IndexNote
			}
		case thread.ToolCallOffered:
			if e.CallID == call && e.Step == w.step.Number {
				w.offered, w.started = true, w.started || e.Started
			}
		case thread.ToolCallCompleted:
			if e.CallID == call {
				found, w.attempt, w.indexing = false, 1, true
			}
		case thread.ToolCallFailed:
			found = found && e.CallID != call
		case thread.IndexingFailed:
			if e.CallID == call {
				found = false
				w.attempt++
			}
		case thread.IndexingEnded:
			found = found && e.CallID != call
		}
	}
	for _, r := range n.started() {
		if r.RunID == thread.RunOf(call) {
			w.device = r.DeviceID
		}
	}
	if !w.background && n.ended(thread.RunOf(call)) {
		return w, false
	}
	return w, found && w.step.Number == number
}

// open are the calls of a run without outcome, in the order in which they were asked for.
func (n *naive) open(run string) []work {
	var all []work
	for _, c := range collect[thread.ToolCallRequested](n.past) {
		for number := range thread.MaxSteps + 2 {
			if w, is := n.step(c.CallID, number); c.RunID == run && is && !w.background {
				all = append(all, w)
			}
		}
	}
	return all
}

// postponed are the calls whose note waits to be indexed, and the step that would do it next.
func (n *naive) postponed() map[string]int {
	later := map[string]int{}
	for _, e := range n.past {
		switch e := any(e).(type) { // of some only
		case thread.ToolCallCompleted:
			if e.NotIndexed {
				later[e.CallID] = e.Step + 1
			}
		case thread.IndexingFailed:
			later[e.CallID] = e.Step + 1
		case thread.ToolStepRequested:
			if e.Background && e.Executor == thread.OnServer {
				delete(later, e.CallID) // it is not waiting, but being done
			}
		case thread.IndexingEnded:
			delete(later, e.CallID)
		}
	}
	return later
}

// backOff is 0.5 s, 1 s, 2 s …, or what the far side asks for.
func backOff(attempt int, asked time.Duration) time.Duration {
	wait := 500 * time.Millisecond
	for range attempt - 1 {
		wait *= 2
	}
	return max(wait, asked)
}

func ofUse(c thread.FailureClass) bool {
	return slices.Contains([]thread.FailureClass{thread.RateLimited, thread.Unavailable, thread.Truncated, thread.Malformed, thread.Deadline}, c)
}

// told cuts the sentence for people off what kind says of an event.
func told(events []thread.Event) []string {
	names := []string{}
	for _, e := range events {
		name := kind(e)
		if f, ok := any(e).(thread.RunFailed); ok {
			name = fmt.Sprintf("RunFailed %s", f.Code)
		}
		names = append(names, strings.TrimSpace(name))
	}
	return names
}
