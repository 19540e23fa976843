package thread

import (
	"slices"
	"strconv"
	"strings"
)

// Evolve is the thread after an event. It reads clear data only, never changes what the receiver
// shares, and ignores what does not fit: it cannot fail.
func (s State) Evolve(e Event) State {
	s.version++
	switch e := e.(type) {
	case Opened, Titled, LateResultRecorded, RunResumed:
		return s
	case MessagePosted:
		s.waiting = append(slices.Clone(s.waiting), waiting{
			run: e.RunID, version: s.version, channel: e.Channel, device: e.DeviceID, zone: e.Timezone, focus: e.Focus,
		})
		return s
	case RunStarted:
		s.run = &run{id: e.RunID, device: e.DeviceID, stage: routing}
		return s.withoutWaiting(e.RunID)
	case RunCompleted:
		return s.end(e.RunID)
	case RunFailed:
		return s.end(e.RunID)
	case RunCancelled:
		return s.end(e.RunID).withoutWaiting(e.RunID)
	case RouteRequested:
		return s.change(e.RunID, func(r *run) { r.stage, r.attempt = routing, e.Attempt })
	case RouteDecided:
		return s.change(e.RunID, func(r *run) { r.agent = e.Agent })
	case RouteFailed:
		return s.change(e.RunID, func(r *run) { r.stage, r.attempt = routeRetry, e.Attempt })
	case TurnRequested:
		return s.change(e.RunID, func(r *run) {
			if e.Turn != r.turn {
				r.deadlines = 0
			}
			r.stage, r.turn, r.attempt, r.noTools = thinking, e.Turn, e.Attempt, e.NoTools
		})
	case TurnCompleted:
		return s.change(e.RunID, func(r *run) {
			r.stage, r.calls = callingTool, append(slices.Clone(r.calls), e.Calls)
			if e.Calls > 0 {
				r.rounds++
			}
		})
	case TurnFailed:
		return s.change(e.RunID, func(r *run) {
			r.stage, r.attempt = thinkRetry, e.Attempt
			if e.Class == Deadline {
				r.deadlines++
			}
		})
	case ToolCallRequested:
		return s.change(e.RunID, func(r *run) {
			r.open = append(slices.Clone(r.open), call{id: e.CallID, tool: e.Tool, step: stepOf(e.Step)})
		})
	case ToolStepRequested:
		return s.update(e.CallID, func(c *call) {
			c.step = stepOf(e.Step)
			c.indexing = c.indexing || e.Executor == OnServer && e.Then == IndexNote
		}).begun(e)
	case ToolCallOffered:
		return s.update(e.CallID, func(c *call) {
			if c.step.number == e.Step {
				c.step.offered, c.step.started = true, c.step.started || e.Started
			}
		})
	case ToolStepCompleted:
		return s
	case ToolCallCompleted:
		if e.NotIndexed {
			return s.postpone(e.CallID, e.Step)
		}
		return s.withoutCall(e.CallID)
	case ToolCallFailed:
		return s.withoutCall(e.CallID)
	case IndexingFailed:
		return s.postpone(e.CallID, e.Step)
	case IndexingEnded:
		s.indexing = without(s.indexing, func(x indexing) bool { return x.call.id == e.CallID })
		return s
	default:
		return s
	}
}

func stepOf(s Step) step { return step{number: s.Number, executor: s.Executor, then: s.Then} }

func without[T any](list []T, gone func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), gone)
}

func (s State) withoutWaiting(run string) State {
	s.waiting = without(s.waiting, func(w waiting) bool { return w.run == run })
	return s
}

// end forgets what the run waited for, and remembers which calls it had: none, if it ended before it began.
func (s State) end(id string) State {
	last := ended{id: id}
	if w, waits := s.queued(id); waits {
		last.device = w.device
	} else if s.run != nil && s.run.id == id {
		last.device, last.calls = s.run.device, s.run.calls
		s.run = nil
	} else {
		return s
	}
	s.ended = append(slices.Clone(s.ended), last)
	if len(s.ended) > MaxEnded {
		s.ended, s.forgot = s.ended[len(s.ended)-MaxEnded:], true
	}
	return s
}

func (s State) change(id string, f func(*run)) State {
	if s.run == nil || s.run.id != id {
		return s
	}
	r := *s.run
	f(&r)
	s.run = &r
	return s
}

// update changes an open call, of the run or in the background.
func (s State) update(id string, f func(*call)) State {
	if s.run != nil {
		if i := slices.IndexFunc(s.run.open, func(c call) bool { return c.id == id }); i >= 0 {
			return s.change(s.run.id, func(r *run) {
				r.open = slices.Clone(r.open)
				f(&r.open[i])
			})
		}
	}
	if i := slices.IndexFunc(s.indexing, func(x indexing) bool { return x.call.id == id }); i >= 0 {
		s.indexing = slices.Clone(s.indexing)
		f(&s.indexing[i].call)
	}
	return s
}

// begun notes that a background step is no longer waited for by a timer.
func (s State) begun(e ToolStepRequested) State {
	if !e.Background {
		return s
	}
	if i := slices.IndexFunc(s.indexing, func(x indexing) bool { return x.call.id == e.CallID }); i >= 0 {
		s.indexing = slices.Clone(s.indexing)
		s.indexing[i].due = true
	}
	return s
}

// withoutCall ends a call of the active run.
func (s State) withoutCall(id string) State {
	if s.run == nil {
		return s
	}
	return s.change(s.run.id, func(r *run) {
		r.open = without(r.open, func(c call) bool { return c.id == id })
	})
}

// postpone moves a call to the background, or its next attempt to later.
func (s State) postpone(id string, failed int) State {
	next := step{number: failed + 1, executor: OnServer, then: IndexNote}
	if i := slices.IndexFunc(s.indexing, func(x indexing) bool { return x.call.id == id }); i >= 0 {
		s.indexing = slices.Clone(s.indexing)
		x := &s.indexing[i]
		x.call.step, x.attempt, x.due = next, x.attempt+1, false
		return s
	}
	x := indexing{call: call{id: id, step: next, indexing: true}, attempt: 1}
	if s.run != nil {
		x.device = s.run.device
		for _, c := range s.run.open {
			if c.id == id {
				x.call.tool = c.tool
			}
		}
	}
	s.indexing = append(slices.Clone(s.indexing), x)
	return s.withoutCall(id)
}

// had reports whether the run had a call of that id.
func (e ended) had(id string) bool {
	parts := strings.Split(id, ".")
	if len(parts) != 3 || parts[0] != e.id {
		return false
	}
	turn, err1 := strconv.Atoi(parts[1])
	index, err2 := strconv.Atoi(parts[2])
	return err1 == nil && err2 == nil && turn >= 1 && turn <= len(e.calls) && index >= 0 && index < e.calls[turn-1] &&
		id == CallID(e.id, turn, index)
}
