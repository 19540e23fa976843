// Package proxy stands between two parties of a TCP connection and does to it what networks do: it cuts, it goes silent
// without a word, it loses an answer. It is for the chaos program only.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Target is where connections go: a network and an address, as net.Dial takes them.
type Target struct {
	Network, Address string
}

// TCP is a target on the network tcp.
func TCP(address string) Target { return Target{Network: "tcp", Address: address} }

// Proxy takes connections on a loopback port that never changes, and passes them on to its targets in turn.
type Proxy struct {
	listener net.Listener
	watch    func() watcher // of a new connection; nil: none

	mu      sync.Mutex
	targets []Target
	next    int
	fray    func() (up, down int64)
	links   map[*link]bool
	closed  bool
	running sync.WaitGroup
}

// watcher looks at what a client sends and says what becomes of it.
type watcher interface {
	sent(bytes []byte) fate
}

// fate is what becomes of bytes that a client sent.
type fate int

const (
	pass       fate = iota
	loseIt          // they never arrive, and the connection dies
	loseAnswer      // they arrive, what comes back does not, and the connection dies
)

// Listen starts a proxy to targets. Close ends it.
func Listen(targets ...Target) (*Proxy, error) { return listen(nil, targets) }

func listen(watch func() watcher, targets []Target) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: listener, watch: watch, targets: targets, links: map[*link]bool{}}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Point has new connections go to other targets.
func (p *Proxy) Point(targets ...Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets, p.next = targets, 0
}

// Fray has each new connection end after as many bytes as draw says, in the direction in which they run out first, wherever
// in a message that is. Negative: never. A nil draw ends it.
func (p *Proxy) Fray(draw func() (up, down int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fray = draw
}

// Cut closes every connection, both ends of it, and answers how many there were.
func (p *Proxy) Cut() int {
	links := p.open()
	for _, l := range links {
		l.close()
	}
	return len(links)
}

// Silence makes every connection half-open: nothing passes any more, in either direction, and neither end is told. Only
// who notices by itself that nothing comes will leave. It answers how many there were; new connections are sound.
func (p *Proxy) Silence() int {
	links := p.open()
	for _, l := range links {
		l.silence()
	}
	return len(links)
}

// Links are the connections that are open now, and pass what they are given.
func (p *Proxy) Links() int {
	n := 0
	for _, l := range p.open() {
		if !l.isSilent() {
			n++
		}
	}
	return n
}

// Close ends the proxy and all its connections, and returns when everything has stopped.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // it ends accept
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // one connection that broke before it was taken
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = client.Close() // there is nobody to tell
			return
		}
		p.running.Go(func() { p.serve(client) })
		p.mu.Unlock()
	}
}

// serve passes one connection on until it ends. A target that takes no connections is passed over.
func (p *Proxy) serve(client net.Conn) {
	server := p.dial()
	if server == nil {
		_ = client.Close() // as refused as can be told
		return
	}
	l := &link{client: client, server: server, up: -1, down: -1, gone: make(chan struct{})}
	if p.watch != nil {
		l.watch = p.watch()
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.close()
		return
	}
	p.links[l] = true
	if p.fray != nil {
		l.up, l.down = p.fray()
	}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

const dialWithin = 2 * time.Second

func (p *Proxy) dial() net.Conn {
	p.mu.Lock()
	targets := make([]Target, 0, len(p.targets))
	for i := range p.targets {
		targets = append(targets, p.targets[(p.next+i)%len(p.targets)])
	}
	p.next++
	p.mu.Unlock()
	for _, t := range targets {
		ctx, cancel := context.WithTimeout(context.Background(), dialWithin)
		conn, err := (&net.Dialer{}).DialContext(ctx, t.Network, t.Address)
		cancel()
		if err == nil {
			return conn
		}
	}
	return nil
}
