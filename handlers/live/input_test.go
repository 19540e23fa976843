package live_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/handlers/live"
)

func wrongRequests(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	for name, test := range map[string]struct {
		frame frame
		code  string
	}{
		"empty":                {frame{"type": "home_request", "message": ""}, "invalid"},
		"blank":                {frame{"type": "home_request", "message": " \n\t"}, "invalid"},
		"NUL":                  {frame{"type": "home_request", "message": "a\x00b"}, "invalid"},
		"NUL in history":       {frame{"type": "home_request", "message": "a", "conversation_history": []frame{{"role": "user", "content": "\x00"}}}, "invalid"},
		"too large":            {frame{"type": "home_request", "message": strings.Repeat("a", 1<<20+1)}, "too_large"},
		"too large with past":  {frame{"type": "home_request", "message": "a", "conversation_history": []frame{{"role": "user", "content": strings.Repeat("a", 1<<20)}}}, "too_large"},
		"on_busy":              {frame{"type": "home_request", "message": "a", "on_busy": "perhaps"}, "invalid"},
		"no such thread":       {frame{"type": "home_request", "message": "a", "session_id": "nowhere"}, "not_found"},
		"impossible thread":    {frame{"type": "home_request", "message": "a", "session_id": "../x"}, "not_found"},
		"floating about none":  {frame{"type": "floating_request", "message": "a"}, "invalid"},
		"floating about other": {frame{"type": "floating_request", "message": "a", "scope": frame{"type": "user"}}, "invalid"},
		"floating about words": {frame{"type": "floating_request", "message": "a", "scope": frame{"type": "task", "id": "what Ann said"}}, "invalid"},
		"field of other type":  {frame{"type": "home_request", "message": 7}, "malformed"},
	} {
		test.frame["request_id"] = "wrong " + name
		c.send(test.frame)
		f := c.refused(test.code)
		if f.text("request_id") != "wrong "+name {
			r.t.Errorf("%s: got %v", name, f)
		}
	}
	c.send(frame{"type": "home_request", "request_id": strings.Repeat("x", 300), "message": "a"})
	c.refused("invalid")
	// A message of exactly the limit is taken.
	c.send(frame{"type": "home_request", "request_id": "full", "message": strings.Repeat("a", 1<<20)})
	c.expect("stream_start")
}

func garbage(r *ring, user string) {
	c := r.device(user, "laptop", nil)
	for _, text := range []string{"{", "[]", `"x"`, `{"type":7}`} {
		c.raw([]byte(text))
		c.refused("malformed")
	}
	c.alive() // four in a row, and a good one between
	c.raw([]byte("{\"type\":\"\xff\"}"))
	c.refused("malformed")
	check(r.t, c.ws.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"ping"}`)))
	c.refused("malformed")
	for range 2 {
		c.send(frame{"type": "surprise"})
	}
	c.refused("unknown_type") // once
	c.alive()
	c.send(frame{"type": "home_request", "message": strings.Repeat("a", 9<<20)})
	c.refused("too_large")
	c.alive()
	for range 5 {
		c.raw([]byte("nonsense"))
	}
	for range 5 {
		c.refused("malformed")
	}
	c.gone(1007)
}

// TestConnecting: a refusal is a status where the client can see one, and a close code where it can't.
func TestConnecting(t *testing.T) {
	r := newRing(t, live.Timing{Hello: time.Second, Ping: 500 * time.Millisecond, Pong: 2 * time.Second})
	t.Run("refused before the upgrade", func(t *testing.T) {
		for query, header := range map[string]http.Header{
			"":              nil,
			"?a":            {"Authorization": {"Bearer wrong"}},
			"?b":            {"Authorization": {"Basic token-ada"}},
			"?ticket=wrong": nil,
		} {
			_, answer, err := r.in(t).open(query, header)
			if err == nil || answer == nil || answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: got %v", query, answer)
			}
		}
	})
	t.Run("closed where only codes are seen", func(t *testing.T) {
		c, _, err := r.in(t).open("?token=wrong", nil)
		check(t, err)
		c.gone(1008)
	})
	t.Run("let in", func(t *testing.T) {
		for _, query := range []string{"?token=token-ada", "?ticket=ticket-ada"} {
			c, _, err := r.in(t).open(query, nil)
			check(t, err)
			c.send(frame{"type": "device_hello", "device_id": "Ada's Laptop", "protocol": 3, "name": "Ada"})
			if f := c.expect("hello"); f.text("version") != "test" || len(f["scopes"].([]any)) != 1 {
				t.Errorf("greeted with %v", f)
			}
		}
	})
	t.Run("no hello", func(t *testing.T) { r.in(t).dial("ada").gone(1008) })
	t.Run("something else first", func(t *testing.T) {
		c := r.in(t).dial("ada")
		c.send(frame{"type": "home_request", "message": "a"})
		c.gone(1008)
	})
	t.Run("an impossible hello", func(t *testing.T) {
		for _, hello := range []frame{
			{"device_id": ""}, {"device_id": "a", "protocol": 9}, {"device_id": "a", "timezone": "Middle/Earth"}, {"device_id": "a\x00"},
		} {
			c := r.in(t).dial("ada")
			hello["type"] = "device_hello"
			c.send(hello)
			c.refused("invalid")
			c.gone(1008)
		}
	})
	t.Run("a client that answers pings stays, one that does not goes", func(t *testing.T) {
		stays, goes := r.in(t).device("ada", "stays", nil), r.in(t).device("ada", "goes", nil)
		goes.mute.Store(true)
		late := time.After(10 * time.Second)
		for open := true; open; {
			select {
			case _, open = <-goes.frames:
			case <-late:
				t.Fatal("it is still open")
			}
		}
		stays.alive()
	})
	t.Run("a socket that dies within a frame", func(t *testing.T) {
		c := r.in(t).device("ada", "dies", nil)
		_, err := c.ws.NetConn().Write([]byte{0x81, 0xfe, 0x10, 0x00, 1, 2, 3, 4, 'x'})
		check(t, err)
		check(t, c.ws.NetConn().(*net.TCPConn).SetLinger(0))
		check(t, c.ws.Close())
		r.in(t).device("ada", "dies", nil).alive()
	})
	t.Run("a gateway that stops says so", func(t *testing.T) {
		c := r.in(t).device("ada", "laptop", nil)
		r.stop()
		c.gone(1012)
	})
}
