package live_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// frame is any frame from the gateway.
type frame map[string]any

func (f frame) text(key string) string {
	s, _ := f[key].(string)
	return s
}

// client is a desktop client's socket, with one reader.
type client struct {
	t      testing.TB
	ws     *websocket.Conn
	frames chan frame
	closed chan error
	mute   atomic.Bool // it answers no pings
}

// dial connects as a user, without saying hello.
func (r *ring) dial(user string) *client {
	r.t.Helper()
	c, _, err := r.open("", http.Header{"Authorization": {"Bearer token-" + user}})
	check(r.t, err)
	return c
}

func (r *ring) open(query string, header http.Header) (*client, *http.Response, error) {
	url := "ws" + strings.TrimPrefix(r.server.URL, "http") + "/api/v1/ws/device" + query
	ws, answer, err := websocket.DefaultDialer.Dial(url, header)
	if err != nil {
		return nil, answer, err
	}
	c := &client{t: r.t, ws: ws, frames: make(chan frame, 10_000), closed: make(chan error, 1)}
	pong := ws.PingHandler()
	ws.SetPingHandler(func(data string) error {
		if c.mute.Load() {
			return nil
		}
		return pong(data)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, b, err := ws.ReadMessage()
			if err != nil {
				c.closed <- err
				close(c.frames)
				return
			}
			var f frame
			if err := json.Unmarshal(b, &f); err != nil {
				c.t.Errorf("a frame is no JSON: %q", b)
			}
			for _, fault := range r.document.holds(b) {
				c.t.Errorf("a frame is not what asyncapi.yaml says: %s: %.500s", fault, b)
			}
			if f.text("type") != "ping" {
				c.frames <- f
			}
		}
	}()
	r.t.Cleanup(func() { ws.Close(); <-done })
	return c, answer, nil
}

// device connects and says hello; more are further fields of the hello.
func (r *ring) device(user, device string, more frame) *client {
	r.t.Helper()
	c := r.dial(user)
	hello := frame{"type": "device_hello", "device_id": device, "agent_ids": []string{}, "protocol": 3, "timezone": "Europe/Rome"}
	for k, v := range more {
		hello[k] = v
	}
	c.send(hello)
	if hello["protocol"] != nil {
		c.expect("hello")
	}
	return c
}

func (c *client) send(f any) {
	c.t.Helper()
	b, err := json.Marshal(f)
	check(c.t, err)
	c.raw(b)
}

func (c *client) raw(b []byte) {
	c.t.Helper()
	check(c.t, c.ws.WriteMessage(websocket.TextMessage, b))
}

// next is the next frame.
func (c *client) next() frame {
	c.t.Helper()
	select {
	case f, ok := <-c.frames:
		if !ok {
			c.t.Fatalf("the socket closed: %v", <-c.closed)
		}
		return f
	case <-time.After(15 * time.Second):
		c.t.Fatal("no frame came")
		return nil
	}
}

// expect is the next frame, which must be of a type.
func (c *client) expect(kind string) frame {
	c.t.Helper()
	f := c.next()
	if f.text("type") != kind {
		c.t.Fatalf("got %v, want a %s", f, kind)
	}
	return f
}

// refused expects an error frame with a code.
func (c *client) refused(code string) frame {
	c.t.Helper()
	f := c.expect("error")
	if f.text("code") != code || f.text("message") == "" {
		c.t.Fatalf("got %v, want the code %s", f, code)
	}
	return f
}

// alive proves that the connection still works and that nothing else was queued.
func (c *client) alive() {
	c.t.Helper()
	c.send(frame{"type": "ping"})
	c.expect("pong")
}

// gone waits for the close code.
func (c *client) gone(code int) {
	c.t.Helper()
	late := time.After(15 * time.Second)
	for {
		select {
		case _, ok := <-c.frames:
			if ok {
				continue
			}
			err := <-c.closed
			c.closed <- err
			var closed *websocket.CloseError
			if !errors.As(err, &closed) || closed.Code != code {
				c.t.Fatalf("closed with %v, want the code %d", err, code)
			}
			return
		case <-late:
			c.t.Fatal("the socket is still open")
		}
	}
}

// story reads a request's frames to their end: its text with voided text left out, and the end frame.
func (c *client) story(request string) (text string, end frame) {
	c.t.Helper()
	started := false
	for {
		f := c.next()
		if f.text("request_id") != request {
			c.t.Fatalf("got %v, want frames of %s", f, request)
		}
		switch f.text("type") {
		case "stream_start":
			if started {
				c.t.Fatalf("%s started twice", request)
			}
			started = true
		case "stream_text":
			text += f.text("chunk")
		case "stream_block":
			if f.text("block_type") == "retry" {
				text = ""
			}
		case "stream_end":
			return text, f
		default:
			c.t.Fatalf("got %v within the story of %s", f, request)
		}
	}
}
