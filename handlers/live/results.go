package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// What may wait to be recorded of one socket: so many bytes, of which each answer counts as some at least.
const (
	inHandAtOnce = 64 << 20
	inHandLeast  = 64 << 10
)

// result takes a tool_result. It is recorded beside the reader, also when the socket dies meanwhile: a
// client without a journal can't say it again.
func (s *session) result(frame []byte) error {
	a, err := readAnswer(frame)
	if err != nil {
		return err
	}
	name, number, ok := thread.ParseStepID(a.id)
	if !ok {
		s.unknownCall(a.id)
		return nil
	}
	size := max(int64(len(a.body)), inHandLeast)
	if s.inHand.Add(size) > inHandAtOnce {
		s.inHand.Add(-size)
		s.fail(errorFrame{Code: "busy", Message: "too many results wait to be recorded: send it again", ID: cut(a.id)})
		return nil
	}
	device := s.said().device
	g := s.gateway
	c := g.calls.answered(s.scope, a.id, device)
	g.gate.Go(func() {
		defer s.inHand.Add(-size)
		if err := g.record(s, device, name, number, a, c); err != nil && g.life.Err() == nil {
			g.Log.Warn("recording a device's answer failed", "call", a.id, "error", err)
		}
	})
	return nil
}

func (s *session) unknownCall(id string) {
	s.fail(errorFrame{Code: "unknown_call", Message: "there is no call with this id", ID: cut(id)})
}

// record makes an answer part of the log, and says so. The same answer again is the same command.
func (g *Gateway) record(s *session, device, name string, number int, a *answer, c *call) error {
	if c == nil {
		found, err := g.lookUp(g.life, s.scope, name, number)
		if err != nil {
			return err
		}
		if found == nil {
			s.unknownCall(a.id)
			return nil
		}
		c = found
	}
	command := thread.RecordResult{
		On: thread.On{Thread: c.thread}, CallID: name, Step: number, DeviceID: device,
	}
	if size := len(a.body); size > maxResult {
		command.Failure, command.Bytes = thread.ResultTooLarge, int64(size)
		command.Result.Text = fmt.Sprintf("the result has %d bytes, at most %d are taken: ask for less, with a filter or a limit", size, maxResult)
	} else {
		a.judge(c)
		command.Failure, command.Mutations = a.failure, a.mutations
		command.Result = thread.Result{Device: a.body, Text: a.words}
	}
	key, err := g.indexKey(g.life, s.scope)
	if err != nil {
		return err
	}
	answered := digest(key, a.body)
	ctx, span := g.received(c.answering(g.life, a.trace), "tool_result", "", c.step.RunID)
	defer span.End()
	_, err = g.insist(ctx, streams.Command{
		Scope: s.scope,
		ID:    streams.Derive(streams.OwnID(s.scope, "result:"+a.id), device+" "+answered),
		Actor: domain.Actor{Kind: domain.ActorDevice, ID: device, Device: device, Run: c.step.RunID},
		// The digest stands for the answer, whatever this release makes of it.
		Request: []byte("result " + a.id + " " + device + " " + answered),
		Body:    command,
	})
	var rejected *domain.Rejection
	switch {
	case errors.As(err, &rejected):
		c.ended("rejected")
		s.fail(errorFrame{Code: rejected.Code, Message: rejected.Reason, ID: a.id})
		return nil
	case err != nil:
		return err
	}
	g.metrics.calls.WithLabelValues(callAnswered).Inc()
	if !c.offered.IsZero() {
		g.metrics.answered.Observe(g.Now().Sub(c.offered).Seconds())
	}
	g.calls.let(s.scope, a.id)
	c.ended(string(command.Failure))
	s.send(ackFrame{Type: "tool_result_ack", ID: a.id})
	return nil
}

// indexKey is the scope's key for digests; it is waited for while the vault can't be reached.
func (g *Gateway) indexKey(ctx context.Context, scope domain.Scope) ([]byte, error) {
	for {
		key, err := g.Keys.Index(ctx, scope)
		if err == nil || errors.Is(err, streams.ErrScopeErased) {
			return key, err
		}
		g.Log.Warn("reading an index key failed, trying again", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// lookUp finds a device step that nobody waits for here: its answer is late, or repeated, or its call was
// offered before a restart. Nil: there is no such step.
func (g *Gateway) lookUp(ctx context.Context, scope domain.Scope, name string, number int) (*call, error) {
	for {
		events, err := g.Events.Run(ctx, scope, thread.RunOf(name))
		if err == nil {
			var c *call
			if c, err = g.stepIn(ctx, events, name, number); err == nil {
				return c, nil
			}
		}
		if errors.Is(err, streams.ErrScopeErased) {
			return nil, err
		}
		g.Log.Warn("looking for a device's call failed, trying again", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func (g *Gateway) stepIn(ctx context.Context, events []streams.Recorded, name string, number int) (*call, error) {
	for _, r := range events {
		event, err := g.Schema.Decode(r)
		if err != nil {
			continue // of a newer release, and so none that this gateway offered
		}
		step, _, ok := stepOf(event)
		if !ok || step.CallID != name || step.Number != number || step.Executor != thread.OnDevice {
			continue
		}
		if event, err = g.Schema.Open(ctx, g.Keys, r); err != nil {
			return nil, err
		}
		_, payload, _ := stepOf(event)
		return &call{
			scope: r.Scope, thread: r.Stream.ID(), id: thread.StepID(name, number), step: step, seq: r.Version,
			updated: rowOf(payload.Fields),
		}, nil
	}
	return nil, nil
}

// stepOf is the step that an event asks for, and its fields where the event was opened.
func stepOf(event any) (thread.Step, thread.Payload, bool) {
	switch e := event.(type) {
	case thread.ToolCallRequested:
		return e.Step, e.Payload, true
	case thread.ToolStepRequested:
		return e.Step, e.Payload, true
	}
	return thread.Step{}, thread.Payload{}, false
}

// cut keeps an id that is none of ours short.
func cut(id string) string {
	if len(id) > 200 {
		return id[:200]
	}
	return id
}
