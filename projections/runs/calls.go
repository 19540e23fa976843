package runs

import (
	"slices"
	"time"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
)

func (r *Run) foldCall(e projections.Event, at time.Time) {
	switch v := e.Value.(type) {
	case thread.ToolCallRequested:
		r.Calls = append(r.Calls, Call{
			ID: v.CallID, Turn: v.Turn, Index: v.Index, Tool: v.Tool, Status: "requested",
			Steps: []Step{stepOf(v.Step, at)}, RequestedAt: at, RequestVersion: e.Version,
		})
	case thread.ToolStepRequested:
		if c := r.call(v.CallID); c != nil {
			c.Steps = append(c.Steps, stepOf(v.Step, at))
			if c.EndedAt == nil {
				c.Status = "requested"
			}
		}
	case thread.ToolCallOffered:
		r.step(v.CallID, v.Step, func(c *Call, s *Step) {
			if s.OfferedAt == nil {
				s.OfferedAt = &at
			}
			s.Started, s.Device = s.Started || v.Started, v.DeviceID
			if c.EndedAt == nil {
				c.Status = "offered"
			}
		})
	case thread.ToolStepCompleted:
		r.step(v.CallID, v.Step, func(c *Call, s *Step) {
			s.EndedAt = &at
			r.mutated(c, v.Mutations)
		})
	case thread.ToolCallCompleted:
		r.step(v.CallID, v.Step, func(_ *Call, s *Step) { s.EndedAt = &at })
		if c := r.call(v.CallID); c != nil {
			c.Status, c.EndedAt, c.ResultVersion, c.NotIndexed = "completed", &at, e.Version, v.NotIndexed
			if v.NotIndexed {
				c.Indexing = "waiting"
			}
			r.mutated(c, v.Mutations)
		}
	case thread.ToolCallFailed:
		r.step(v.CallID, v.Step, func(_ *Call, s *Step) { s.EndedAt = &at })
		if c := r.call(v.CallID); c != nil {
			c.Status, c.EndedAt, c.ResultVersion, c.Reason, c.Bytes = "failed", &at, e.Version, v.Reason, v.Bytes
		}
	case thread.IndexingFailed:
		r.step(v.CallID, v.Step, func(_ *Call, s *Step) { s.EndedAt = &at })
	case thread.IndexingEnded:
		r.step(v.CallID, v.Step, func(_ *Call, s *Step) { s.EndedAt = &at })
		if c := r.call(v.CallID); c != nil {
			c.Indexing = "failed"
			if v.OK {
				c.Indexing, c.NotIndexed = "done", false
			}
		}
	case thread.LateResultRecorded:
		r.LateResults++
		if c := r.call(v.CallID); c != nil {
			r.mutated(c, v.Mutations)
		}
	}
}

func stepOf(s thread.Step, at time.Time) Step {
	return Step{
		Number: s.Number, Executor: s.Executor, Action: s.Action, Table: s.Table, Device: s.DeviceID,
		Then: s.Then, Background: s.Background, RequestedAt: at,
	}
}

func (r *Run) call(id string) *Call {
	if i := slices.IndexFunc(r.Calls, func(c Call) bool { return c.ID == id }); i >= 0 {
		return &r.Calls[i]
	}
	return nil
}

func (r *Run) step(id string, number int, change func(*Call, *Step)) {
	c := r.call(id)
	if c == nil {
		return
	}
	if i := slices.IndexFunc(c.Steps, func(s Step) bool { return s.Number == number }); i >= 0 {
		change(c, &c.Steps[i])
	}
}

// mutated notes what the run did to the device.
func (r *Run) mutated(c *Call, mutations []thread.Mutation) {
	c.Mutations = append(c.Mutations, mutations...)
	r.Mutations = append(r.Mutations, mutations...)
}
