package thread

import (
	"strconv"
	"strings"
)

// fireTimer does what a timer was set for. One that nothing waits for any more changes nothing.
func (d *decision) fireTimer(c FireTimer) {
	kind, rest, _ := strings.Cut(c.Timer, ":")
	switch kind {
	case "retry":
		d.tryAgain(rest)
	case "turn":
		d.deadline(rest)
	case "index":
		d.indexAgain(rest)
	case "offer", "wait", "step":
		d.stepDeadline(kind, rest)
	}
}

// tryAgain begins the next attempt of a route or a turn: "{run}:{turn}:{attempt}", turn 0 being the route.
func (d *decision) tryAgain(rest string) {
	r := d.state.run
	parts := strings.Split(rest, ":")
	if r == nil || len(parts) != 3 || parts[0] != r.id {
		return
	}
	turn, err1 := strconv.Atoi(parts[1])
	attempt, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || turn != r.turn || attempt != r.attempt+1 {
		return
	}
	switch r.stage {
	case routeRetry:
		d.emit(RouteRequested{RunID: r.id, Attempt: attempt})
	case thinkRetry:
		d.emit(TurnRequested{RunID: r.id, Turn: turn, Attempt: attempt, Agent: r.agent, NoTools: r.noTools})
	default: // an attempt is under way already
	}
}

// deadline fails the attempt that is being waited for.
func (d *decision) deadline(effect string) {
	r := d.state.run
	switch {
	case r == nil:
	case r.stage == routing && effect == RouteEffect(r.id, r.attempt):
		d.failRoute(FailRoute{RunID: r.id, Attempt: r.attempt, Class: Deadline})
	case r.stage == thinking && effect == TurnEffect(r.id, r.turn, r.attempt):
		d.failTurn(FailTurn{RunID: r.id, Turn: r.turn, Attempt: r.attempt, Class: Deadline})
	}
}

// stepDeadline fails a step: "offer" for a device that did not answer, "wait" for one that did not come,
// "step" for a worker.
func (d *decision) stepDeadline(kind, id string) {
	callID, number, ok := ParseStepID(id)
	if !ok {
		return
	}
	p, open := d.state.pending(callID, number)
	if !open {
		return
	}
	s := p.call.step
	switch {
	case kind == "offer" && s.executor == OnDevice && s.offered:
		d.fail(p, TimedOut, 0, Result{})
	case kind == "wait" && s.executor == OnDevice && !s.offered:
		d.fail(p, DeviceOffline, 0, Result{})
	case kind == "step" && s.executor == OnServer:
		d.fail(p, ServerError, 0, Result{})
	default:
		return
	}
	d.goOn()
}

// indexAgain begins an attempt to index a note in the background.
func (d *decision) indexAgain(id string) {
	for _, x := range d.state.indexing {
		if c := x.call; !x.due && id == StepID(c.id, c.step.number) {
			d.emit(ToolStepRequested{Step: Step{
				CallID: c.id, RunID: RunOf(c.id), Number: c.step.number, Tool: c.tool, Executor: OnServer, Then: IndexNote, Background: true,
			}})
			return
		}
	}
}
