package live_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/handlers/live"
)

// TestControlFramesAreAnswered: although a socket has nobody who only writes, a ping gets its pong, a close frame its echo, and who
// breaks the protocol is told so.
func TestControlFramesAreAnswered(t *testing.T) {
	r := newRing(t, live.Timing{})
	within := func() time.Time { return time.Now().Add(10 * time.Second) }
	// closedWith is the code that a client's socket was closed with.
	closedWith := func(t *testing.T, c *client) int {
		t.Helper()
		select {
		case err := <-c.closed:
			var why *websocket.CloseError
			if !errors.As(err, &why) {
				t.Fatalf("it ended without a close frame: %v", err)
			}
			return why.Code
		case <-time.After(30 * time.Second):
			t.Fatal("it is still open")
		}
		return 0
	}
	t.Run("a ping", func(t *testing.T) {
		c := r.in(t).dial("ada")
		pongs := make(chan string, 3)
		c.ws.SetPongHandler(func(data string) error { pongs <- data; return nil })
		for _, data := range []string{"one", "", "three"} {
			check(t, c.ws.WriteControl(websocket.PingMessage, []byte(data), within()))
			select {
			case got := <-pongs:
				if got != data {
					t.Errorf("the pong has %q, not %q", got, data)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("no pong came")
			}
		}
		c.send(frame{"type": "device_hello", "device_id": "laptop", "protocol": 3})
		c.expect("hello")
	})
	t.Run("a close frame", func(t *testing.T) {
		c := r.in(t).device("ada", "laptop", nil)
		check(t, c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""), within()))
		if code := closedWith(t, c); code != websocket.CloseGoingAway {
			t.Errorf("closed with %d", code)
		}
	})
	t.Run("a reserved operation", func(t *testing.T) {
		c := r.in(t).device("ada", "laptop", nil)
		_, err := c.ws.NetConn().Write([]byte{0x83, 0x80, 0, 0, 0, 0})
		check(t, err)
		if code := closedWith(t, c); code != websocket.CloseProtocolError {
			t.Errorf("closed with %d", code)
		}
	})
}
