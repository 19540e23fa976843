package sockets_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/cmd/cairn/bench/sockets"
)

// server writes the frames it is given to every socket, cut into pieces at random.
type server struct {
	t       *testing.T
	rand    *rand.Rand
	mu      sync.Mutex
	sockets []*websocket.Conn
	pongs   chan string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	conn.SetPongHandler(func(text string) error { s.pongs <- text; return nil })
	_, said, err := conn.ReadMessage()
	if err != nil || string(said) != "let me in" {
		_ = conn.WriteMessage(websocket.TextMessage, []byte("refused"))
		return
	}
	s.mu.Lock()
	s.sockets = append(s.sockets, conn)
	s.mu.Unlock()
	_ = conn.WriteMessage(websocket.TextMessage, []byte("you are level "+sockets.Mark(0)))
	_, _, _ = conn.ReadMessage() // until the socket ends
}

// write writes a text frame in pieces.
func (s *server) write(conn *websocket.Conn, text string) {
	b := []byte{0x81}
	switch n := len(text); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = append(b, 126, byte(n>>8), byte(n))
	default:
		b = append(b, 127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	for b = append(b, text...); len(b) > 0; {
		n := 1 + s.rand.IntN(len(b))
		if s.rand.IntN(2) == 0 {
			n = min(len(b), 1+s.rand.IntN(20))
		}
		if _, err := conn.NetConn().Write(b[:n]); err != nil {
			s.t.Error(err)
			return
		}
		runtime.Gosched()
		b = b[n:]
	}
}

// TestEveryNumberIsCountedOnceHoweverItIsCut: frames of all sizes, with pings between them.
func TestEveryNumberIsCountedOnceHoweverItIsCut(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // it says so, see socket_other.go
	}
	seed := rand.Uint64()
	s := &server{t: t, rand: rand.New(rand.NewPCG(seed, 1)), pongs: make(chan string, 1000)}
	web := httptest.NewServer(s)
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := sockets.Call{Address: web.Listener.Addr().String(), Path: "/", Say: []string{"let me in"}, Await: "level", Refused: "refused"}
	crowd, err := sockets.Open(ctx, []sockets.Call{call, call, call}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer crowd.Close()
	crowd.Watch(16)
	n, pings := int64(1), 0
	for n < 400 {
		var text strings.Builder
		for range s.rand.IntN(5) {
			fmt.Fprint(&text, strings.Repeat("~1234~x", s.rand.IntN(2000)*s.rand.IntN(2)), sockets.Mark(n), strings.Repeat("~", s.rand.IntN(3)))
			n++
		}
		for _, conn := range s.sockets {
			s.write(conn, text.String())
			if s.rand.IntN(4) == 0 {
				pings++
				if err := conn.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(time.Second)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := crowd.Until(ctx, n); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if seen := crowd.Watched(); int64(len(seen)) != 3*(n-1) || crowd.Delivered() != 3*n {
		t.Errorf("seed %d: %d of %d events were seen, %d counted", seed, len(seen), 3*(n-1), crowd.Delivered())
	}
	for range pings {
		select {
		case text := <-s.pongs:
			if text != "are you there" {
				t.Errorf("a ping was answered with %q", text)
			}
		case <-ctx.Done():
			t.Fatal("a ping was not answered")
		}
	}
	s.write(s.sockets[1], sockets.Mark(1)) // once more
	for crowd.Delivered() == 3*n {
		if ctx.Err() != nil {
			t.Fatal("the event was not seen")
		}
		runtime.Gosched()
	}
	if err := crowd.Close(); err != nil {
		t.Fatal(err)
	}
	if err := crowd.Exact(0, n, sockets.Ordered); err == nil {
		t.Errorf("seed %d: an event that came twice was not noticed", seed)
	}
}

// TestWhoIsRefusedSaysWhy: an answer that will never be the one that is awaited ends the opening.
func TestWhoIsRefusedSaysWhy(t *testing.T) {
	s := &server{t: t, pongs: make(chan string, 1)}
	web := httptest.NewServer(s)
	defer web.Close()
	call := sockets.Call{Address: web.Listener.Addr().String(), Path: "/", Say: []string{"hello"}, Await: "level", Refused: "refused"}
	crowd, err := sockets.Open(t.Context(), []sockets.Call{call}, 1)
	if err == nil {
		crowd.Close()
		t.Fatal("it was opened")
	}
	if runtime.GOOS == "linux" && !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
