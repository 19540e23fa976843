package sockets

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
)

// dialWithin is how long a socket may take until it is level, in seconds.
const dialWithin = 60

// dial opens a socket with plain system calls, which wait: there are thousands, and each is opened once.
func dial(call Call) (_ *socket, err error) {
	address, err := net.ResolveTCPAddr("tcp4", call.Address)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	s := &socket{fd: fd}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if call.Window > 0 {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, call.Window); err != nil {
			return nil, err
		}
	}
	for _, option := range []int{syscall.SO_RCVTIMEO, syscall.SO_SNDTIMEO} {
		if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &syscall.Timeval{Sec: dialWithin}); err != nil {
			return nil, err
		}
	}
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return nil, err
	}
	if err := connect(fd, &syscall.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To4())}); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", call.Address, err)
	}
	if err := s.level(call); err != nil {
		return nil, err
	}
	return s, syscall.SetNonblock(fd, true)
}

// connect connects, however often the runtime's signals interrupt it.
func connect(fd int, address syscall.Sockaddr) error {
	for {
		switch err := syscall.Connect(fd, address); {
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EALREADY):
		case errors.Is(err, syscall.EISCONN):
			return nil
		default:
			return err
		}
	}
}

// level upgrades, says what is to be said, and reads until the server has said what is awaited.
func (s *socket) level(call Call) error {
	request := "GET " + call.Path + " HTTP/1.1\r\nHost: " + call.Address +
		"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	for _, line := range call.Header {
		request += line + "\r\n"
	}
	if err := s.write([]byte(request + "\r\n")); err != nil {
		return err
	}
	var out []byte
	for _, said := range call.Say {
		out = append(out, frame(1, []byte(said))...)
	}
	var had []byte
	body := -1
	buffer := make([]byte, 4096)
	for {
		n, err := syscall.Read(s.fd, buffer)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read: %w (after %q)", err, tail(had))
		}
		if n == 0 {
			return fmt.Errorf("the server closed it after %q", tail(had))
		}
		had = append(had, buffer[:n]...)
		if body < 0 {
			end := bytes.Index(had, []byte("\r\n\r\n"))
			if end < 0 {
				continue
			}
			if !bytes.HasPrefix(had, []byte("HTTP/1.1 101")) {
				return fmt.Errorf("no upgrade: %q", tail(had))
			}
			body = end + 4
			if err := s.write(out); err != nil {
				return err
			}
		}
		said := had[body:]
		if call.Refused != "" && bytes.Contains(said, []byte(call.Refused)) {
			return fmt.Errorf("refused: %q", tail(said))
		}
		if bytes.Contains(said, []byte(call.Await)) {
			return s.take(said, &Crowd{})
		}
	}
}

func tail(b []byte) string { return strings.ToValidUTF8(string(b[max(0, len(b)-400):]), "?") }

func (s *socket) write(b []byte) error {
	for len(b) > 0 {
		n, err := syscall.Write(s.fd, b)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write: %w", err)
		}
		b = b[n:]
	}
	return nil
}

func (s *socket) close() {
	_ = syscall.Close(s.fd) // it is nobody's any more
}

// read reads once what there is. What was left is put before it.
func (s *socket) read(buffer []byte, c *Crowd) error {
	start := keep - len(s.rest)
	copy(buffer[start:], s.rest)
	n, err := syscall.Read(s.fd, buffer[keep:])
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case n == 0:
		return errors.New("the server closed it")
	}
	return s.take(buffer[start:keep+n], c)
}

// poll knows which sockets can be read.
type poll struct {
	fd     int
	events []syscall.EpollEvent
	ready  []*socket

	mu      sync.Mutex
	sockets []*socket
}

func newPoll() (*poll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("bench: epoll: %w", err)
	}
	return &poll{fd: fd, events: make([]syscall.EpollEvent, 1024)}, nil
}

func (p *poll) add(s *socket) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sockets = append(p.sockets, s)
	return syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, s.fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(len(p.sockets) - 1)})
}

func (p *poll) remove(s *socket) {
	_ = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_DEL, s.fd, nil) // it is dead either way
}

func (p *poll) all() []*socket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sockets
}

// wait waits until some can be read, or for a moment.
func (p *poll) wait() ([]*socket, error) {
	const moment = 20 // ms
	n, err := syscall.EpollWait(p.fd, p.events, moment)
	if errors.Is(err, syscall.EINTR) {
		n, err = 0, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bench: epoll: %w", err)
	}
	sockets := p.all()
	p.ready = p.ready[:0]
	for _, e := range p.events[:n] {
		p.ready = append(p.ready, sockets[e.Fd])
	}
	return p.ready, nil
}

func (p *poll) close() error { return syscall.Close(p.fd) }

// enough says whether this process may hold so many sockets.
func enough(sockets int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("bench: ask for the limit of open files: %w", err)
	}
	const others = 256 // logs, libraries, the server's database and broker
	need := uint64(sockets + others)
	if limit.Cur >= need {
		return nil
	}
	if limit.Max < need {
		return fmt.Errorf("bench: %d sockets need %d open files, and %d are allowed: raise the limit (ulimit -n %d), or measure fewer (--connections)",
			sockets, need, limit.Max, need)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("bench: raise the limit of open files to %d: %w", limit.Max, err)
	}
	return nil
}
