package thread

import (
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
)

// The kinds of a thread's effects.
const (
	EffectRoute  = "route"
	EffectTurn   = "turn"
	EffectDevice = "device"
	EffectServer = "server"
)

// How long a thread waits.
const (
	RouteDeadline  = time.Minute
	TurnDeadline   = 5 * time.Minute
	ServerDeadline = 5 * time.Minute
	OfferDeadline  = 30 * time.Second // from the moment a call is offered to its device
	DeviceWait     = 24 * time.Hour   // for a device that is offline
	FirstIndexing  = time.Minute      // from a note that was not indexed to the first attempt in the background
)

// The ids of timers. A timer's name holds what it waits for, so that the decider can tell a stale one.
func retryTimer(run string, turn, attempt int) string {
	return fmt.Sprintf("retry:%s:%d:%d", run, turn, attempt)
}
func deadlineTimer(effect string) string { return "turn:" + effect }
func offerTimer(step string) string      { return "offer:" + step }
func waitTimer(step string) string       { return "wait:" + step }
func serverTimer(step string) string     { return "step:" + step }
func indexTimer(step string) string      { return "index:" + step }

// Opens asks for the choice of an agent.
func (e RouteRequested) Opens() []domain.Effect {
	return []domain.Effect{{ID: RouteEffect(e.RunID, e.Attempt), Kind: EffectRoute, Group: e.RunID, Repeatable: true}}
}

// Sets begins the deadline.
func (e RouteRequested) Sets() []domain.Timer {
	return []domain.Timer{{ID: deadlineTimer(RouteEffect(e.RunID, e.Attempt)), Group: e.RunID, After: RouteDeadline}}
}

// Clears ends the wait for this attempt.
func (e RouteRequested) Clears() []string { return []string{retryTimer(e.RunID, 0, e.Attempt)} }

// Closes ends the route effect, unless a RouteFailed has ended it.
func (e RouteDecided) Closes() []string {
	if e.Attempt == 0 {
		return nil
	}
	return []string{RouteEffect(e.RunID, e.Attempt)}
}

// Clears ends the deadline.
func (e RouteDecided) Clears() []string {
	if e.Attempt == 0 {
		return nil
	}
	return []string{deadlineTimer(RouteEffect(e.RunID, e.Attempt))}
}

// Closes ends the route effect.
func (e RouteFailed) Closes() []string { return []string{RouteEffect(e.RunID, e.Attempt)} }

// Clears ends the deadline.
func (e RouteFailed) Clears() []string {
	return []string{deadlineTimer(RouteEffect(e.RunID, e.Attempt))}
}

// Sets begins the wait for the next attempt.
func (e RouteFailed) Sets() []domain.Timer { return retry(e.RunID, 0, e.Attempt, e.RetryAfter) }

// Opens asks for a model call.
func (e TurnRequested) Opens() []domain.Effect {
	return []domain.Effect{{ID: TurnEffect(e.RunID, e.Turn, e.Attempt), Kind: EffectTurn, Group: e.RunID, Repeatable: true}}
}

// Sets begins the deadline.
func (e TurnRequested) Sets() []domain.Timer {
	return []domain.Timer{{ID: deadlineTimer(TurnEffect(e.RunID, e.Turn, e.Attempt)), Group: e.RunID, After: TurnDeadline}}
}

// Clears ends the wait for this attempt.
func (e TurnRequested) Clears() []string { return []string{retryTimer(e.RunID, e.Turn, e.Attempt)} }

// Closes ends the model call.
func (e TurnCompleted) Closes() []string { return []string{TurnEffect(e.RunID, e.Turn, e.Attempt)} }

// Clears ends the deadline.
func (e TurnCompleted) Clears() []string {
	return []string{deadlineTimer(TurnEffect(e.RunID, e.Turn, e.Attempt))}
}

// Closes ends the model call.
func (e TurnFailed) Closes() []string { return []string{TurnEffect(e.RunID, e.Turn, e.Attempt)} }

// Clears ends the deadline.
func (e TurnFailed) Clears() []string {
	return []string{deadlineTimer(TurnEffect(e.RunID, e.Turn, e.Attempt))}
}

// Sets begins the wait for the next attempt.
func (e TurnFailed) Sets() []domain.Timer { return retry(e.RunID, e.Turn, e.Attempt, e.RetryAfter) }

func retry(run string, turn, failed int, after time.Duration) []domain.Timer {
	if after <= 0 {
		return nil
	}
	return []domain.Timer{{ID: retryTimer(run, turn, failed+1), Group: run, After: after}}
}

// ID is the step's effect.
func (s Step) ID() string { return StepID(s.CallID, s.Number) }

// group is what ends with the step's run, or, in the background, with the indexing of its call.
func (s Step) group() string {
	if s.Background {
		return s.CallID
	}
	return s.RunID
}

// Opens asks for the step. A call answered at once, or one that no device can do, asks for nothing.
func (s Step) Opens() []domain.Effect {
	effect := domain.Effect{ID: s.ID(), Group: s.group()}
	switch {
	case s.Executor == OnDevice && s.DeviceID != "":
		effect.Kind, effect.Device, effect.Repeatable = EffectDevice, s.DeviceID, s.Repeatable
	case s.Executor == OnServer:
		effect.Kind, effect.Repeatable = EffectServer, true
	default:
		return nil
	}
	return []domain.Effect{effect}
}

// Sets begins the wait for the device to come online, or a worker's deadline.
func (s Step) Sets() []domain.Timer {
	switch {
	case s.Executor == OnDevice && s.DeviceID != "":
		return []domain.Timer{{ID: waitTimer(s.ID()), Group: s.group(), After: DeviceWait}}
	case s.Executor == OnServer:
		return []domain.Timer{{ID: serverTimer(s.ID()), Group: s.group(), After: ServerDeadline}}
	default:
		return nil
	}
}

// Clears ends the wait for a background step.
func (s Step) Clears() []string {
	if !s.Background {
		return nil
	}
	return []string{indexTimer(s.ID())}
}

// Starts names the step if it must not be sent again.
func (e ToolCallOffered) Starts() []string {
	if !e.Started {
		return nil
	}
	return []string{StepID(e.CallID, e.Step)}
}

// Sets begins the device's 30 s.
func (e ToolCallOffered) Sets() []domain.Timer {
	group := e.RunID
	if e.Background {
		group = e.CallID
	}
	return []domain.Timer{{ID: offerTimer(StepID(e.CallID, e.Step)), Group: group, After: OfferDeadline}}
}

// Clears ends the wait for the device.
func (e ToolCallOffered) Clears() []string { return []string{waitTimer(StepID(e.CallID, e.Step))} }

// Closes ends the step.
func (e ToolStepCompleted) Closes() []string { return []string{StepID(e.CallID, e.Step)} }

// Clears ends whatever waited for the step.
func (e ToolStepCompleted) Clears() []string { return stepTimers(e.CallID, e.Step) }

// Closes ends the step.
func (e ToolCallCompleted) Closes() []string { return []string{StepID(e.CallID, e.Step)} }

// Clears ends whatever waited for the step.
func (e ToolCallCompleted) Clears() []string { return stepTimers(e.CallID, e.Step) }

// Sets begins the wait for the first attempt to index again.
func (e ToolCallCompleted) Sets() []domain.Timer {
	if !e.NotIndexed {
		return nil
	}
	return indexAgain(e.CallID, e.Step, FirstIndexing)
}

// Closes ends the step.
func (e ToolCallFailed) Closes() []string { return []string{StepID(e.CallID, e.Step)} }

// Clears ends whatever waited for the step.
func (e ToolCallFailed) Clears() []string { return stepTimers(e.CallID, e.Step) }

// Closes ends the step.
func (e IndexingFailed) Closes() []string { return []string{StepID(e.CallID, e.Step)} }

// Clears ends whatever waited for the step.
func (e IndexingFailed) Clears() []string { return stepTimers(e.CallID, e.Step) }

// Sets begins the wait for the next attempt.
func (e IndexingFailed) Sets() []domain.Timer {
	if e.RetryAfter <= 0 {
		return nil
	}
	return indexAgain(e.CallID, e.Step, e.RetryAfter)
}

func indexAgain(call string, failed int, after time.Duration) []domain.Timer {
	return []domain.Timer{{ID: indexTimer(StepID(call, failed+1)), Group: call, After: after}}
}

func stepTimers(call string, step int) []string {
	id := StepID(call, step)
	return []string{waitTimer(id), offerTimer(id), serverTimer(id)}
}

// ClosesGroup ends all background steps of the call.
func (e IndexingEnded) ClosesGroup() string { return e.CallID }

// ClosesGroup ends everything that the run still waits for.
func (e RunCompleted) ClosesGroup() string { return e.RunID }

// ClosesGroup ends everything that the run still waits for.
func (e RunFailed) ClosesGroup() string { return e.RunID }

// ClosesGroup ends everything that the run still waits for.
func (e RunCancelled) ClosesGroup() string { return e.RunID }
