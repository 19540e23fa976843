package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// link is one connection, from its client through the proxy to its server.
type link struct {
	client, server net.Conn
	watch          watcher // nil: none

	up, down int64 // after so many bytes in that direction the link ends; negative: never

	silent atomic.Bool
	losing atomic.Bool // the next bytes of the server end the link, and do not arrive
	once   sync.Once
	gone   chan struct{} // closed with both ends
}

func (l *link) silence()       { l.silent.Store(true) }
func (l *link) isSilent() bool { return l.silent.Load() }

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.client.Close() // a network that breaks tells nobody
		_ = l.server.Close()
	})
}

// run copies both ways until the link ends. Of a silent link each end goes when it goes, and the other is not told.
func (l *link) run() {
	var both sync.WaitGroup
	both.Go(func() { l.upward() })
	both.Go(func() { l.downward() })
	both.Wait()
	l.close()
}

// upward copies from the client to the server.
func (l *link) upward() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 && !l.isSilent() {
			what := pass
			if l.watch != nil {
				what = l.watch.sent(buffer[:n])
			}
			if what == loseIt {
				l.close()
				return
			}
			if what == loseAnswer {
				l.losing.Store(true) // before the server can answer
			}
			if !pour(l.server, buffer[:n], &l.up) {
				l.end()
				return
			}
		}
		if err != nil {
			l.end()
			return
		}
	}
}

// downward copies from the server to the client.
func (l *link) downward() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 && l.losing.Load() {
			l.close()
			return
		}
		if n > 0 && !l.isSilent() && !pour(l.client, buffer[:n], &l.down) {
			l.end()
			return
		}
		if err != nil {
			l.end()
			return
		}
	}
}

// pour writes as much as the link still passes, and reports whether it goes on.
func pour(to io.Writer, bytes []byte, left *int64) bool {
	if *left < 0 {
		_, err := to.Write(bytes)
		return err == nil
	}
	n := min(*left, int64(len(bytes)))
	*left -= n
	_, err := to.Write(bytes[:n])
	return err == nil && *left > 0
}

// end closes the link, unless it is silent: then the other end is left alone until it gives up by itself.
func (l *link) end() {
	if !l.isSilent() {
		l.close()
	}
}
