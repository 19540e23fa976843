package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	asked "github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/streams"
)

// callOf is the call that an event asks for; where the event was opened, with its fields. Its session is not known yet.
func callOf(r streams.Recorded, event any) (*call, json.RawMessage, bool) {
	c := &call{scope: r.Scope, stream: r.Stream, seq: r.Version}
	var fields json.RawMessage
	switch e := event.(type) {
	case thread.ToolCallRequested:
		c.id, c.step, fields = e.Step.ID(), e.Step, e.Payload.Fields
	case thread.ToolStepRequested:
		c.id, c.step, fields = e.Step.ID(), e.Step, e.Payload.Fields
	case device.DataRequested:
		c.id, c.step, c.request, fields = e.RequestID, stepOf(e.Request), asked.Data, e.Payload.Fields
	case device.MutationRequested:
		c.id, c.step, c.request, fields = e.RequestID, stepOf(e.Request), asked.Mutation, e.Payload.Fields
	default:
		return nil, nil, false
	}
	c.updated = rowOf(fields)
	return c, fields, true
}

// stepOf is what a step of a run would say of the same work.
func stepOf(r device.Request) thread.Step {
	return thread.Step{
		CallID: r.RequestID, Number: 1, Tool: r.Action, Executor: thread.OnDevice, Action: r.Action, Table: r.Table, DeviceID: r.DeviceID,
		Repeatable: r.Repeatable,
	}
}

// runOf is the run that an effect belongs to, empty for none.
func runOf(stream domain.Stream, effect string) string {
	if stream.Kind() != "thread" {
		return ""
	}
	return thread.RunOf(effect)
}

// frameType is what a call goes out as.
func (c *call) frameType() string {
	switch c.request {
	case asked.Data:
		return "data_request"
	case asked.Mutation:
		return "mutation"
	default:
		return "tool_call"
	}
}

// offering is the command that says that a call is being sent.
func (c *call) offering() domain.Command {
	if c.request != "" {
		return device.OfferRequest{Device: c.stream.ID(), RequestID: c.id, Started: c.started}
	}
	return thread.OfferCall{
		On: thread.On{Thread: c.stream.ID()}, CallID: c.step.CallID, Step: c.step.Number, DeviceID: c.step.DeviceID, Started: c.started,
	}
}

// lost is the command that says that nobody will tell a call's outcome.
func (c *call) lost(words string) domain.Command {
	if c.request != "" {
		return device.LoseRequest{Device: c.stream.ID(), RequestID: c.id, Result: device.Result{Text: words}}
	}
	return thread.FailStep{
		On: thread.On{Thread: c.stream.ID()}, CallID: c.step.CallID, Step: c.step.Number, Reason: thread.OutcomeUnknown, Result: thread.Result{Text: words},
	}
}

// answer is the command that records what a device answered. What is too large is not kept.
func (c *call) answer(by string, a *answer) domain.Command {
	body, size := a.body, int64(0)
	if a.failure == thread.ResultTooLarge {
		body, size = nil, int64(len(a.body))
	}
	if c.request == "" {
		return thread.RecordResult{
			On: thread.On{Thread: c.stream.ID()}, CallID: c.step.CallID, Step: c.step.Number, DeviceID: by,
			Failure: a.failure, Bytes: size, Mutations: a.mutations, Result: thread.Result{Device: body, Text: a.words},
		}
	}
	command := device.RecordAnswer{
		Device: c.stream.ID(), RequestID: c.id, By: by, Failure: device.FailureReason(a.failure), Bytes: size,
		Result: device.Result{Device: body, Text: a.words},
	}
	for _, m := range a.mutations {
		command.Mutations = append(command.Mutations, device.Mutation(m))
	}
	return command
}

// maybeRequest reports whether an id may be that of a request to a device.
func maybeRequest(id string) bool { return len(id) <= 64 && domain.NewStream("request", id).Valid() }

// findRequest looks for a request outside a run. One that the read model does not have yet is waited for: an answer comes
// from who was asked.
func (g *Gateway) findRequest(ctx context.Context, scope domain.Scope, id string) (*call, error) {
	found, err := g.Requests.Get(ctx, scope, id)
	if errors.Is(err, projections.ErrNotFound) {
		var head streams.Position
		if head, err = g.Events.Head(ctx, scope); err != nil || head.Position == 0 {
			return nil, err
		}
		if err = g.Waiter.Wait(ctx, head, asked.Name); err != nil {
			return nil, err
		}
		if found, err = g.Requests.Get(ctx, scope, id); errors.Is(err, projections.ErrNotFound) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	key := streams.StreamKey{Scope: scope, Stream: domain.NewStream("device", found.Device)}
	rows, err := g.Events.After(ctx, key, found.RequestVersion-1, 1)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0].Version != found.RequestVersion {
		return nil, fmt.Errorf("live: event %d of %s is not stored yet", found.RequestVersion, key.Stream)
	}
	return g.opened(ctx, rows[0])
}
