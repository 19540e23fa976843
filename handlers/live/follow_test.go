package live_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

// listener follows a run from some moment on.
type listener struct {
	name   string
	reader *reader
	done   chan struct{}
}

func (r *ring) follow(name string, c *conversation, after uint64) *listener {
	l := &listener{name: name, reader: &reader{}, done: make(chan struct{})}
	outputs := r.gateway.Follow(r.t.Context(), c.scope, c.thread, c.run, live.FollowFrom{After: after, Channel: thread.Home})
	go func() {
		defer close(l.done)
		version := uint64(0)
		for o := range outputs {
			if o.Kind == live.OutputText || o.Kind == live.OutputBlock || o.Kind == live.OutputRetry {
				if o.Version > version && o.Kind != live.OutputRetry {
					l.reader.commit() // a retry voids only what came since the thread moved on
				}
			}
			version = max(version, o.Version)
			l.reader.take([]live.Output{o})
		}
	}()
	return l
}

// TestAnyJoinPointTellsTheSame: whoever follows a run, from whatever moment, at a gateway that was there or at
// a new one, with read models that are level or have stopped, is told the same, once, to one end.
func TestAnyJoinPointTellsTheSame(t *testing.T) {
	r := newRing(t, live.Timing{})
	c := r.device("ada", "laptop", nil)
	c.send(frame{"type": "home_request", "request_id": "r1", "message": "Go"})
	c.expect("stream_start")
	run := r.of("ada", "r1")
	var all []*listener
	join := func(at string) {
		all = append(all, r.follow(at, run, 0))
	}
	fresh := func(at string) *ring {
		other := r.start(live.Timing{})
		all = append(all, other.follow(at+", new gateway", run, 0))
		return other
	}
	join("start")
	run.route("task_agent")
	join("routed")
	await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run })
	run.say(1, 1, 1, 0, "One ")
	c.expect("stream_text")
	join("first words")
	run.say(1, 1, 2, 4, "two ")
	c.expect("stream_text")
	run.turn(1, 1, "One two three. ", selectTasks())
	join("first turn")
	id := c.expectLater("tool_call").text("id")
	c.send(frame{"type": "tool_result", "id": id, "rows": []frame{{"id": "t1", "title": "Buy milk"}}})
	c.expectLater("tool_result_ack")
	join("result")
	fresh("result")
	r.stopProjecting()
	run.turn(2, 1, "Hm. ", planned{thread.Plan{Tool: "unknown", Executor: thread.AtOnce}, ""})
	join("while read models stand still")
	fresh("while read models stand still")
	await(r, func(e thread.TurnRequested) bool { return e.RunID == run.run && e.Turn == 3 })
	run.say(3, 1, 1, 0, "Here: ")
	join("last words")
	run.turn(3, 1, `Here: {"type":"entity_ref","entity":"task","ids":["t1"]} Bye.`)
	join("end")
	fresh("end")
	want := "One two three. Hm. Here: \x00entity_ref"
	for _, l := range all {
		select {
		case <-l.done:
		case <-time.After(20 * time.Second):
			t.Fatalf("who joined at %q has no end", l.name)
		}
		got := l.reader.joined()
		if !strings.HasPrefix(got, want) || got != all[0].reader.joined() || l.reader.ends != 1 || l.reader.starts != 1 || l.reader.late {
			t.Errorf("who joined at %q was told %q, %d starts, %d ends", l.name, got, l.reader.starts, l.reader.ends)
		}
	}
	r.project()
}

// expectLater skips what streams.
func (c *client) expectLater(kind string) frame {
	c.t.Helper()
	for {
		if f := c.next(); f.text("type") == kind {
			return f
		}
	}
}

// TestARunSurvivesItsGateway: the socket closes with a code, the client repeats its request elsewhere, and
// is told everything.
func TestARunSurvivesItsGateway(t *testing.T) {
	r := newRing(t, live.Timing{})
	request := frame{"type": "home_request", "request_id": "r1", "message": "Go"}
	c := r.device("ada", "laptop", frame{"journal": true})
	c.send(request)
	c.expect("stream_start")
	run := r.of("ada", "r1")
	run.route("task_agent")
	run.turn(1, 1, "Working. ", insertTask())
	c.expect("stream_text")
	id := c.expect("tool_call").text("id")
	r.stop()
	c.gone(1012)
	r = r.start(live.Timing{})
	c = r.device("ada", "laptop", frame{"journal": true})
	c.send(request)
	got := map[string]frame{}
	for range 3 {
		f := c.next()
		got[f.text("type")] = f
	}
	if got["stream_text"].text("chunk") != "Working. " || got["tool_call"].text("id") != id || got["stream_start"] == nil {
		t.Fatalf("got %v", got)
	}
	c.send(frame{"type": "tool_result", "id": id, "row": frame{"id": "t1"}})
	c.expect("tool_result_ack")
	run.r = r
	run.turn(2, 1, "Done.")
	if text, end := c.end(); text != "Done." || len(end["mutations"].([]any)) != 1 {
		t.Fatalf("told %q, %v", text, end)
	}
}

// counted says how many bytes the server has read.
type counted struct {
	net.Listener
	bytes atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{conn.(*net.TCPConn), c}, nil
}

type countedConn struct {
	*net.TCPConn
	listener *counted
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.listener.bytes.Add(int64(n))
	return n, err
}

// TestASlowClientIsClosedAndNeverFedLess: what it reads has no gap up to the close code.
func TestASlowClientIsClosedAndNeverFedLess(t *testing.T) {
	r := newRing(t, live.Timing{Write: 2 * time.Minute})
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(128 << 10)
		}
		return conn, err
	}}
	server := httptest.NewUnstartedServer(r.gateway.Handler())
	taken := &counted{Listener: server.Listener}
	server.Listener = taken
	server.Start()
	defer server.Close()
	url := "ws" + strings.TrimPrefix(server.URL, "http") + "/"
	ws, _, err := dialer.Dial(url, http.Header{"Authorization": {"Bearer token-ada"}})
	check(t, err)
	defer ws.Close()
	check(t, ws.WriteJSON(frame{"type": "device_hello", "device_id": "slow"}))
	const asked = 45_000
	filler := strings.Repeat("x", 150)
	var sent int64
	for i := range asked {
		text := fmt.Appendf(nil, `{"type":"tool_result","id":"%d %s"}`, i, filler)
		if ws.WriteMessage(websocket.TextMessage, text) != nil {
			break
		}
		sent += int64(8 + len(text)) // with its header
	}
	// It reads once the gateway has taken all that it asked: a machine that is slow itself lets nobody be slow.
	late, ticker := time.NewTimer(time.Minute), time.NewTicker(time.Millisecond)
	defer late.Stop()
	defer ticker.Stop()
	for taken.bytes.Load() < sent {
		select {
		case <-ticker.C:
		case <-late.C:
			t.Fatalf("the gateway took %d of %d bytes", taken.bytes.Load(), sent)
		}
	}
	for next := 0; ; {
		_, b, err := ws.ReadMessage()
		if err != nil {
			if !websocket.IsCloseError(err, 4008) || next == 0 || next == asked {
				t.Fatalf("after %d answers: %v", next, err)
			}
			return
		}
		if string(b) == `{"type":"ping"}` {
			continue
		}
		if !strings.Contains(string(b), fmt.Sprintf(`"id":"%d x`, next)) {
			t.Fatalf("answer %d is %.80s", next, b)
		}
		next++
	}
}
