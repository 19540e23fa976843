package proxy

import (
	"bytes"
	"encoding/binary"
	"sync"
)

// Commits is a proxy to Postgres that can make the outcome of a COMMIT unknown to who asked for it.
type Commits struct {
	*Proxy

	mu    sync.Mutex
	armed []fate
	lost  int
}

// ListenCommits starts a proxy to a Postgres server. Its clients use no TLS.
func ListenCommits(target Target) (*Commits, error) {
	c := &Commits{}
	var err error
	c.Proxy, err = listen(func() watcher { return &messages{commits: c} }, []Target{target})
	return c, err
}

// Blur makes the outcomes of the next COMMITs unknown: of some of them the answer is lost after Postgres committed, of
// the others the COMMIT itself before it arrived, in turn. Either way the connection dies, and who asked can't tell which it was.
func (c *Commits) Blur(committed, notCommitted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range max(committed, notCommitted) {
		if i < committed {
			c.armed = append(c.armed, loseAnswer)
		}
		if i < notCommitted {
			c.armed = append(c.armed, loseIt)
		}
	}
}

// Blurred is how many outcomes were made unknown so far, and how many still will be.
func (c *Commits) Blurred() (done, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost, len(c.armed)
}

func (c *Commits) commit() fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.armed) == 0 {
		return pass
	}
	f := c.armed[0]
	c.armed = c.armed[1:]
	c.lost++
	return f
}

// messages follows what a client says, message by message: the first has no type, all others have one byte of it;
// then come four bytes of length, which count themselves (PostgreSQL, "Message Formats").
type messages struct {
	commits *Commits
	begun   bool
	head    []byte // of the message that has begun
	rest    int    // of its body, not yet seen
	body    []byte // of a simple query
}

// sent implements watcher.
func (m *messages) sent(piece []byte) fate {
	for len(piece) > 0 {
		if m.rest == 0 {
			piece = m.begin(piece)
		}
		n := min(m.rest, len(piece))
		if len(m.head) > 0 && m.head[0] == 'Q' && len(m.body) < 64 {
			m.body = append(m.body, piece[:n]...)
		}
		piece, m.rest = piece[n:], m.rest-n
		if m.rest > 0 || !m.whole() {
			continue
		}
		commits := m.head[0] == 'Q' && bytes.EqualFold(bytes.TrimRight(m.body, ";\x00 "), []byte("commit"))
		m.head, m.body = m.head[:0], m.body[:0]
		if commits {
			if f := m.commits.commit(); f != pass {
				return f
			}
		}
	}
	return pass
}

// begin takes a message's head from the front of piece.
func (m *messages) begin(piece []byte) []byte {
	for len(piece) > 0 && !m.whole() {
		m.head, piece = append(m.head, piece[0]), piece[1:]
	}
	if !m.whole() {
		return piece
	}
	length := int(binary.BigEndian.Uint32(m.head[len(m.head)-4:]))
	m.rest = max(0, length-4)
	if !m.begun {
		m.begun = true
		m.head = append([]byte{0}, m.head...) // as if its type were 0
	}
	return piece
}

func (m *messages) whole() bool {
	if !m.begun {
		return len(m.head) == 4
	}
	return len(m.head) == 5
}
