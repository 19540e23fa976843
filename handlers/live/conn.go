package live

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// The limits of a socket.
const (
	maxFrame  = 8 << 20
	lingering = 2 * time.Second
	// takenAtLeast is what a client must take of a write within its time, unless it is all: less is too slow.
	takenAtLeast = 64 << 10
)

// conn is the network side of a socket, below melody. Reading, it takes a message that is over the limit
// out of the stream, so that the connection lives on; writing, it lets everything that is queued leave in
// one write, between the whole frames that melody itself writes (pongs, the answer to a close frame).
type conn struct {
	net.Conn

	within  time.Duration // for a write
	guard   guard         // set before the first read
	scratch [256]byte     // small: it is kept by who only waits, and what is large goes by
	pending []byte        // filtered, not yet read
	silent  func()        // called by the reader when nothing came in time, before it is told

	mu        sync.Mutex // one frame, or one joined write, at a time
	failed    error
	lingering atomic.Bool

	ending sync.Mutex
	ended  bool
}

// Read hands on what the guard lets through.
func (c *conn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(c.pending) > 0 {
			n := copy(p, c.pending)
			c.pending = c.pending[n:]
			return n, nil
		}
		c.pending = nil
		if c.guard.payload > 0 && !c.guard.drop {
			n, err := c.Conn.Read(p[:min(int64(len(p)), c.guard.payload)])
			c.guard.payload -= int64(n)
			return n, c.read(err)
		}
		n, err := c.Conn.Read(c.scratch[:])
		c.pending = c.guard.filter(nil, c.scratch[:n])
		if err != nil && len(c.pending) == 0 {
			return 0, c.read(err)
		}
	}
	return 0, nil
}

// read is a reader's error. One that waited in vain is told so only when the writer has said why the socket ends.
func (c *conn) read(err error) error {
	if c.silent != nil && errors.Is(err, os.ErrDeadlineExceeded) && !c.lingering.Load() {
		c.silent()
	}
	return err
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

// write writes all that was joined. A client that takes too little of it in time is too slow: slow is called, and the frame
// that was begun has as much time again, so that one can follow that says so.
func (c *conn) write(j *joined, slow func()) error {
	j.cut()
	rest, written := j.pieces, 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for late := false; c.failed == nil; {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
			return err
		}
		n, err := rest.WriteTo(c.Conn)
		written += int(n)
		switch {
		case err == nil:
			j.settle(written)
			return nil
		case late || !errors.Is(err, os.ErrDeadlineExceeded):
			c.failed = err
		case n < takenAtLeast:
			end := j.end(written)
			j.settle(end)
			rest, late = first(rest, end-written), true
			slow()
		}
	}
	return c.failed
}

// Close is not melody's business either, which closes when its write pump ends: the session says when.
func (c *conn) Close() error { return nil }

// finish says that nothing more is written, and lets what the other side still sends be read for a while:
// to close with unread bytes would take back the close frame that is on its way.
func (c *conn) finish(d time.Duration) error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return c.shut()
	}
	if c.lingering.Swap(true) {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return c.shut()
	}
	return c.Conn.SetReadDeadline(time.Now().Add(d))
}

// shut closes for good, also what is only taken over afterwards.
func (c *conn) shut() error {
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.ended || c.Conn == nil {
		c.ended = true
		return nil
	}
	c.ended = true
	return c.Conn.Close()
}

// take takes a connection over.
func (c *conn) take(plain net.Conn) error {
	c.ending.Lock()
	defer c.ending.Unlock()
	c.Conn = plain
	if c.ended {
		return plain.Close()
	}
	return nil
}

// hijacker gives melody's upgrader a conn instead of the server's connection, and says when the server is done with it.
type hijacker struct {
	http.ResponseWriter

	conn  *conn
	taken chan struct{}
}

// Hijack takes the connection over.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	plain, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	err = h.conn.take(plain)
	h.ResponseWriter = nil // the server's memory of the request ends with it
	close(h.taken)
	return h.conn, buffered, err
}
