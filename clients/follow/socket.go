package follow

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const writeWithin = 10 * time.Second

// socket is a connection with one reader. What is queued is written by a goroutine of its own, so that neither the reader
// nor who begins a subscription waits for the network.
type socket struct {
	conn   *websocket.Conn
	writer sync.WaitGroup

	mu      sync.Mutex
	waiting []any
	writing bool
	closed  bool
	timers  []*time.Timer
}

func newSocket(conn *websocket.Conn) *socket {
	conn.SetReadLimit(maxFrame)
	return &socket{conn: conn}
}

// queue sends a frame soon. One that can't be sent dies with the connection.
func (s *socket) queue(frame any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.waiting = append(s.waiting, frame)
	if !s.writing {
		s.writing = true
		s.writer.Go(s.write)
	}
}

// write sends what waits.
func (s *socket) write() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 || s.closed {
			s.writing = false
			s.mu.Unlock()
			return
		}
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		raw, err := json.Marshal(next)
		if err == nil {
			err = s.conn.SetWriteDeadline(time.Now().Add(writeWithin))
		}
		if err == nil {
			err = s.conn.WriteMessage(websocket.TextMessage, raw)
		}
		if err != nil {
			s.kill() // the reader sees it
			return
		}
	}
}

// later does something after a while, if the socket still lives.
func (s *socket) later(d time.Duration, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.writer.Add(1)
	s.timers = append(s.timers, time.AfterFunc(d, func() {
		defer s.writer.Done()
		do()
	}))
}

// read waits for the next frame; a connection on which nothing comes for so long is dead.
func (s *socket) read(silence time.Duration) ([]byte, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return nil, err
	}
	_, raw, err := s.conn.ReadMessage()
	return raw, err
}

// bye closes with a close frame.
func (s *socket) bye() {
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
	s.kill()
}

// kill closes the connection without a word.
func (s *socket) kill() { _ = s.conn.Close() }

// end kills it, and returns when nothing of it goes on.
func (s *socket) end() {
	s.kill()
	s.mu.Lock()
	s.closed = true
	for _, t := range s.timers {
		if t.Stop() {
			s.writer.Done()
		}
	}
	s.mu.Unlock()
	s.writer.Wait()
}
