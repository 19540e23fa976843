package live

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/streams"
)

// online makes s the newest socket of its device, here and for all gateways. One device's sockets are taken
// one after the other, so that the table and this process agree on which is the newest.
func (g *Gateway) online(s *session, h *hello) {
	key := deviceKey{s.scope, h.device}
	arriving := &g.arriving[maphash.Comparable(g.seed, key)%uint64(len(g.arriving))]
	for {
		arriving.Lock()
		var err error
		if s.closed.Load() {
			arriving.Unlock()
			return
		}
		err = g.Work.Online(s.ctx, s.scope, h.device, g.id, s.id, h.Journal)
		var older *session
		if err == nil {
			older = g.sessions.arrive(key, s)
		}
		arriving.Unlock()
		if older != nil {
			older.close(closeReplaced, "this device connected again")
			g.abandon(older)
		}
		if err == nil {
			g.wake()
			return
		}
		if s.ctx.Err() != nil {
			return // it is not here any more
		}
		g.Log.Warn("recording that a device is here failed, trying again", "device", h.device, "error", err)
		if pause(s.ctx, time.Second) != nil {
			return
		}
	}
}

// offline says that a socket is gone, and what becomes of the calls that were sent to it.
func (g *Gateway) offline(s *session) {
	g.abandon(s)
	h := s.said()
	if h == nil || !g.sessions.depart(deviceKey{s.scope, h.device}, s) {
		return
	}
	ctx, cancel := context.WithTimeout(g.life, 5*time.Second)
	defer cancel()
	if err := g.Work.Offline(ctx, s.scope, h.device, s.id); err != nil {
		// The next look finds that this gateway is dead, or the next socket of the device moves it.
		g.Log.Warn("recording that a device is gone failed", "device", h.device, "error", err)
	}
}

// newest says whether no other gateway has a newer socket of the device. One that is older is closed.
func (s *session) newest(ctx context.Context) (bool, error) {
	h := s.said()
	if h == nil || s.gateway.sessions.of(deviceKey{s.scope, h.device}) != s {
		return true, nil // not here yet
	}
	devices, err := s.gateway.Work.Presence(ctx, s.scope)
	if err != nil {
		return false, err
	}
	for _, d := range devices {
		if d.Device == h.device && d.Socket != s.id {
			s.close(closeReplaced, "this device connected again")
			return false, nil
		}
	}
	return true, nil
}

// touch says each second that this gateway lives.
func (g *Gateway) touch(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := g.Work.Touch(ctx, g.id); err != nil && ctx.Err() == nil {
			g.Log.Warn("the gateway's sign of life failed", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// observe sees every commit: calls that have their outcome, and accounts that are erased.
func (g *Gateway) observe(c streams.Commit) {
	waiting, awaiting := g.calls.any(c.Scope), g.awaiting.Load() > 0
	for _, r := range c.Events {
		if r.Type == g.erased {
			for _, s := range g.sessions.ofScope(c.Scope) {
				s.close(closePolicy, "the account was erased")
			}
		}
		if !waiting && !awaiting {
			continue
		}
		event, err := g.Schema.Decode(r)
		if err != nil {
			continue // of a newer release: it closes nothing that this one opened
		}
		if awaiting {
			g.resumedBy(c.Scope, event)
		}
		var ids []string
		var group string
		if e, ok := event.(domain.Closes); ok {
			ids = e.Closes()
		}
		if e, ok := event.(domain.ClosesGroup); ok {
			group = e.ClosesGroup()
		}
		g.calls.closed(c.Scope, ids, group)
	}
}

// erasedName is the wire name of the event that ends an account.
func erasedName() string {
	for _, kind := range account.Events {
		if _, ok := kind.Fresh().Interface().(*account.Erased); ok {
			return kind.Name()
		}
	}
	return ""
}

// wake makes the gateway look for calls.
func (g *Gateway) wake() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

var errGone = errors.New("live: the device's socket is gone")
