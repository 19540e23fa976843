package runs

import (
	"slices"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
)

// runOf is the run that an event of a thread belongs to; empty: none.
func runOf(value any) string {
	switch e := value.(type) {
	case thread.MessagePosted:
		return e.RunID
	case thread.RunStarted:
		return e.RunID
	case thread.RouteRequested:
		return e.RunID
	case thread.RouteDecided:
		return e.RunID
	case thread.RouteFailed:
		return e.RunID
	case thread.TurnRequested:
		return e.RunID
	case thread.TurnCompleted:
		return e.RunID
	case thread.TurnFailed:
		return e.RunID
	case thread.ToolCallRequested:
		return thread.RunOf(e.CallID)
	case thread.ToolStepRequested:
		return thread.RunOf(e.CallID)
	case thread.ToolCallOffered:
		return thread.RunOf(e.CallID)
	case thread.ToolStepCompleted:
		return thread.RunOf(e.CallID)
	case thread.ToolCallCompleted:
		return thread.RunOf(e.CallID)
	case thread.ToolCallFailed:
		return thread.RunOf(e.CallID)
	case thread.LateResultRecorded:
		return thread.RunOf(e.CallID)
	case thread.IndexingFailed:
		return thread.RunOf(e.CallID)
	case thread.IndexingEnded:
		return thread.RunOf(e.CallID)
	case thread.RunCompleted:
		return e.RunID
	case thread.RunFailed:
		return e.RunID
	case thread.RunCancelled:
		return e.RunID
	default: // opened, titled
		return ""
	}
}

// fold changes r by an event that belongs to it. Like Evolve it cannot fail: what does not fit is ignored.
func (r *Run) fold(e projections.Event) {
	at := e.Time()
	switch v := e.Value.(type) {
	case thread.MessagePosted:
		r.ID, r.Thread, r.Channel = v.RunID, e.Stream.ID(), v.Channel
		r.Device, r.Timezone, r.Focus = v.DeviceID, v.Timezone, v.Focus
		r.Status, r.PostedAt, r.MessageVersion = Queued, at, e.Version
	case thread.RunStarted:
		r.Status, r.StartedAt, r.StartVersion = Running, &at, e.Version
		r.Device, r.Timezone, r.Focus, r.Channel = v.DeviceID, v.Timezone, v.Focus, v.Channel
	case thread.RouteRequested:
		if r.Route == nil {
			r.Route = &Route{RequestedAt: at}
		}
		r.Route.Attempts = v.Attempt
	case thread.RouteDecided:
		if r.Route == nil {
			r.Route = &Route{RequestedAt: at}
		}
		r.Agent, r.Route.Model, r.Route.Fallback, r.Route.DecidedAt = v.Agent, v.Model, v.Fallback, &at
	case thread.RouteFailed:
		if r.Route != nil {
			r.Route.Failures = append(r.Route.Failures, Failure{Attempt: v.Attempt, Class: v.Class, RetryAfter: v.RetryAfter, At: at, Version: e.Version})
		}
	case thread.TurnRequested, thread.TurnCompleted, thread.TurnFailed:
		r.foldTurn(e, at)
	case thread.RunCompleted:
		r.end(Completed, e, at)
	case thread.RunFailed:
		r.end(Failed, e, at)
		r.Error = &Error{Code: v.Code, Reason: v.Reason}
	case thread.RunCancelled:
		r.end(Cancelled, e, at)
		r.CancelledBy = v.By
	default:
		r.foldCall(e, at)
	}
	if r.Status == Running || r.Status == Waiting {
		r.Status = r.progress()
	}
}

func (r *Run) end(status Status, e projections.Event, at time.Time) {
	r.Status, r.EndedAt, r.EndVersion = status, &at, e.Version
	if n := len(r.Turns); status == Completed && n > 0 {
		r.AnswerVersion = r.Turns[n-1].Version
	}
}

// progress is Waiting while a device call that is not answered was not offered.
func (r *Run) progress() Status {
	for _, c := range r.Calls {
		if c.EndedAt != nil || len(c.Steps) == 0 {
			continue
		}
		step := c.Steps[len(c.Steps)-1]
		if step.Executor == thread.OnDevice && step.OfferedAt == nil && step.EndedAt == nil && !step.Background {
			return Waiting
		}
	}
	return Running
}

func (r *Run) turn(n int) *Turn {
	i := slices.IndexFunc(r.Turns, func(t Turn) bool { return t.Turn == n })
	if i < 0 {
		r.Turns = append(r.Turns, Turn{Turn: n})
		i = len(r.Turns) - 1
	}
	return &r.Turns[i]
}

func (r *Run) foldTurn(e projections.Event, at time.Time) {
	switch v := e.Value.(type) {
	case thread.TurnRequested:
		t := r.turn(v.Turn)
		if t.Attempts == 0 {
			t.RequestedAt = at
		}
		t.Agent, t.NoTools, t.Status, t.AttemptAt, t.CompletedAt = v.Agent, v.NoTools, "requested", at, nil
		t.Attempts = max(t.Attempts, v.Attempt)
		r.Agent = v.Agent
		r.Attempts++
	case thread.TurnCompleted:
		t := r.turn(v.Turn)
		t.Status, t.Model, t.FinishReason, t.Calls, t.Version, t.CompletedAt = "completed", v.Model, v.FinishReason, v.Calls, e.Version, &at
		t.InputTokens, t.OutputTokens = t.InputTokens+v.InputTokens, t.OutputTokens+v.OutputTokens
		t.Warnings, t.Metadata = v.Warnings, v.Metadata
		r.InputTokens, r.OutputTokens = r.InputTokens+v.InputTokens, r.OutputTokens+v.OutputTokens
		r.Warnings = append(r.Warnings, v.Warnings...)
		if len(v.Metadata) > 0 {
			r.Metadata = v.Metadata
		}
	case thread.TurnFailed:
		t := r.turn(v.Turn)
		t.Status, t.CompletedAt = "failed", &at
		t.Failures = append(t.Failures, Failure{Attempt: v.Attempt, Class: v.Class, RetryAfter: v.RetryAfter, At: at, Version: e.Version})
	}
}
