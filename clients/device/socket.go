package device

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// socket is a connection with one reader and many writers.
type socket struct {
	conn *websocket.Conn
	mu   sync.Mutex
}

func (s *socket) read() ([]byte, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return nil, err
	}
	_, raw, err := s.conn.ReadMessage()
	return raw, err
}

func (s *socket) write(frame any) error {
	raw, err := json.Marshal(frame)
	if err != nil {
		return fmt.Errorf("device: encode a frame: %w", err)
	}
	return s.writeRaw(raw)
}

func (s *socket) writeRaw(raw []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil {
		return err
	}
	return s.conn.WriteMessage(websocket.TextMessage, raw)
}

// bye closes with a close frame.
func (s *socket) bye() {
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second))
	s.kill()
}

// kill closes the connection without a word.
func (s *socket) kill() { _ = s.conn.Close() }

// half writes the beginning of a masked text frame and dies.
func (s *socket) half(raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	header := append([]byte{0x81, 0x80 | 127}, make([]byte, 12)...) // a zero mask leaves the bytes as they are
	binary.BigEndian.PutUint64(header[2:], uint64(len(raw)))
	_, _ = s.conn.NetConn().Write(append(header, raw[:len(raw)/2]...))
	s.kill()
}
