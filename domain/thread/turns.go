package thread

import (
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain/safety"
)

// Retries of the model.
const (
	FallbackAgent    = "task_agent" // answers when the router names nobody
	MaxAttempts      = 5            // of one turn
	MaxRouteAttempts = 3
	MaxDeadlines     = 2 // attempts of one turn that may meet their deadline
	FirstBackOff     = 500 * time.Millisecond
	MaxRetryAfter    = 10 * time.Minute // a provider that wants more is not waited for
)

const maxWarnings = 32

func (c FailureClass) retryable() bool {
	switch c {
	case RateLimited, Unavailable, Truncated, Malformed, Deadline:
		return true
	default:
		return false
	}
}

// backOff is how long to wait after an attempt that failed: 0.5 s, 1 s, 2 s … or what the far side asked for.
func backOff(attempt int, asked time.Duration) time.Duration {
	return max(asked, FirstBackOff<<min(max(attempt-1, 0), 10))
}

// routes reports whether the run waits for that attempt to route.
func (d *decision) routes(id string, attempt int) bool {
	r := d.state.run
	return r != nil && r.id == id && (r.stage == routing && r.attempt == attempt || safety.Off(safety.OneOutcome))
}

// decideRoute binds the agent and asks for the first turn.
func (d *decision) decideRoute(c DecideRoute) {
	if !d.routes(c.RunID, c.Attempt) {
		return
	}
	agent, fallback := c.Agent, c.Fallback
	if agent == "" {
		agent, fallback = FallbackAgent, true
	}
	d.emit(RouteDecided{RunID: c.RunID, Attempt: c.Attempt, Agent: agent, Model: c.Model, Fallback: fallback})
	d.emit(TurnRequested{RunID: c.RunID, Turn: 1, Attempt: 1, Agent: agent})
}

// failRoute tries again, and falls back to an agent when that is of no use: routing never ends a run.
func (d *decision) failRoute(c FailRoute) {
	if !d.routes(c.RunID, c.Attempt) {
		return
	}
	failed := RouteFailed{RunID: c.RunID, Attempt: c.Attempt, Class: c.Class, Detail: c.Detail}
	if c.Class.retryable() && c.Class != Deadline && c.Attempt < MaxRouteAttempts && c.RetryAfter <= MaxRetryAfter {
		failed.RetryAfter = backOff(c.Attempt, c.RetryAfter)
		d.emit(failed)
		return
	}
	d.emit(failed)
	d.emit(RouteDecided{RunID: c.RunID, Agent: FallbackAgent, Fallback: true})
	d.emit(TurnRequested{RunID: c.RunID, Turn: 1, Attempt: 1, Agent: FallbackAgent})
}

// thinks reports whether the run waits for that attempt of that turn.
func (d *decision) thinks(id string, turn, attempt int) bool {
	r := d.state.run
	return r != nil && r.id == id && (r.stage == thinking && r.turn == turn && r.attempt == attempt || safety.Off(safety.OneOutcome))
}

// completeTurn records a whole turn and asks for its calls, or ends the run. A turn that can't stand
// (no finish reason, nothing said, calls that don't match their plans) counts as failed.
func (d *decision) completeTurn(c CompleteTurn) {
	if !d.thinks(c.RunID, c.Turn, c.Attempt) {
		return
	}
	calls, plans, payloads := c.Content.Calls, c.Plans, c.Content.Payloads
	warnings := c.Warnings
	if d.state.run.noTools && len(calls) > 0 && c.Content.Text != "" {
		warnings = append(warnings[:len(warnings):len(warnings)], fmt.Sprintf("%d tool calls were dropped: the rounds are used up", len(calls)))
		calls, plans, payloads = nil, nil, nil
	}
	class, why := FailureClass(""), ""
	switch {
	case c.FinishReason == "":
		class, why = Truncated, "the stream ended without a finish reason"
	case len(plans) != len(calls) || len(payloads) != len(calls):
		class, why = Malformed, "the tool calls don't match their plans"
	case len(calls) == 0 && c.Content.Text == "":
		class, why = Malformed, "the model answered nothing"
	case d.state.run.noTools && len(calls) > 0:
		class, why = Malformed, "the model asked for tools where it had none"
	}
	if class != "" {
		d.failTurn(FailTurn{On: c.On, RunID: c.RunID, Turn: c.Turn, Attempt: c.Attempt, Class: class, Detail: Detail{Text: why}})
		return
	}
	if len(calls) > MaxCalls {
		warnings = append(warnings[:len(warnings):len(warnings)], fmt.Sprintf("%d tool calls over %d were dropped", len(calls)-MaxCalls, MaxCalls))
		calls, plans, payloads = calls[:MaxCalls], plans[:MaxCalls], payloads[:MaxCalls]
	}
	if len(warnings) > maxWarnings {
		warnings = warnings[len(warnings)-maxWarnings:]
	}
	said := make([]TurnCall, len(calls))
	for i, call := range calls {
		call.CallID = CallID(c.RunID, c.Turn, i)
		said[i] = call
	}
	if len(said) == 0 {
		said = nil
	}
	d.emit(TurnCompleted{
		RunID: c.RunID, Turn: c.Turn, Attempt: c.Attempt, Agent: d.state.run.agent, Model: c.Model, FinishReason: c.FinishReason,
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, Calls: len(calls), Warnings: warnings, Metadata: c.Metadata,
		Content: TurnContent{Text: c.Content.Text, Calls: said},
	})
	if len(calls) == 0 {
		d.emit(RunCompleted{RunID: c.RunID, Turns: c.Turn})
		d.startNext()
		return
	}
	for i, plan := range plans {
		d.requestCall(c.RunID, c.Turn, i, plan, payloads[i])
	}
	d.goOn()
}

// failTurn tries the turn again after a while, or ends the run with a reason.
func (d *decision) failTurn(c FailTurn) {
	if !d.thinks(c.RunID, c.Turn, c.Attempt) {
		return
	}
	r := d.state.run
	failed := TurnFailed{RunID: c.RunID, Turn: c.Turn, Attempt: c.Attempt, Class: c.Class, Detail: c.Detail}
	last := !c.Class.retryable() || c.Attempt >= MaxAttempts || c.RetryAfter > MaxRetryAfter ||
		c.Class == Deadline && r.deadlines+1 >= MaxDeadlines
	if !last {
		failed.RetryAfter = backOff(c.Attempt, c.RetryAfter)
		d.emit(failed)
		return
	}
	d.emit(failed)
	d.emit(RunFailed{RunID: c.RunID, Code: c.Class, Reason: c.reason()})
	d.startNext()
}

// reason is why the run failed, for people.
func (c FailTurn) reason() string {
	words := map[FailureClass]string{
		RateLimited:  "the model's provider limits the rate",
		Unavailable:  "the model could not be reached",
		Truncated:    "the model's answer broke off before its end",
		Malformed:    "the model's answer could not be read",
		Refused:      "the model's provider refused the request: check the key and the model's name",
		ContextLimit: "the conversation is longer than the model can read",
		Deadline:     "the model did not answer in time",
	}[c.Class]
	if words == "" {
		words = "the model call failed"
	}
	switch {
	case c.Class.retryable() && c.RetryAfter > MaxRetryAfter:
		return fmt.Sprintf("%s, and asks to wait %s", words, c.RetryAfter.Round(time.Second))
	case c.Attempt > 1:
		return fmt.Sprintf("%s, after %d attempts", words, c.Attempt)
	}
	return words
}

// goOn asks for the next turn once every call of this one has an outcome.
func (d *decision) goOn() {
	r := d.state.run
	if r == nil || r.stage != callingTool || len(r.open) > 0 {
		return
	}
	d.emit(TurnRequested{RunID: r.id, Turn: r.turn + 1, Attempt: 1, Agent: r.agent, NoTools: r.rounds >= MaxRounds})
}
