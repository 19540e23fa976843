package transcript

import (
	"github.com/cairnhq/cairn/domain/thread"
)

func (t *Thread) apply(version uint64, event any) {
	t.Version = version
	switch e := event.(type) {
	case thread.MessagePosted:
		t.posted[e.RunID] = &e
		if r := t.Run(e.RunID); r != nil {
			r.Message = e.Content
		}
	case thread.RunStarted:
		run := &Run{ID: e.RunID, Channel: e.Channel, Focus: e.Focus, Timezone: e.Timezone, First: t.Whole && len(t.Runs) == 0}
		if posted := t.posted[e.RunID]; posted != nil {
			run.Message = posted.Content
		}
		t.Runs = append(t.Runs, run)
	case thread.RouteRequested:
		t.change(e.RunID, func(r *Run) { r.Pending = Pending{Route: 1, Attempt: e.Attempt} })
	case thread.RouteDecided:
		t.change(e.RunID, func(r *Run) { r.Agent, r.Pending = e.Agent, Pending{} })
	case thread.RouteFailed:
		t.change(e.RunID, func(r *Run) { r.Pending = Pending{} })
	case thread.TurnRequested:
		t.change(e.RunID, func(r *Run) {
			r.Agent, r.Pending = e.Agent, Pending{Turn: e.Turn, Attempt: e.Attempt, NoTools: e.NoTools}
		})
	case thread.TurnCompleted:
		t.change(e.RunID, func(r *Run) { t.completed(r, e) })
	case thread.TurnFailed:
		t.change(e.RunID, func(r *Run) { r.Pending = Pending{} })
	case thread.RunCompleted:
		t.change(e.RunID, func(r *Run) { r.End, r.Pending = Completed, Pending{} })
	case thread.RunFailed:
		t.change(e.RunID, func(r *Run) { r.End, r.Reason, r.Pending = Failed, e.Reason, Pending{} })
	case thread.RunCancelled:
		t.change(e.RunID, func(r *Run) { r.End, r.Pending = Cancelled, Pending{} })
	default:
		t.applyCall(event)
	}
}

func (t *Thread) completed(r *Run, e thread.TurnCompleted) {
	r.Pending = Pending{}
	turn := &Turn{Number: e.Turn, Text: e.Content.Text}
	for i, c := range e.Content.Calls {
		id := thread.CallID(e.RunID, e.Turn, i)
		call := t.call(id, e.RunID)
		call.ModelID, call.Named, call.Arguments = c.ModelID, c.Tool, c.Arguments
		turn.Calls = append(turn.Calls, call)
	}
	r.Turns = append(r.Turns, turn)
}

func (t *Thread) applyCall(event any) {
	switch e := event.(type) {
	case thread.ToolCallRequested:
		c := t.call(e.CallID, e.RunID)
		c.Tool, c.Checked = e.Tool, e.Payload.Arguments
		c.Steps[e.Number] = Step{Step: e.Step, Payload: e.Payload}
	case thread.ToolStepRequested:
		t.call(e.CallID, e.RunID).Steps[e.Number] = Step{Step: e.Step, Payload: e.Payload}
	case thread.ToolStepCompleted:
		t.finish(e.CallID, e.RunID, e.Step, e.Result)
	case thread.ToolCallCompleted:
		c := t.finish(e.CallID, e.RunID, e.Step, e.Result)
		c.Done, c.Last, c.NotIndexed, c.Result = true, e.Step, e.NotIndexed, e.Result
	case thread.ToolCallFailed:
		c := t.call(e.CallID, e.RunID)
		c.Done, c.Last, c.Failure, c.Bytes, c.Result = true, e.Step, e.Reason, e.Bytes, e.Result
	case thread.IndexingFailed:
		t.finish(e.CallID, e.RunID, e.Step, thread.Result{})
	case thread.IndexingEnded:
		if c := t.calls[e.CallID]; c != nil {
			c.NotIndexed = c.NotIndexed && !e.OK
		}
	}
}

// finish notes the result of a step, and the rows in it.
func (t *Thread) finish(call, run string, number int, result thread.Result) *Call {
	c := t.call(call, run)
	s := c.Steps[number]
	s.Done, s.Result = true, result
	c.Steps[number] = s
	t.change(run, func(r *Run) {
		step := thread.StepID(call, number)
		r.Tables.Asked(step, s.Table)
		r.Tables.Answered(step, result.Device)
	})
	return c
}

func (t *Thread) change(run string, f func(*Run)) {
	if r := t.Run(run); r != nil {
		f(r)
	}
}

func (t *Thread) call(id, run string) *Call {
	c := t.calls[id]
	if c == nil {
		c = &Call{ID: id, RunID: run, Steps: map[int]Step{}}
		t.calls[id] = c
	}
	return c
}
