package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// The claiming of calls.
const (
	takeAtOnce  = 64
	listAtMost  = 10_000
	offerWithin = 20 * time.Second // for an intent to become a frame, else somebody tries again
)

// claim takes the open calls of the devices whose newest socket is here, when the model changes, when a
// device connects, and once in a while.
func (g *Gateway) claim(ctx context.Context) error {
	ticker := time.NewTicker(g.Timing.Sweep)
	defer ticker.Stop()
	doubt := false // a Take failed: it may have claimed something all the same
	for {
		changed := g.Waiter.Changed(openeffects.Name)
		full, err := g.take(ctx, doubt)
		if err != nil && ctx.Err() == nil {
			g.Log.Warn("claiming the calls of devices failed, trying again", "error", err)
		}
		doubt = err != nil
		if full {
			continue
		}
		select {
		case <-changed:
		case <-g.woken:
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take claims what there is and offers each call on its own.
func (g *Gateway) take(ctx context.Context, doubt bool) (full bool, err error) {
	if doubt {
		if err := g.reconcile(ctx); err != nil {
			return false, err
		}
	}
	keys := g.sessions.here()
	if len(keys) == 0 {
		return false, nil
	}
	pairs := make([]string, len(keys))
	for i, k := range keys {
		pairs[i] = openeffects.DevicePair(k.scope, k.device)
	}
	effects, err := g.Effects.Take(ctx, g.id, []string{device.EffectKind}, pairs, takeAtOnce)
	if err != nil {
		return false, err
	}
	for _, e := range effects {
		g.calls.hold(e.Scope, e.ID)
		if !g.gate.Go(func() { g.offer(e) }) {
			return false, nil
		}
	}
	return len(effects) == takeAtOnce, nil
}

// reconcile gives back the claims that nobody here knows of.
func (g *Gateway) reconcile(ctx context.Context) error {
	claimed, err := g.Effects.List(ctx, "", listAtMost)
	if err != nil {
		return err
	}
	for _, c := range claimed {
		if c.Worker == g.id && !g.calls.held(c.Scope, c.ID) {
			if err := g.Effects.Release(ctx, g.id, c.Scope, c.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// offer brings a claimed call to its device: the command first, then who waits, then the frame.
func (g *Gateway) offer(e openeffects.Effect) {
	ctx, cancel := context.WithTimeout(tracing.With(tracing.From(g.life, e.Trace), tracing.Fields{Run: runOf(e.Stream, e.ID)}), offerWithin)
	defer cancel()
	c, fields, err := g.prepare(ctx, e)
	if err == nil {
		ctx = g.offering(ctx, c)
		err = g.begin(ctx, c)
	}
	var rejected *domain.Rejection
	switch {
	case err == nil:
	case errors.As(err, &rejected) && (rejected.Code == thread.CodeStarted || rejected.Code == device.CodeStarted):
		g.unknown(c)
		return
	case errors.As(err, &rejected), errors.Is(err, streams.ErrScopeErased):
		g.calls.let(e.Scope, e.ID) // it has its outcome; the event that says so takes it out of the model
		c.ended("has_outcome")
		return
	default:
		if !errors.Is(err, errGone) {
			g.Log.WarnContext(ctx, "offering a call failed, giving it back", "call", e.ID, "error", err)
		}
		c.ended("not_offered")
		g.release(e.Scope, e.ID)
		return
	}
	frame, err := callFrame(c, fields, g.Now().Add(thread.OfferDeadline).UTC().Format(time.RFC3339Nano))
	if err != nil {
		// The deadline ends it, in words that the model reads.
		g.Log.ErrorContext(ctx, "a call can't be sent", "call", e.ID, "error", err)
		c.ended("not_sent")
		return
	}
	c.offered = g.Now()
	g.calls.wait(c)
	g.metrics.calls.WithLabelValues(callOffered).Inc()
	c.session.sendBytes(frame)
	if c.session.closed.Load() { // its calls may have been collected just before this one was registered
		g.abandon(c.session)
	}
}

// prepare reads what is to be done and finds the socket for it.
func (g *Gateway) prepare(ctx context.Context, e openeffects.Effect) (*call, json.RawMessage, error) {
	s := g.sessions.of(deviceKey{e.Scope, e.Device})
	if s == nil || s.closed.Load() {
		return nil, nil, errGone
	}
	if newest, err := s.newest(ctx); err != nil || !newest {
		return nil, nil, errors.Join(err, errGone)
	}
	c, fields, err := g.intent(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	c.session, c.started = s, !c.step.Repeatable && !s.said().Journal
	return c, fields, nil
}

// intent reads the event that asked for an effect.
func (g *Gateway) intent(ctx context.Context, e openeffects.Effect) (*call, json.RawMessage, error) {
	key := streams.StreamKey{Scope: e.Scope, Stream: e.Stream}
	rows, err := g.Events.After(ctx, key, e.Version-1, 1)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 || rows[0].Version != e.Version {
		return nil, nil, fmt.Errorf("live: event %d of %s is not stored yet", e.Version, e.Stream)
	}
	event, err := g.Schema.Open(ctx, g.Keys, rows[0])
	if err != nil {
		return nil, nil, err
	}
	c, fields, ok := callOf(rows[0], event)
	if !ok {
		return nil, nil, fmt.Errorf("live: a %T asks a device for nothing", event)
	}
	return c, fields, nil
}

// begin says in the log that the call goes out. Each claim says it anew, under an id of its own: the answer
// to an earlier claim's would prove nothing.
func (g *Gateway) begin(ctx context.Context, c *call) error {
	_, err := g.insist(ctx, streams.Command{
		Scope: c.scope, ID: uuid.NewString(),
		Actor: domain.Actor{Kind: domain.ActorWorker, ID: g.id, Device: c.step.DeviceID, Run: c.step.RunID},
		Body:  c.offering(),
	})
	return err
}

// abandon decides what becomes of the calls of a socket that is gone: those that may be sent again are given
// back, the others end, since nobody knows what the device did.
func (g *Gateway) abandon(s *session) {
	for _, c := range g.calls.leave(s) {
		if c.started {
			g.gate.Go(func() { g.unknown(c) })
			continue
		}
		c.ended("socket_closed")
		g.gate.Go(func() { g.release(c.scope, c.id) })
	}
}

// unknown ends a step that was begun and whose outcome nobody will tell.
func (g *Gateway) unknown(c *call) {
	g.metrics.calls.WithLabelValues(callUnknown).Inc()
	defer g.calls.let(c.scope, c.id)
	defer c.ended("outcome_unknown")
	_, err := g.insist(tracing.From(g.life, c.trace), streams.Command{
		Scope: c.scope, ID: streams.OwnID(c.scope, "unknown:"+c.id),
		Actor: domain.Actor{Kind: domain.ActorWorker, ID: g.id, Run: c.step.RunID},
		Body: c.lost("the device was sent this, but its connection ended before it answered: " +
			"it may or may not have been done. Look before you repeat it."),
	})
	var rejected *domain.Rejection
	if err != nil && !errors.As(err, &rejected) && g.life.Err() == nil {
		g.Log.Warn("ending a call failed", "call", c.id, "error", err)
	}
}

// release gives a claim back, so that it is offered again, here or elsewhere.
func (g *Gateway) release(scope domain.Scope, id string) {
	g.metrics.calls.WithLabelValues(callReturned).Inc()
	defer g.calls.let(scope, id)
	for g.life.Err() == nil {
		ctx, cancel := context.WithTimeout(g.life, 5*time.Second)
		err := g.Effects.Release(ctx, g.id, scope, id)
		cancel()
		if err == nil {
			return
		}
		g.Log.Warn("giving a call back failed, trying again", "call", id, "error", err)
		if pause(g.life, time.Second) != nil {
			return
		}
	}
}

// rowOf is the id of the row that a step's fields name.
func rowOf(fields json.RawMessage) string {
	var f struct {
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(fields, &f) != nil {
		return ""
	}
	return f.Data.ID
}
