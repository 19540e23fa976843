package live

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
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

// keySession is where melody keeps a socket's session.
const keySession = "session"

func (g *Gateway) newMelody() *melody.Melody {
	m := melody.New()
	m.Upgrader.ReadBufferSize, m.Upgrader.WriteBufferSize = 4096, 4096 // never the server's own buffers: they bypass conn
	m.Config.MaxMessageSize = maxFrame + 1                             // the guard answers before this is met
	m.Config.PingPeriod = g.Timing.Ping
	m.Config.PongWait = g.Timing.Ping + g.Timing.Pong
	m.Config.WriteWait = g.Timing.Write
	m.HandleConnect(func(socket *melody.Session) { sessionOf(socket).opened(socket) })
	m.HandleMessage(func(socket *melody.Session, b []byte) { sessionOf(socket).text(b) })
	m.HandleMessageBinary(func(socket *melody.Session, b []byte) { sessionOf(socket).binary(b) })
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
	defer s.cancel()
	if err != nil {
		s.close(closePolicy, "the token is wrong or no longer valid")
	}
	if !g.sessions.add(s) {
		problem(w, http.StatusServiceUnavailable, "unavailable", "the server is stopping")
		return
	}
	defer g.sessions.remove(s)
	keys := map[string]any{keySession: s}
	if err := g.melody.HandleRequestWithKeys(&hijacker{ResponseWriter: w, conn: s.conn}, r, keys); err != nil {
		g.Log.DebugContext(r.Context(), "a request was no WebSocket handshake", "error", err)
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
