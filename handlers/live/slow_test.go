package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/streams"
)

// narrow gives every connection small buffers, so that a client that stops reading is noticed at once.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(128 << 10)
	}
	return conn, err
}

// noticed is told of log lines.
type noticed struct {
	slog.Handler
	line  string
	lines chan struct{}
}

func (n noticed) Enabled(context.Context, slog.Level) bool { return true }

func (n noticed) Handle(_ context.Context, r slog.Record) error {
	if r.Message == n.line {
		n.lines <- struct{}{}
	}
	return nil
}

// frozen is a socket that nobody reads from but who calls read.
func (r *ring) frozen(user, device string) *websocket.Conn {
	r.t.Helper()
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(128 << 10)
		}
		return conn, err
	}}
	ws, _, err := dialer.Dial("ws"+strings.TrimPrefix(r.server.URL, "http")+"/", http.Header{"Authorization": {"Bearer token-" + user}})
	check(r.t, err)
	r.t.Cleanup(func() { ws.Close() })
	check(r.t, ws.WriteJSON(frame{"type": "device_hello", "device_id": device}))
	return ws
}

// TestAFrozenClientIsToldWhereToGoOn: one client stops reading among others that don't notice; it is cut off at the end of a
// frame with a place up to which it has had everything, and from there it misses nothing.
func TestAFrozenClientIsToldWhereToGoOn(t *testing.T) {
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprint("batch ", batch), func(t *testing.T) {
			t.Parallel()
			r := newRing(t, live.Timing{})
			slow := noticed{slog.DiscardHandler, "a client reads too slowly", make(chan struct{}, 1)}
			r = r.beside(t, func(c *live.Config) {
				c.Timing.Write, c.Log = 5*time.Second, slog.New(slow)
			})
			server := httptest.NewUnstartedServer(r.gateway.Handler())
			server.Listener = narrow{server.Listener}
			server.Start()
			defer server.Close()
			r.server = server

			scope := domain.User("ada")
			ice := r.frozen("ada", "ice")
			check(t, ice.WriteJSON(frame{"type": "device_hello", "device_id": "ice", "batch": batch}))
			check(t, ice.WriteJSON(frame{"type": "subscribe", "id": "s", "scope": scope, "after": 0}))
			other, had := r.device("ada", "fire", frame{"batch": batch}), told{id: "s"}
			other.subscribe("s", frame{"scope": scope, "after": 0})
			filler := strings.Repeat("x", 60_000)
			for i := range 40 {
				c := r.of("ada", fmt.Sprint("r", i))
				c.must(thread.PostMessage{On: thread.On{Thread: c.thread}, New: true, RunID: c.run, Channel: thread.Home, Content: thread.Content{Text: filler}})
			}
			_, last := await(r, func(e thread.MessagePosted) bool { return e.RunID == r.of("ada", "r39").run })
			other.until(&had, "position", last.Position) // nobody else waits for it
			select {
			case <-slow.lines:
			case <-time.After(time.Minute):
				t.Fatal("nobody noticed")
			}
			ices := told{id: "s"}
			place := ices.rest(t, ice)
			if place != ices.cursor || place >= last.Position {
				t.Fatalf("it was told to go on after %d, and has had everything up to %d of %d", place, ices.cursor, last.Position)
			}
			back := r.device("ada", "ice", nil)
			back.subscribe("s", frame{"scope": scope, "after": place})
			back.until(&ices, "position", last.Position)
			all := r.committed(of(scope, ""))
			ices.same(t, all[:len(ices.events)])
			if got := len(ices.events); got < len(all) && all[got].Position <= last.Position {
				t.Fatalf("it missed %v", all[got])
			}
			other.alive2(&had)
		})
	}
}

// rest reads what is left of a socket, and answers the place where to go on.
func (s *told) rest(t *testing.T, ws *websocket.Conn) uint64 {
	t.Helper()
	for {
		_, b, err := ws.ReadMessage()
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			found := regexp.MustCompile(`^slow: resume s after (\d+)$`).FindStringSubmatch(closed.Text)
			if closed.Code != 4008 || found == nil {
				t.Fatalf("closed with %v", closed)
			}
			at, err := strconv.ParseUint(found[1], 10, 64)
			check(t, err)
			return at
		}
		check(t, err)
		var f frame
		check(t, json.Unmarshal(b, &f))
		if f.text("subscription") != "" {
			s.take(t, f, "position")
		}
	}
}

// alive2 proves that the connection still works, whatever else comes.
func (c *client) alive2(s *told) {
	c.t.Helper()
	c.send(frame{"type": "ping"})
	for f := c.next(); f.text("type") != "pong"; f = c.next() {
		s.take(c.t, f, "position")
	}
}

// TestWhoeverIsDrainedIsToldWhenToComeAgain: a restart lets what is queued leave, then says when to come again, at different
// times, then closes; and what was followed goes on elsewhere.
func TestWhoeverIsDrainedIsToldWhenToComeAgain(t *testing.T) {
	r := newRing(t, live.Timing{})
	scope := domain.User("ada")
	r.titled("ada", "one", 50)
	const many = 30
	var clients []*client
	followed := make([]told, many)
	for i := range many {
		c := r.device("ada", fmt.Sprint("laptop", i), frame{"batch": i%2 == 0})
		followed[i] = told{id: "s"}
		c.subscribe("s", frame{"scope": scope, "after": 0})
		clients = append(clients, c)
	}
	old := r.dial("ada")
	old.send(frame{"type": "device_hello", "device_id": "old"}) // knows no such frame
	old.send(frame{"type": "ping"})
	old.expect("pong")
	next := r.start(live.Timing{})
	r.stop()
	waits := map[float64]bool{}
	for i, c := range clients {
		for f := c.next(); ; f = c.next() {
			if f.text("type") != "reconnect" {
				followed[i].take(t, f, "position")
				continue
			}
			wait, ok := f["after_ms"].(float64)
			if !ok || wait < 0 || wait > 20_000 || f.text("reason") != "restart" {
				t.Fatalf("got %v", f)
			}
			waits[wait] = true
			break
		}
		c.gone(1012)
	}
	if len(waits) < many/2 {
		t.Errorf("%d clients come again at %d times", many, len(waits))
	}
	for f := range old.frames {
		t.Errorf("an old client got %v", f)
	}
	r.rename("ada", "one", "after")
	_, last := await(r, func(e thread.Titled) bool { return e.Title.Text == "after" })
	for i := range followed {
		c := next.device("ada", fmt.Sprint("again", i), nil)
		c.subscribe("s", frame{"scope": scope, "after": followed[i].cursor})
		c.until(&followed[i], "position", last.Position)
		followed[i].same(t, r.committed(func(e streams.Recorded) bool { return e.Scope == scope && e.Position <= followed[i].cursor }))
	}
}

// TestASocketThatWaitsHoldsLittle: it has no goroutine but its reader.
func TestASocketThatWaitsHoldsLittle(t *testing.T) {
	r := newRing(t, live.Timing{})
	r.titled("ada", "one", 1)
	const many = 200
	open := func(from int) {
		for i := range many {
			r.raw("ada", fmt.Sprint("d", from+i))
		}
	}
	settled := func() (n int) { // how many there are when nothing moves any more
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for same := 0; same < 20; {
			<-ticker.C
			if now := runtime.NumGoroutine(); now != n {
				n, same = now, 0
			} else {
				same++
			}
		}
		return n
	}
	open(0)
	before := settled()
	open(many)
	if after := settled(); after > before+many+20 {
		t.Fatalf("%d more sockets have %d more goroutines", many, after-before)
	}
}

// raw is a socket without a goroutine at the client's side, which follows a thread.
func (r *ring) raw(user, device string) {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.server.URL, "http://"))
	check(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", user)
	check(r.t, err)
	b := bufio.NewReader(conn)
	answer, err := http.ReadResponse(b, nil)
	check(r.t, err)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		r.t.Fatal(answer.Status)
	}
	_, err = conn.Write(appendFrame(nil, true, 1, fmt.Appendf(nil, `{"type":"device_hello","device_id":%q}`, device)))
	check(r.t, err)
	_, err = conn.Write(appendFrame(nil, true, 1, []byte(`{"type":"subscribe","id":"s","stream":"thread-one"}`)))
	check(r.t, err)
	var head [2]byte
	for {
		_, err = b.Read(head[:1])
		check(r.t, err)
		_, err = b.Read(head[1:])
		check(r.t, err)
		body := make([]byte, head[1])
		for n := 0; n < len(body); {
			m, err := b.Read(body[n:])
			check(r.t, err)
			n += m
		}
		if strings.Contains(string(body), `"subscribed"`) {
			return
		}
	}
}
