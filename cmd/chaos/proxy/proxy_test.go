package proxy_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/cmd/chaos/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers each line with "name: line", and keeps what it got.
type server struct {
	listener net.Listener
	running  sync.WaitGroup
	mu       sync.Mutex
	got      []string
	conns    []net.Conn
}

func serve(t *testing.T, name string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{listener: l}
	s.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.running.Go(func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					s.mu.Lock()
					s.got = append(s.got, lines.Text())
					s.mu.Unlock()
					fmt.Fprintf(conn, "%s: %s\n", name, lines.Text())
				}
			})
		}
	})
	t.Cleanup(s.close)
	return s
}

func (s *server) close() {
	s.listener.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *server) target() proxy.Target { return proxy.TCP(s.listener.Addr().String()) }

func open(t *testing.T, targets ...proxy.Target) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Listen(targets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

type client struct {
	net.Conn
	*bufio.Reader
}

func dial(t *testing.T, addr string) client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

// say sends a line and answers what comes within a while.
func (c client) say(line string, within time.Duration) (string, error) {
	if _, err := fmt.Fprintln(c.Conn, line); err != nil {
		return "", err
	}
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	answer, err := c.ReadString('\n')
	return strings.TrimSpace(answer), err
}

const long, short = 5 * time.Second, 150 * time.Millisecond

func TestConnectionsGoToTheTargetsInTurnAndPastOneThatIsAway(t *testing.T) {
	a, b := serve(t, "a"), serve(t, "b")
	p := open(t, a.target(), b.target())
	seen := map[string]int{}
	for range 4 {
		answer, err := dial(t, p.Addr()).say("x", long)
		if err != nil {
			t.Fatal(err)
		}
		seen[answer]++
	}
	if seen["a: x"] != 2 || seen["b: x"] != 2 {
		t.Errorf("in turn: %v", seen)
	}
	a.listener.Close()
	for range 3 {
		if answer, err := dial(t, p.Addr()).say("x", long); err != nil || answer != "b: x" {
			t.Errorf("with one away: %q, %v", answer, err)
		}
	}
	p.Point(serve(t, "c").target())
	if answer, err := dial(t, p.Addr()).say("x", long); err != nil || answer != "c: x" {
		t.Errorf("pointed elsewhere: %q, %v", answer, err)
	}
}

func TestACutConnectionEndsAtBothEnds(t *testing.T) {
	s := serve(t, "s")
	p := open(t, s.target())
	c := dial(t, p.Addr())
	if _, err := c.say("before", long); err != nil {
		t.Fatal(err)
	}
	if n := p.Cut(); n != 1 {
		t.Errorf("cut %d connections", n)
	}
	if answer, err := c.say("after", long); err == nil {
		t.Errorf("a cut connection answered %q", answer)
	}
	if answer, err := dial(t, p.Addr()).say("anew", long); err != nil || answer != "s: anew" {
		t.Errorf("a new connection: %q, %v", answer, err)
	}
}

// TestAFrayedConnectionEndsAtAByte: exactly so many bytes pass, in either direction.
func TestAFrayedConnectionEndsAtAByte(t *testing.T) {
	s := serve(t, "s")
	p := open(t, s.target())
	for n := int64(1); n < 12; n++ {
		p.Fray(func() (up, down int64) { return -1, n })
		c := dial(t, p.Addr())
		fmt.Fprintln(c.Conn, "a line that is answered")
		got, err := io.ReadAll(c.Reader)
		if int64(len(got)) != n {
			t.Fatalf("%d bytes came of %d: %v", len(got), n, err)
		}
	}
	p.Fray(func() (up, down int64) { return 3, -1 })
	if answer, err := dial(t, p.Addr()).say("abcdef", long); err == nil {
		t.Fatalf("a line of which three bytes passed was answered %q", answer)
	}
	p.Fray(nil)
	if answer, err := dial(t, p.Addr()).say("whole", long); err != nil || answer != "s: whole" {
		t.Errorf("sound again: %q, %v", answer, err)
	}
}

// TestAHalfOpenConnectionTellsNobody is what keep-alives are for.
func TestAHalfOpenConnectionTellsNobody(t *testing.T) {
	s := serve(t, "s")
	p := open(t, s.target())
	c := dial(t, p.Addr())
	if _, err := c.say("before", long); err != nil {
		t.Fatal(err)
	}
	if n := p.Silence(); n != 1 || p.Links() != 0 {
		t.Errorf("silenced %d connections, %d are sound", n, p.Links())
	}
	if answer, err := c.say("into the void", short); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a half-open connection said %q, %v", answer, err)
	}
	s.mu.Lock()
	got := strings.Join(s.got, ",")
	s.mu.Unlock()
	if got != "before" {
		t.Errorf("the server got %q", got)
	}
	if answer, err := dial(t, p.Addr()).say("anew", long); err != nil || answer != "s: anew" {
		t.Errorf("a new connection: %q, %v", answer, err)
	}
}

// message is a message of Postgres' protocol; type 0: the first one, which has none.
func message(kind byte, body string) []byte {
	var b []byte
	if kind != 0 {
		b = append(b, kind)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(4+len(body)))
	return append(b, body...)
}

// TestOnlyACommitLosesItsAnswer sends what a client of Postgres sends, cut into pieces of every size.
func TestOnlyACommitLosesItsAnswer(t *testing.T) {
	for size := 1; size < 40; size += 3 {
		for _, arrives := range []bool{true, false} {
			got := make(chan string, 1)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				var all []byte
				buffer := make([]byte, 256)
				for {
					n, err := conn.Read(buffer)
					all = append(all, buffer[:n]...)
					if strings.HasSuffix(string(all), "commit\x00") {
						_, _ = conn.Write([]byte("COMMIT"))
					}
					if err != nil {
						got <- string(all)
						return
					}
				}
			}()
			p, err := proxy.ListenCommits(proxy.TCP(l.Addr().String()))
			if err != nil {
				t.Fatal(err)
			}
			if arrives {
				p.Blur(1, 0)
			} else {
				p.Blur(0, 1)
			}
			c := dial(t, p.Addr())
			first := append(message(0, "\x00\x03\x00\x00user\x00cairn\x00\x00"), message('Q', "begin\x00")...)
			first = append(first, message('P', "\x00UPDATE x SET y = 'commit'\x00\x00\x00")...)
			first = append(first, message('S', "")...)
			last := message('Q', "commit\x00")
			for piece := range chunks(append(first, last...), size) {
				if _, err := c.Write(piece); err != nil {
					break // the proxy has ended it
				}
			}
			_ = c.SetReadDeadline(time.Now().Add(long))
			if answer, err := io.ReadAll(c.Conn); len(answer) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("pieces of %d, arrives %v: the client was told %q, %v", size, arrives, answer, err)
			}
			if all := <-got; strings.HasSuffix(all, string(last)) != arrives {
				t.Errorf("pieces of %d: the server got %q, wanted the commit to arrive: %v", size, all, arrives)
			}
			if done, left := p.Blurred(); done != 1 || left != 0 {
				t.Errorf("%d done, %d left", done, left)
			}
			p.Close()
			l.Close()
		}
	}
}

func chunks(b []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := min(size, len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}
