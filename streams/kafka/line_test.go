package kafka_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// line is the network of one process: it can be stopped for a while, cut once, made deaf, or severed for ever.
type line struct {
	network *kfake.VirtualNetwork
	// latency is what each answer takes at least. Where it is zero a client that asks again at once spins, and virtual time
	// stands still.
	latency time.Duration

	mu     sync.Mutex
	conns  map[*cutConn]bool
	frozen chan struct{} // nil: it runs; else closed when it goes on
	held   chan struct{} // nil: answers arrive; else closed when they do again
	dead   bool
}

var errCut = errors.New("cut off")

func newLine(network *kfake.VirtualNetwork) *line {
	return &line{network: network, conns: map[*cutConn]bool{}}
}

// sever cuts everything, for ever.
func (l *line) sever() {
	l.mu.Lock()
	l.dead = true
	for c := range l.conns {
		c.Conn.Close()
	}
	l.mu.Unlock()
	l.mend()
}

// pause stops the process as a stalled machine does; resume lets it go on where it was.
func (l *line) pause() { l.shut(&l.frozen) }

func (l *line) resume() { l.open(&l.frozen) }

// hold keeps all answers on their way: what is asked is done, and nobody hears of it until release.
func (l *line) hold() { l.shut(&l.held) }

func (l *line) release() { l.open(&l.held) }

// mend ends what is going on.
func (l *line) mend() {
	l.resume()
	l.release()
}

func (l *line) shut(gate *chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *gate == nil && !l.dead {
		*gate = make(chan struct{})
	}
}

func (l *line) open(gate *chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *gate != nil {
		close(*gate)
		*gate = nil
	}
}

// gate waits while the process is stopped.
func (l *line) gate() error { return l.wait(&l.frozen) }

func (l *line) wait(gate *chan struct{}) error {
	for {
		l.mu.Lock()
		shut, dead := *gate, l.dead
		l.mu.Unlock()
		if dead {
			return errCut
		}
		if shut == nil {
			return nil
		}
		<-shut
	}
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := l.gate(); err != nil {
		return nil, err
	}
	c, err := l.network.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := &cutConn{Conn: c, line: l}
	l.conns[cut] = true
	return cut, nil
}

// drop cuts every connection once: answers on their way are lost, what was asked may have been done.
func (l *line) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Conn.Close()
		delete(l.conns, c)
	}
}

type cutConn struct {
	net.Conn
	line *line
}

func (c *cutConn) Write(b []byte) (int, error) {
	if err := c.line.gate(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.line.latency > 0 {
		elapse(c.line.latency)
	}
	if gone := errors.Join(c.line.gate(), c.line.wait(&c.line.held)); gone != nil {
		return 0, gone
	}
	return n, err
}
