package live

import (
	"math/rand/v2"
	"time"

	"github.com/cairnhq/cairn/handlers/accounts"
)

// How long after a restart clients come again: at random within a time that grows with their number, so that whoever takes
// them has a few hundred a second.
const (
	comeAgainAtLeast = 500 * time.Millisecond
	comeAgainEach    = 2 * time.Millisecond
	comeAgainAtMost  = 20 * time.Second
)

// drain closes every socket with a code that says to come again, waits for what they had in hand, and
// returns when nothing runs any more. What is queued leaves first.
func (g *Gateway) drain() {
	g.sockets.close()
	all := g.sessions.close()
	window := min(comeAgainAtLeast+time.Duration(len(all))*comeAgainEach, comeAgainAtMost)
	for _, s := range all {
		if h := s.said(); h != nil && h.told {
			s.send(reconnectFrame{Type: "reconnect", AfterMS: rand.Int64N(window.Milliseconds()), Reason: "restart"}) //nolint:gosec // jitter
		}
		s.close(closeRestart, "the server is restarting: connect again and go on from where you are")
	}
	late := time.AfterFunc(g.Timing.Drain, func() {
		g.die()
		for _, s := range g.sessions.all() {
			_ = s.conn.shut() // it had its time
		}
	})
	g.sockets.wait()
	g.gate.close()
	g.gate.wait()
	g.leave()
	late.Stop()
	g.die()
	// No socket is left, so that melody's hub waits for nobody.
	if err := g.melody.Close(); err != nil {
		g.Log.Warn("closing the sockets' hub failed", "error", err)
	}
}

// Principals implements fanout.Holder.
func (g *Gateway) Principals() (found []accounts.Principal) {
	for _, s := range g.sessions.all() {
		found = append(found, s.who)
	}
	return found
}

// Revoke closes the sockets of those whom pick picks: they may not be here any more.
func (g *Gateway) Revoke(pick func(accounts.Principal) bool) {
	for _, s := range g.sessions.all() {
		if pick(s.who) {
			s.close(closePolicy, "the session has ended: log in again")
		}
	}
}

// reconnectFrame says when to come again.
type reconnectFrame struct {
	Type    string `json:"type"`
	AfterMS int64  `json:"after_ms"`
	Reason  string `json:"reason"`
}
