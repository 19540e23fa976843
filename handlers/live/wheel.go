package live

import (
	"context"
	"time"

	"github.com/cairnhq/cairn/projections/work"
)

// pingSlots are the groups in which sockets are pinged, one after the other, so that all are within one period.
const pingSlots = 32

// pings pings every socket once in a period, and closes those whose device has a newer one elsewhere.
func (g *Gateway) pings(ctx context.Context) error {
	ticker := time.NewTicker(max(g.Timing.Ping/pingSlots, time.Millisecond))
	defer ticker.Stop()
	for slot := 0; ; slot = (slot + 1) % pingSlots {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		due := g.sessions.inSlot(slot)
		for _, s := range due {
			s.work(s.outbox.pinged())
		}
		if len(due) > 0 {
			g.gate.Go(func() { g.outdated(ctx, due) })
		}
	}
}

// outdated closes those of the sockets whose device has a newer one at another gateway.
func (g *Gateway) outdated(ctx context.Context, due []*session) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	here := make(map[work.Socket]*session, len(due))
	sockets := make([]work.Socket, 0, len(due))
	for _, s := range due {
		if h := s.said(); h != nil && g.sessions.of(deviceKey{s.scope, h.device}) == s { // else it is not here yet
			socket := work.Socket{Scope: s.scope, Device: h.device, ID: s.id}
			here[socket], sockets = s, append(sockets, socket)
		}
	}
	if len(sockets) == 0 {
		return
	}
	found, err := g.Work.Outdated(ctx, sockets)
	if err != nil && ctx.Err() == nil {
		g.Log.Warn("looking for newer sockets failed", "error", err)
	}
	for _, socket := range found {
		here[socket].close(closeReplaced, "this device connected again")
	}
}
