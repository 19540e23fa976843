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

// result takes a tool_result or a data_response. It is recorded beside the reader, also when the socket dies meanwhile: a
// client without a journal can't say it again.
func (s *session) result(kind string, frame []byte) error {
	a, err := readAnswer(kind, frame)
	if err != nil {
		return err
	}
	if _, _, step := thread.ParseStepID(a.id); !step && !maybeRequest(a.id) {
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
	c := g.calls.answered(s.scope, device, a)
	g.gate.Go(func() {
		defer s.inHand.Add(-size)
		if err := g.record(s, device, a, c); err != nil && g.life.Err() == nil {
			g.Log.Warn("recording a device's answer failed", "call", a.id, "error", err)
		}
	})
	return nil
}

func (s *session) unknownCall(id string) {
	s.fail(errorFrame{Code: "unknown_call", Message: "there is no call with this id", ID: cut(id)})
}

// record makes an answer part of the log, and says so. The same answer again is the same command.
func (g *Gateway) record(s *session, device string, a *answer, c *call) error {
	if c == nil {
		found, err := g.lookUp(g.life, s.scope, a.id)
		if err != nil {
			return err
		}
		c = found
	}
	if c == nil || !a.fits(c) {
		s.unknownCall(a.id)
		return nil
	}
	size := int64(len(a.body))
	if size > maxResult {
		a.failure = thread.ResultTooLarge
		a.words = fmt.Sprintf("the result has %d bytes, at most %d are taken: ask for less, with a filter or a limit", size, maxResult)
	} else {
		a.judge(c)
	}
	key, err := g.indexKey(g.life, s.scope)
	if err != nil {
		return err
	}
	answered := digest(key, a.body)
	ctx, span := g.received(c.answering(g.life, a.trace), a.kind, "", c.step.RunID)
	defer span.End()
	_, err = g.insist(ctx, streams.Command{
		Scope: s.scope,
		ID:    streams.Derive(streams.OwnID(s.scope, "result:"+a.id), device+" "+answered),
		Actor: domain.Actor{Kind: domain.ActorDevice, ID: device, Device: device, Run: c.step.RunID},
		// The digest stands for the answer, whatever this release makes of it.
		Request: []byte("result " + a.id + " " + device + " " + answered),
		Body:    c.answer(device, a),
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
	c.ended(string(a.failure))
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

// lookUp finds a call that nobody waits for here: its answer is late, or repeated, or it was offered before a restart. Nil:
// there is no such call.
func (g *Gateway) lookUp(ctx context.Context, scope domain.Scope, id string) (*call, error) {
	find := g.findRequest
	if _, _, step := thread.ParseStepID(id); step {
		find = g.findStep
	}
	for {
		c, err := find(ctx, scope, id)
		if err == nil || errors.Is(err, streams.ErrScopeErased) {
			return c, err
		}
		g.Log.Warn("looking for a device's call failed, trying again", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// findStep looks for a step among the events of its run.
func (g *Gateway) findStep(ctx context.Context, scope domain.Scope, id string) (*call, error) {
	name, _, _ := thread.ParseStepID(id)
	events, err := g.Events.Run(ctx, scope, thread.RunOf(name))
	if err != nil {
		return nil, err
	}
	for _, r := range events {
		event, err := g.Schema.Decode(r)
		if err != nil {
			continue // of a newer release, and so none that this gateway offered
		}
		c, _, ok := callOf(r, event)
		if !ok || c.id != id || c.step.Executor != thread.OnDevice {
			continue
		}
		return g.opened(ctx, r)
	}
	return nil, nil
}

// opened is the call that an event asks for, with what its content says of it.
func (g *Gateway) opened(ctx context.Context, r streams.Recorded) (*call, error) {
	event, err := g.Schema.Open(ctx, g.Keys, r)
	if err != nil {
		return nil, err
	}
	c, _, ok := callOf(r, event)
	if !ok {
		return nil, fmt.Errorf("live: a %T asks a device for nothing", event)
	}
	return c, nil
}

// cut keeps an id that is none of ours short.
func cut(id string) string {
	if len(id) > 200 {
		return id[:200]
	}
	return id
}
