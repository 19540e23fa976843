package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/olahol/melody"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/accounts"
)

// The codes that a socket is closed with.
const (
	closePolicy   = melody.ClosePolicyViolation // not allowed, or no hello in time
	closeGarbage  = melody.CloseInvalidFramePayloadData
	closeRestart  = melody.CloseServiceRestart // connect again and repeat what has no end
	closeReplaced = 4001                       // the same device connected again
	closeSlow     = 4008                       // read faster; connect again, go on from the place, and repeat what has no end
)

// endsPump is longer than a close frame can be (RFC 6455, section 5.5).
const endsPump = 126

// malformedInARow closes a socket.
const malformedInARow = 5

// session is one socket of a user. It has one reader (melody's), a writer while there is something to write, and what its
// requests and subscriptions run. There may be many thousands that only wait: what such a one does not need, it does not have.
type session struct {
	gateway *Gateway
	id      string
	who     accounts.Principal
	scope   domain.Scope // who's
	user    string       // who's
	conn    *conn
	outbox  outbox

	ctx    context.Context //nolint:containedctx // the socket's life, which no call frame spans
	cancel context.CancelFunc
	gate   gate // what runs for this socket
	closed atomic.Bool
	inHand atomic.Int64 // bytes of results that are being recorded
	reason atomic.Pointer[closing]
	told   chan struct{} // closed when the client was told why the socket ends

	malformed int                 // in a row; the reader's
	unknown   map[string]struct{} // unknown types that were answered; the reader's

	presenting sync.Mutex    // one hello becomes known at a time
	ready      atomic.Bool   // its device is given its calls
	resumed    chan struct{} // nothing is awaited any more

	mu       sync.Mutex
	hello    *hello // nil: not said yet
	deadline *time.Timer
	requests requests
	awaited  map[string]bool // runs that waited for the device and were not resumed yet

	// The table's.
	slot         int // when it is pinged
	before, next *session
}

type closing struct {
	code int
	text string
}

func (g *Gateway) newSession(who accounts.Principal) *session {
	s := &session{
		gateway: g, id: "socket-" + rand.Text(), who: who, scope: who.Scope, user: who.UserID,
		outbox: newOutbox(), told: make(chan struct{}), resumed: make(chan struct{}, 1),
	}
	s.conn = &conn{within: g.Timing.Write, guard: guard{limit: maxFrame, oversized: s.oversized}, silent: s.unanswered}
	s.ctx, s.cancel = context.WithCancel(g.life)
	return s
}

// opened starts what belongs to a socket. Melody calls it before it reads.
func (s *session) opened(socket *melody.Session) {
	socket.Request = nil                            // nobody asks for it, and it is large
	_ = socket.CloseWithMsg(make([]byte, endsPump)) // nobody writes by melody: its write pump ends at what can't be sent
	s.gateway.metrics.opened.Inc()
	s.mu.Lock()
	s.deadline = time.AfterFunc(s.gateway.Timing.Hello, func() {
		s.close(closePolicy, "no device_hello came in time")
	})
	s.mu.Unlock()
	s.work(s.outbox.open())
}

// inTime ends the wait for a hello.
func (s *session) inTime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline != nil {
		s.deadline.Stop()
		s.deadline = nil
	}
}

// ended stops all of it and waits for it.
func (s *session) ended() {
	s.closed.Store(true)
	s.inTime()
	s.gateway.offline(s)
	s.closeAll(s.outbox.stop())
	s.cancel()
	_ = s.conn.shut() // the other side is gone, or has had its time
	s.gate.close()
	s.gate.wait()
	s.gateway.metrics.closed.WithLabelValues(reasonOf(s.reason.Load())).Inc()
	s.gateway.offline(s) // it may have arrived as the newest socket of its device only after it was gone
}

// close says why and closes; what is queued leaves before, but not to a client that does not read.
func (s *session) close(code int, text string) {
	if !s.reason.CompareAndSwap(nil, &closing{code, text}) {
		return
	}
	s.closed.Store(true)
	if code == closeSlow {
		s.work(s.outbox.cut())
		return
	}
	s.work(s.outbox.close())
}

func (s *session) closeAll(subscriptions []*subscription) {
	for _, sub := range subscriptions {
		sub.close()
	}
}

// send queues a frame.
func (s *session) send(frame any) { s.sendBytes(encode(frame)) }

func (s *session) sendBytes(frame []byte) {
	ok, start := s.outbox.push(frame)
	s.queued(ok, start)
}

// queued goes on after a frame was queued. A client that is too slow for it is cut off.
func (s *session) queued(ok, start bool) {
	if !ok {
		s.close(closeSlow, s.resume("frames were not read in time"))
	}
	s.work(start)
}

func (s *session) fail(f errorFrame) {
	f.Type = "error"
	s.send(f)
}

func (s *session) oversized(size int64) {
	s.fail(errorFrame{Code: domain.CodeTooLarge, Message: fmt.Sprintf("a frame may have %d bytes, this one has at least %d", maxFrame, size)})
}

// text takes a text frame. It never waits: what takes time runs beside the reader, which must see pongs.
func (s *session) text(frame []byte) {
	if !s.conn.guard.whole() || s.closed.Load() {
		return
	}
	if !utf8.Valid(frame) {
		s.garbage("the frame is not valid UTF-8")
		return
	}
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(frame, &head); err != nil {
		s.garbage("the frame is not a JSON object with a type")
		return
	}
	if head.Type == nil || *head.Type == "" {
		s.garbage("the frame has no type")
		return
	}
	s.dispatch(*head.Type, frame)
}

func (s *session) binary([]byte) {
	if s.conn.guard.whole() && !s.closed.Load() {
		s.garbage("frames are JSON text, this one is binary")
	}
}

func (s *session) garbage(why string) { s.unreadable(errorFrame{Message: why}) }

// unreadable refuses a frame that can't be read. It names what the frame belongs to, where that much of it can be.
func (s *session) unreadable(f errorFrame) {
	s.malformed++
	f.Code = "malformed"
	s.fail(f)
	if s.malformed >= malformedInARow {
		s.close(closeGarbage, "too many malformed frames in a row")
	}
}

// dispatch hands a frame to what understands it.
func (s *session) dispatch(kind string, frame []byte) {
	if s.said() == nil && kind != "device_hello" && kind != "ping" && kind != "pong" {
		s.close(closePolicy, "the first frame must be device_hello")
		return
	}
	s.gateway.metrics.frame(kind)
	var err error
	switch kind {
	case "device_hello":
		err = s.greet(frame)
	case "chat_request", "home_request", "floating_request":
		err = s.ask(kind, frame)
	case "subscribe":
		err = s.subscribe(frame)
	case "unsubscribe":
		err = s.unsubscribe(frame)
	case "cancel":
		err = s.stop(frame)
	case "tool_result", "data_response":
		err = s.result(kind, frame)
	case "tool_ack", "pong":
	case "ping":
		s.send(pingFrame{Type: "pong"})
	default:
		s.unknownType(kind)
	}
	if err != nil {
		f := askedBy(kind, frame)
		f.Message = err.Error()
		s.unreadable(f)
		return
	}
	s.malformed = 0
}

// unknownType is answered once; the memory of what was answered is bounded.
func (s *session) unknownType(kind string) {
	const remembered = 64
	if _, ok := s.unknown[kind]; ok || len(s.unknown) >= remembered {
		return
	}
	if s.unknown == nil {
		s.unknown = map[string]struct{}{}
	}
	s.unknown[kind] = struct{}{}
	s.fail(errorFrame{Code: "unknown_type", Message: fmt.Sprintf("frames of type %.40q are not known here", kind)})
}

func (s *session) said() *hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello
}
