package thread_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
)

func (p *prediction) offer(c thread.OfferCall) string {
	w, open := p.step(c.CallID, c.Step)
	switch {
	case !open && p.existed(c.CallID):
		return thread.CodeCallEnded
	case !open || w.step.Executor != thread.OnDevice:
		return domain.CodeNotFound
	case w.device != c.DeviceID:
		return thread.CodeWrongDevice
	case w.started:
		return thread.CodeStarted
	case !w.offered || c.Started:
		p.say("ToolCallOffered %s", w.step.ID())
	}
	return ""
}

func (p *prediction) result(c thread.RecordResult) string {
	id := thread.StepID(c.CallID, c.Step)
	w, open := p.step(c.CallID, c.Step)
	if !open {
		r, known, _ := p.remembered(thread.RunOf(c.CallID))
		switch {
		case !p.existed(c.CallID) || c.Step < 1:
			return domain.CodeNotFound
		case known && r.DeviceID != c.DeviceID:
			return thread.CodeWrongDevice
		}
		p.say("LateResultRecorded")
		return ""
	}
	switch {
	case w.step.Executor != thread.OnDevice:
		return domain.CodeNotFound
	case w.device != c.DeviceID:
		return thread.CodeWrongDevice
	case c.Failure != "":
		p.fail(w, c.Failure)
	case w.background:
		p.say("ToolStepCompleted %s", id)
		p.say("IndexingEnded true")
	case w.step.Then == "":
		p.say("ToolCallCompleted %s", id)
		p.ends(w)
	default:
		p.say("ToolStepCompleted %s", id)
		p.say("ToolStepRequested %s server", thread.StepID(c.CallID, c.Step+1))
	}
	return ""
}

func (p *prediction) failStep(c thread.FailStep) string {
	if c.Reason == thread.TimedOut { // the thread's own word
		return domain.CodeInvalid
	}
	w, open := p.step(c.CallID, c.Step)
	switch {
	case !open:
	case c.Reason == thread.OutcomeUnknown && !w.started:
		return thread.CodeNotStarted
	default:
		p.fail(w, c.Reason)
	}
	return ""
}

// fail ends a step without a result. Where the note is stored already the call is done, and is indexed later.
func (p *prediction) fail(w work, reason thread.FailureReason) {
	switch {
	case w.background:
		again := []time.Duration{0, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 12 * time.Hour, 0}[min(w.attempt, 5)]
		p.say("IndexingFailed %s %s %v", w.step.ID(), reason, again)
		if again == 0 {
			p.say("IndexingEnded false")
		}
	case w.indexing:
		p.say("ToolCallCompleted %s not indexed", w.step.ID())
		p.ends(w)
	default:
		p.say("ToolCallFailed %s %s", w.step.ID(), reason)
		p.ends(w)
	}
}

// ends asks for the next turn if the call was the last that this one waited for.
func (p *prediction) ends(w work) {
	run := thread.RunOf(w.step.CallID)
	if len(p.open(run)) == 1 {
		e, _ := p.last(run).(thread.TurnCompleted)
		p.turn(run, e.Turn+1, 0)
	}
}

func (p *prediction) advance(c thread.AdvanceCall) {
	w, open := p.step(c.CallID, c.Step)
	if !open || w.step.Executor != thread.OnServer {
		return
	}
	id := w.step.ID()
	switch {
	case c.NotIndexed && w.indexing:
		p.fail(w, thread.ServerError)
	case c.Next == nil && w.background:
		p.say("ToolStepCompleted %s", id)
		p.say("IndexingEnded true")
	case c.Next == nil:
		p.say("ToolCallCompleted %s", id)
		p.ends(w)
	case c.Next.Executor != thread.OnDevice, !w.background && c.Step >= 8:
		p.fail(w, thread.ServerError)
	case w.device == "":
		p.fail(w, thread.NoDevice)
	default:
		p.say("ToolStepCompleted %s", id)
		background := ""
		if w.background {
			background = " background"
		}
		p.say("ToolStepRequested %s device%s", thread.StepID(c.CallID, c.Step+1), background)
	}
}

// resume names the steps that the run waits with for its device: those that were not offered.
func (p *prediction) resume(c thread.ResumeRun) {
	r, is := p.active()
	if !is || r.RunID != c.RunID || r.DeviceID != c.DeviceID {
		return
	}
	var ids []string
	for _, w := range p.open(c.RunID) {
		if w.step.Executor == thread.OnDevice && !w.offered {
			ids = append(ids, w.step.ID())
		}
	}
	if len(ids) > 0 {
		p.say("RunResumed %s", strings.Join(ids, " "))
	}
}

// fire does what a timer was set for, if that is still awaited.
func (p *prediction) fire(timer string) {
	name, rest, _ := strings.Cut(timer, ":")
	run, is := p.active()
	switch name {
	case "retry":
		if !is {
			return
		}
		last := p.last(run.RunID)
		if e, ok := last.(thread.RouteFailed); ok && rest == fmt.Sprintf("%s:0:%d", run.RunID, e.Attempt+1) {
			p.say("RouteRequested %d", e.Attempt+1)
		}
		if e, ok := last.(thread.TurnFailed); ok && rest == fmt.Sprintf("%s:%d:%d", run.RunID, e.Turn, e.Attempt+1) {
			p.again(e)
		}
	case "turn":
		if !is {
			return
		}
		last := p.last(run.RunID)
		if e, ok := last.(thread.RouteRequested); ok && rest == thread.RouteEffect(run.RunID, e.Attempt) {
			p.failRoute(thread.FailRoute{RunID: run.RunID, Attempt: e.Attempt, Class: thread.Deadline})
		}
		if e, ok := last.(thread.TurnRequested); ok && rest == thread.TurnEffect(run.RunID, e.Turn, e.Attempt) {
			p.failTurn(run.RunID, e.Turn, e.Attempt, thread.Deadline, 0)
		}
	case "index":
		for call, step := range p.postponed() {
			if rest == thread.StepID(call, step) {
				p.say("ToolStepRequested %s server background", rest)
			}
		}
	case "offer", "wait", "step":
		p.late(name, rest)
	}
}

// again asks for a turn's next attempt, with tools if the one before had them.
func (p *prediction) again(e thread.TurnFailed) {
	for _, before := range collect[thread.TurnRequested](p.past) {
		if before.RunID == e.RunID && before.Turn == e.Turn && before.Attempt == e.Attempt {
			tools := ""
			if before.NoTools {
				tools = " no tools"
			}
			p.say("TurnRequested %d.%d%s", e.Turn, e.Attempt+1, tools)
			return
		}
	}
}

// late ends a step whose time is over.
func (p *prediction) late(timer, id string) {
	call, number, ok := thread.ParseStepID(id)
	if !ok {
		return
	}
	w, open := p.step(call, number)
	device := w.step.Executor == thread.OnDevice
	switch {
	case !open:
	case timer == "offer" && device && w.offered:
		p.fail(w, thread.TimedOut)
	case timer == "wait" && device && !w.offered:
		p.fail(w, thread.DeviceOffline)
	case timer == "step" && !device:
		p.fail(w, thread.ServerError)
	}
}
