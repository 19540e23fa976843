package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/olahol/melody"

	"github.com/cairnhq/cairn/handlers/accounts"
)

// Verifier tells who holds a token or a ticket.
type Verifier interface {
	// Verify reads an access token.
	Verify(accessToken string) (accounts.Principal, error)
	// Redeem takes a single-use ticket.
	Redeem(ctx context.Context, ticket string) (accounts.Principal, error)
}

// never is longer than a socket lives.
const never = 1 << 62

// keySession is where melody keeps a socket's session.
const keySession = "session"

func (g *Gateway) newMelody() *melody.Melody {
	m := melody.New()
	m.Upgrader.ReadBufferSize = 256 // never the server's own buffer: it bypasses conn; small, since a large message goes by
	m.Upgrader.WriteBufferSize = 256
	m.Upgrader.WriteBufferPool = &sync.Pool{} // the session writes; melody only what answers a close frame
	m.Config.MaxMessageSize = maxFrame + 1    // the guard answers before this is met
	m.Config.MessageBufferSize = 1
	m.Config.PingPeriod = never // the gateway pings all of them
	m.Config.PongWait = g.Timing.Ping + g.Timing.Pong
	m.Config.WriteWait = g.Timing.Write
	m.HandleConnect(func(socket *melody.Session) { sessionOf(socket).opened(socket) })
	m.HandleMessage(func(socket *melody.Session, b []byte) { aside(func() { sessionOf(socket).text(b) }) })
	m.HandleMessageBinary(func(socket *melody.Session, b []byte) { aside(func() { sessionOf(socket).binary(b) }) })
	m.HandleDisconnect(func(socket *melody.Session) { sessionOf(socket).ended() })
	return m
}

func sessionOf(socket *melody.Session) *session { return socket.MustGet(keySession).(*session) }

// serve authenticates and upgrades. Who can see a status code is refused by one; who sends the token in the
// address, as browsers must, sees only close codes.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	if !g.sockets.enter() {
		problem(w, http.StatusServiceUnavailable, "unavailable", "the server is stopping")
		return
	}
	defer g.sockets.leave()
	who, early, err := g.authenticate(r)
	if err != nil && !errors.Is(err, accounts.ErrToken) {
		g.Log.WarnContext(r.Context(), "who asks could not be found out", "error", err)
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, "unavailable", "who you are can't be checked now: try again")
		return
	}
	if err != nil && early {
		w.Header().Set("WWW-Authenticate", "Bearer")
		problem(w, http.StatusUnauthorized, "unauthorized", "the token or ticket is missing, wrong or no longer valid")
		return
	}
	s := g.newSession(who)
	if err != nil {
		s.close(closePolicy, "the token is wrong or no longer valid")
	}
	if !g.sessions.add(s) {
		s.cancel()
		problem(w, http.StatusServiceUnavailable, "unavailable", "the server is stopping")
		return
	}
	h := &hijacker{ResponseWriter: w, conn: s.conn, taken: make(chan struct{})}
	answered := make(chan struct{})
	if !g.sockets.Go(func() { defer close(answered); g.keep(s, h, r) }) {
		s.cancel()
		g.sessions.remove(s)
		problem(w, http.StatusServiceUnavailable, "unavailable", "the server is stopping")
		return
	}
	// What the server keeps for a request is given back as soon as it is a socket: there may be many that only wait.
	select {
	case <-h.taken:
	case <-answered:
	}
}

// keep takes a request's connection over and serves it as a socket to its end.
func (g *Gateway) keep(s *session, h *hijacker, r *http.Request) {
	defer s.cancel()
	defer g.sessions.remove(s)
	defer g.Fanout.Hold(s.scope)() // what is committed in its scope is seen while it is here
	defer func() {
		if fault := recover(); fault != nil { // as of a request: the other sockets live on
			g.Log.Error("a socket's reader panicked", "socket", s.id, "panic", fault, "stack", string(debug.Stack()))
			s.ended()
		}
	}()
	if err := g.melody.HandleRequestWithKeys(h, r, map[string]any{keySession: s}); err != nil {
		g.Log.Debug("a request was no WebSocket handshake", "error", err)
		_ = s.conn.shut()
	}
}

// aside does something on a stack of its own, and returns when it is done: a reader that only waits keeps its stack as large as
// it once was, and there are many.
func aside(do func()) {
	var fault any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				fault = fmt.Errorf("%v, in %s", value, debug.Stack())
			}
		}()
		do()
	}()
	if <-done; fault != nil {
		panic(fault)
	}
}

// authenticate says who asks, and whether a refusal can be seen before the upgrade.
func (g *Gateway) authenticate(r *http.Request) (who accounts.Principal, early bool, err error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "bearer") { // RFC 9110, 11.1: in any case
			return who, true, accounts.ErrToken
		}
		who, err = g.Accounts.Verify(strings.TrimSpace(token))
		return who, true, err
	}
	query := r.URL.Query()
	if ticket := query.Get("ticket"); ticket != "" {
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		who, err = g.Accounts.Redeem(ctx, ticket)
		return who, true, err
	}
	who, err = g.Accounts.Verify(query.Get("token"))
	return who, !query.Has("token"), err
}

// problem answers in the form of RFC 9457.
func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// The client is gone if this fails, and there is nobody to tell.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code, "detail": detail,
	})
}
