package device_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/clients/device"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is one accepted socket, driven by the test.
type peer struct {
	t    *testing.T
	conn *websocket.Conn
}

func (p peer) read() map[string]any {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	var frame map[string]any
	if err := p.conn.ReadJSON(&frame); err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return frame
}

func (p peer) write(text string) {
	p.t.Helper()
	if err := p.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

func (p peer) expect(kind string) map[string]any {
	p.t.Helper()
	frame := p.read()
	if frame["type"] != kind {
		p.t.Fatalf("got %v, want a %s", frame, kind)
	}
	return frame
}

// greet takes the device's hello and answers it.
func (p peer) greet() map[string]any {
	p.t.Helper()
	hello := p.expect("device_hello")
	if hello["protocol"] != nil {
		p.write(`{"type":"hello"}`)
	}
	return hello
}

type backend struct {
	t     *testing.T
	conns chan *websocket.Conn
	URL   string
}

func listen(t *testing.T) *backend {
	b := &backend{t: t, conns: make(chan *websocket.Conn)}
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/ws/device" || r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		select {
		case b.conns <- conn:
		case <-done:
			_ = conn.Close()
		}
	}))
	t.Cleanup(func() { close(done); server.Close() })
	b.URL = server.URL
	return b
}

func (b *backend) accept() peer {
	b.t.Helper()
	select {
	case conn := <-b.conns:
		b.t.Cleanup(func() { _ = conn.Close() })
		return peer{b.t, conn}
	case <-time.After(5 * time.Second):
		b.t.Fatal("the device does not connect")
		return peer{}
	}
}

func start(t *testing.T, o device.Options) *device.Device {
	t.Helper()
	o.DeviceID, o.MinBackoff, o.MaxBackoff = "d1", time.Millisecond, 5*time.Millisecond
	if o.Token == nil {
		o.Token = func(context.Context) (string, error) { return "good", nil }
	}
	if o.Store == nil {
		o.Store = open(t, ":memory:")
	}
	d, err := device.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() { cancel(); _ = <-done })
	return d
}

func wait(t *testing.T, s *device.Stream) device.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := s.Wait(ctx)
	if err != nil {
		t.Fatalf("the request does not end: %v", err)
	}
	return r
}

const insertOnce = `{"type":"tool_call","id":"r.1.0.1","run_id":"r","action":"insert","table":"tasks","data":{"title":"once"}}`

func TestAnAnswerIsSentAgainUntilAcknowledged(t *testing.T) {
	b := listen(t)
	died := false
	d := start(t, device.Options{URL: b.URL, Fault: func(device.Call) device.Fault {
		f := device.Fault{DieAfter: !died}
		died = true
		return f
	}})
	p := b.accept()
	if hello := p.greet(); hello["journal"] != true || hello["protocol"] != 3.0 {
		t.Fatalf("hello %v", hello)
	}
	p.write(insertOnce)

	p = b.accept() // it died after doing the call
	p.greet()
	first := p.expect("tool_result")
	p.write(insertOnce) // offered again before the result was recorded
	second := p.expect("tool_result")
	if first["row"].(map[string]any)["id"] != second["row"].(map[string]any)["id"] {
		t.Fatalf("done twice: %v and %v", first, second)
	}
	p.write(`{"type":"tool_result_ack","id":"r.1.0.1"}`)
	p.write(`{"type":"ping"}`)
	p.expect("pong")
	d.Cut()

	p = b.accept()
	p.greet()
	p.write(`{"type":"ping"}`)
	p.expect("pong") // and no result before it
	if rows, err := d.Store().Rows(t.Context(), "tasks"); err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
}

func TestARequestIsRepeatedUntilItsEnd(t *testing.T) {
	b := listen(t)
	d := start(t, device.Options{URL: b.URL})
	s := d.Send(device.Request{Message: "hello", RequestID: "q1"})
	p := b.accept()
	p.greet()
	if q := p.expect("home_request"); q["request_id"] != "q1" || q["message"] != "hello" {
		t.Fatalf("asked %v", q)
	}
	p.write(`{"type":"stream_start","request_id":"q1","run_id":"r"}`)
	p.write(`{"type":"stream_text","request_id":"q1","chunk":"stale half"}`)
	d.Cut()

	p = b.accept()
	p.greet()
	p.expect("home_request")
	for _, frame := range []string{
		`{"type":"stream_start","request_id":"q1","run_id":"r","session_id":"t"}`,
		`{"type":"stream_text","request_id":"q1","chunk":"first "}`,
		`{"type":"tool_call","id":"r.1.0.1","run_id":"r","action":"select","table":"tasks"}`,
		`{"type":"stream_text","request_id":"q1","chunk":"dropped"}`,
		`{"type":"stream_block","request_id":"q1","block_type":"retry","data":{}}`,
		`{"type":"stream_text","request_id":"q1","chunk":"second"}`,
		`{"type":"stream_block","request_id":"q1","block_type":"table","data":{"rows":[]}}`,
		`{"type":"stream_end","request_id":"q1","mutations":[{"table":"tasks","action":"insert","id":"x"}]}`,
	} {
		p.write(frame)
	}
	r := wait(t, s)
	if r.Text != "first second" || len(r.Blocks) != 1 || len(r.Mutations) != 1 || r.Err != nil || r.SessionID != "t" {
		t.Fatalf("ended %+v", r)
	}
}

func TestOneRequestAtATimeOnV2(t *testing.T) {
	for _, protocol := range []int{device.V2, device.Undeclared} {
		b := listen(t)
		d := start(t, device.Options{URL: b.URL, Protocol: protocol, Forgetful: true})
		one, two := d.Send(device.Request{Message: "1"}), d.Send(device.Request{Message: "2"})
		p := b.accept()
		p.greet()
		for _, text := range []string{"one", "two"} {
			p.expect("chat_request")
			p.write(`{"type":"text_chunk","text":"o"}`)
			p.write(`{"type":"final","response":"` + text + `"}`)
		}
		if a, b := wait(t, one).Text, wait(t, two).Text; a != "one" || b != "two" {
			t.Errorf("protocol %d: %q and %q", protocol, a, b)
		}
	}
}

func TestFailuresEndARequestInWords(t *testing.T) {
	b := listen(t)
	d := start(t, device.Options{URL: b.URL})
	p := b.accept()
	p.greet()
	for _, end := range []string{
		`{"type":"stream_end","request_id":"q","mutations":[],"error":"too bad"}`,
		`{"type":"stream_end","request_id":"q","mutations":[],"error":{"code":"x","message":"too bad"}}`,
		`{"type":"error","request_id":"q","code":"too_large","message":"too bad"}`,
	} {
		s := d.Send(device.Request{Message: "m", RequestID: "q"})
		p.expect("home_request")
		p.write(end)
		if r := wait(t, s); r.Err == nil || !strings.Contains(r.Err.Error(), "too bad") {
			t.Errorf("%s: %v", end, r.Err)
		}
	}
}

func TestMisbehaviour(t *testing.T) {
	b := listen(t)
	faults := make(chan device.Fault, 1)
	calls := make(chan device.Call, 10)
	d := start(t, device.Options{URL: b.URL, Fault: func(device.Call) device.Fault { return <-faults }, OnCall: func(c device.Call) { calls <- c }})
	p := b.accept()
	p.greet()

	faults <- device.Fault{Silent: true}
	p.write(strings.Replace(insertOnce, "r.1.0.1", "silent.1.0.1", 1))
	<-calls
	faults <- device.Fault{Twice: true, Answer: json.RawMessage(`{"rows":7}`)}
	p.write(strings.Replace(insertOnce, "r.1.0.1", "twice.1.0.1", 1))
	for range 2 {
		if got := p.expect("tool_result"); got["id"] != "twice.1.0.1" || got["rows"] != 7.0 {
			t.Fatalf("answered %v", got)
		}
	}
	<-calls
	faults <- device.Fault{DieMid: true}
	p.write(strings.Replace(insertOnce, "r.1.0.1", "mid.1.0.1", 1))
	if _, _, err := p.conn.ReadMessage(); err == nil {
		t.Fatal("a half frame was read as a whole one")
	}
	p = b.accept()
	p.greet()
	p.expect("tool_result") // twice.1.0.1
	if got := p.expect("tool_result"); got["id"] != "mid.1.0.1" {
		t.Fatalf("answered %v", got)
	}
	if rows, err := d.Store().Rows(t.Context(), "tasks"); err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
}

func TestARefusedTokenEndsRun(t *testing.T) {
	b := listen(t)
	d, err := device.New(device.Options{URL: b.URL, DeviceID: "d", Store: open(t, ":memory:"), MinBackoff: time.Millisecond,
		Token: func(context.Context) (string, error) { return "bad", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != device.ErrUnauthorized {
		t.Fatalf("Run: %v", err)
	}
}
