package live

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams"
)

// hold gives a device that arrived its calls, unless runs wait for it: those go on when the policy has resumed them,
// in whatever process that is, and until then the device's calls are left alone.
func (g *Gateway) hold(s *session, h *hello) {
	if s.ready.Load() {
		return // another hello of the same socket
	}
	waiting := g.waitingRuns(s.ctx, deviceKey{s.scope, h.device})
	s.await(waiting)
	if len(waiting) == 0 {
		g.give(s)
	}
}

// see says in the log that the device is here. One that comes again within the hour, and that nothing waits for, is not
// worth a command.
func (g *Gateway) see(s *session, h *hello) {
	key := deviceKey{s.scope, h.device}
	waiting := !s.ready.Load()
	if !waiting && !g.sightings.due(key, g.Now()) {
		return
	}
	answer, err := g.insist(s.ctx, streams.Command{
		Scope: s.scope, ID: uuid.NewString(), Actor: s.actor(),
		Body: device.See{Device: h.device, At: g.Now().UTC().Truncate(time.Second), Waiting: waiting},
	})
	var rejected *domain.Rejection
	if err != nil {
		if s.ctx.Err() == nil && !errors.As(err, &rejected) {
			g.Log.Warn("recording that a device was seen failed", "device", h.device, "error", err)
		}
		g.give(s)
		return
	}
	g.sightings.note(key, g.Now())
	if waiting {
		s.gate.Go(func() { g.resume(s, key, answer.Position) })
	}
}

// resume gives a device its calls when all that waited for it were resumed. What the look before the device was seen
// took for waiting, and was not any more, is not waited for.
func (g *Gateway) resume(s *session, key deviceKey, seen streams.Position) {
	defer g.give(s)
	still := map[string]bool{}
	if err := g.Waiter.Wait(s.ctx, seen, runs.Name); err == nil {
		for _, run := range g.waitingRuns(s.ctx, key) {
			still[run] = true
		}
	}
	s.awaitOnly(still)
	timer := time.NewTimer(g.Timing.Resume)
	defer timer.Stop()
	select {
	case <-s.resumed:
	case <-s.ctx.Done():
	case <-timer.C:
		g.Log.Warn("the runs that waited for a device were not resumed in time, and go on without: does a process run the role policies?",
			"device", key.device, "waited", g.Timing.Resume)
	}
}

// waitingRuns are the runs that wait for a device. Where that can't be known now nothing waits: a call that is offered
// although its run was not resumed is a call like any other.
func (g *Gateway) waitingRuns(parent context.Context, key deviceKey) []string {
	if g.Runs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(parent, 5*time.Second)
	defer cancel()
	found, err := g.Runs.Waiting(ctx, key.scope, key.device)
	if err != nil && parent.Err() == nil {
		g.Log.Warn("looking for runs that wait for a device failed", "device", key.device, "error", err)
	}
	ids := make([]string, len(found))
	for i, r := range found {
		ids[i] = r.ID
	}
	return ids
}

// give lets a device have its calls.
func (g *Gateway) give(s *session) {
	s.ready.Store(true)
	g.wake()
}

// await begins to wait until runs were resumed.
func (s *session) await(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = make(map[string]bool, len(ids))
	for _, id := range ids {
		s.awaited[id] = true
	}
	if len(ids) > 0 {
		s.gateway.awaiting.Add(1)
		context.AfterFunc(s.ctx, func() { s.gateway.awaiting.Add(-1) })
	}
}

// awaitOnly goes on waiting for those runs alone.
func (s *session) awaitOnly(still map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.awaited {
		if !still[id] {
			delete(s.awaited, id)
		}
	}
	s.awaitedLess()
}

// wentOn says that a run does not wait any more.
func (s *session) wentOn(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.awaited[run] {
		delete(s.awaited, run)
		s.awaitedLess()
	}
}

func (s *session) awaitedLess() {
	if len(s.awaited) == 0 {
		select {
		case s.resumed <- struct{}{}:
		default:
		}
	}
}

// resumedBy tells those who wait for a run that an event ends its waiting.
func (g *Gateway) resumedBy(scope domain.Scope, event any) {
	var run string
	switch e := event.(type) {
	case thread.RunResumed:
		run = e.RunID
	case thread.ToolCallOffered:
		run = e.RunID
	case domain.ClosesGroup:
		run = e.ClosesGroup()
	}
	if run == "" {
		return
	}
	for _, s := range g.sessions.ofScope(scope) {
		s.wentOn(run)
	}
}
