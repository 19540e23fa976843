package live

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The limits of a socket.
const (
	maxFrame  = 8 << 20
	lingering = 2 * time.Second
)

// conn is the network side of a socket, below melody. Reading, it takes a message that is over the limit
// out of the stream, so that the connection lives on; writing, it lets everything that is queued leave in
// one write, between the whole frames that melody itself writes (pings, pongs, the close frame).
type conn struct {
	net.Conn

	within  time.Duration // for a write
	guard   guard         // set before the first read
	scratch [4096]byte
	pending []byte // filtered, not yet read

	mu        sync.Mutex // one frame, or one joined write, at a time
	failed    error
	lingering atomic.Bool
	closed    sync.Once
}

// Read hands on what the guard lets through.
func (c *conn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(c.pending) > 0 {
			n := copy(p, c.pending)
			c.pending = c.pending[n:]
			return n, nil
		}
		if c.guard.payload > 0 && !c.guard.drop {
			n, err := c.Conn.Read(p[:min(int64(len(p)), c.guard.payload)])
			c.guard.payload -= int64(n)
			return n, err
		}
		n, err := c.Conn.Read(c.scratch[:])
		c.pending = c.guard.filter(c.pending[:0], c.scratch[:n])
		if err != nil && len(c.pending) == 0 {
			return 0, err
		}
	}
	return 0, nil
}

// SetWriteDeadline is not melody's business: every write has its own.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline is moved by every pong, but not when the end is near.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.lingering.Load() {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// Write writes one whole frame.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return 0, c.failed
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.failed = err // half a frame may have left: nothing can follow
	return n, err
}

// writeTexts writes every payload as a text frame, all of them at once.
func (c *conn) writeTexts(payloads [][]byte) error {
	headers := make([]byte, 0, 10*len(payloads))
	buffers := make(net.Buffers, 0, 2*len(payloads))
	for _, p := range payloads {
		start := len(headers)
		headers = appendTextHeader(headers, len(p))
		buffers = append(buffers, headers[start:len(headers):len(headers)], p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return c.failed
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
		return err
	}
	_, err := buffers.WriteTo(c.Conn)
	c.failed = err
	return err
}

// Close says that nothing more is written, and lets what the other side still sends be read for a moment:
// to close with unread bytes would take back the close frame that is on its way.
func (c *conn) Close() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return c.shut()
	}
	if err := half.CloseWrite(); err != nil {
		return c.shut()
	}
	c.lingering.Store(true)
	return c.Conn.SetReadDeadline(time.Now().Add(lingering))
}

// shut closes for good.
func (c *conn) shut() (err error) {
	c.closed.Do(func() { err = c.Conn.Close() })
	return err
}

// hijacker gives melody's upgrader a conn instead of the server's connection.
type hijacker struct {
	http.ResponseWriter

	conn *conn
}

// Hijack takes the connection over.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	plain, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn.Conn = plain
	return h.conn, buffered, nil
}

// appendTextHeader appends the header of an unfragmented, unmasked text frame (RFC 6455, section 5.2).
func appendTextHeader(b []byte, size int) []byte {
	const finalText = 0x81
	switch {
	case size < 126:
		return append(b, finalText, byte(size))
	case size < 1<<16:
		return append(b, finalText, 126, byte(size>>8), byte(size))
	}
	b = append(b, finalText, 127)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(uint64(size)>>shift))
	}
	return b
}
