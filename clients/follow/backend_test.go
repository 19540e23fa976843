package follow_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/cairnhq/cairn/clients/follow"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

const scope = "user-ann"

// story is what was committed in a scope: a few streams, some events with content.
func story(n int) []follow.Event {
	heads := map[string]streams.Recorded{}
	var all []follow.Event
	for i := range n {
		stream := fmt.Sprint("thread-", i%3)
		prev, ok := heads[stream]
		before := codec.Genesis(domain.Stream(stream))
		if ok {
			before = prev.Hash
		}
		r := streams.Recorded{
			ID: fmt.Sprint("event-", i), Scope: scope, Stream: domain.Stream(stream), Version: prev.Version + 1, Position: uint64(i + 1),
			Type: "thread.titled", Schema: 1, At: fmt.Sprintf("2026-11-30T00:00:%02d.000000Z", i%60), Actor: json.RawMessage(`{"kind":"user","id":"ann"}`),
			Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)),
		}
		e := follow.Event{
			Stream: stream, Seq: r.Version, Position: r.Position, ID: r.ID, Type: r.Type, Schema: r.Schema, At: r.At, Actor: r.Actor,
			Data: r.Data, Stored: &follow.Stored{Data: string(r.Data), Actor: string(r.Actor), At: r.At},
		}
		if i%2 == 0 {
			text, salt := fmt.Sprintf(`{"title":"title \"%d\" <è>"}`, i), []byte(fmt.Sprint("salt ", i))
			mac := hmac.New(sha256.New, salt)
			mac.Write([]byte(text))
			r.SealDigest = mac.Sum(nil)
			e.SealDigest, e.Salt, e.Stored.Text = hex.EncodeToString(r.SealDigest), hex.EncodeToString(salt), &text
			e.Data = json.RawMessage(fmt.Sprintf(`{"n":%d,"content":%s}`, i, text))
		}
		r.Hash = codec.Chain(before, r)
		e.Hash = hex.EncodeToString(r.Hash)
		heads[stream] = r
		all = append(all, e)
	}
	return all
}

func ids(all []follow.Event, stream string) (found []string) {
	for _, e := range all {
		if stream == "" || e.Stream == stream {
			found = append(found, e.ID)
		}
	}
	return found
}

func of(all []follow.Event, stream string) uint64 { return uint64(len(ids(all, stream))) }

// backend serves subscriptions as the gateway does, and as it must not.
type backend struct {
	t      testing.TB
	all    []follow.Event
	server *httptest.Server
	serves sync.WaitGroup

	// Each is called under mu.
	cut       func() int // after how many bytes a connection ends; nil: never
	slip      func() int // 0: an event is left out, 1: one comes again; nil: never
	forge     func(*follow.Event)
	reconnect time.Duration // what the first connection is told; 0: nothing

	mu       sync.Mutex
	conns    map[*websocket.Conn]bool
	connects int
	after    uint64
	more     chan struct{}
}

func serve(t testing.TB, all []follow.Event) *backend {
	b := &backend{t: t, all: all, conns: map[*websocket.Conn]bool{}, more: make(chan struct{})}
	b.server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(func() {
		b.mu.Lock()
		for c := range b.conns {
			c.Close()
		}
		b.mu.Unlock()
		b.serves.Wait()
		b.server.Close()
	})
	return b
}

func (b *backend) options(framing follow.Framing) follow.Options {
	return follow.Options{
		URL: b.server.URL, DeviceID: "test", Framing: framing, MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond,
		Token: func(context.Context) (string, error) { return "good", nil },
	}
}

// again waits for the nth connection that has subscribed.
func (b *backend) again(ctx context.Context, n int) {
	b.t.Helper()
	for {
		b.mu.Lock()
		there, more := b.connects >= n, b.more
		b.mu.Unlock()
		if there {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			b.t.Fatal("nobody came back")
		}
	}
}

func (b *backend) lastAfter() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.after
}

func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer good" {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	b.serves.Add(1)
	defer b.serves.Done()
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	b.mu.Lock()
	b.conns[c] = true
	first := len(b.conns) == 1
	b.mu.Unlock()
	limit := -1
	if b.cut != nil {
		b.mu.Lock()
		limit = b.cut()
		b.mu.Unlock()
	}
	out := &limited{Conn: c.NetConn(), left: limit}
	batch := false
	for {
		var in struct {
			Type, ID, Stream, Scope string
			Batch                   bool
			After                   *uint64
			AfterHash               string `json:"after_hash"`
			Filter                  struct{ Types []string }
		}
		if c.ReadJSON(&in) != nil {
			return
		}
		switch in.Type {
		case "device_hello":
			batch = in.Batch
			out.frame(map[string]any{"type": "hello", "features": []string{"subscribe"}})
		case "subscribe":
			b.subscribe(out, in.ID, in.Stream, in.Filter.Types, batch, in.After, in.AfterHash)
			if first && b.reconnect > 0 {
				out.frame(map[string]any{"type": "reconnect", "after_ms": b.reconnect.Milliseconds(), "reason": "restart"})
				_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseServiceRestart, ""), time.Now().Add(time.Second))
			}
		}
	}
}

func (b *backend) subscribe(out *limited, id, stream string, types []string, batch bool, after *uint64, hash string) {
	var rows []follow.Event
	for _, e := range b.all {
		if stream == "" || e.Stream == stream {
			rows = append(rows, e)
		}
	}
	head := uint64(len(rows))
	from := head
	if after != nil {
		from = *after
	}
	b.mu.Lock()
	b.connects++
	b.after = from
	close(b.more)
	b.more = make(chan struct{})
	b.mu.Unlock()
	switch {
	case head == 0:
		out.frame(map[string]any{"type": "error", "id": id, "code": "not_found", "message": "there is none"})
		return
	case from > head:
		out.frame(map[string]any{"type": "reset", "subscription": id, "reason": "beyond_head", "head": head, "head_hash": rows[head-1].Hash})
		return
	case hash != "" && from > 0 && rows[from-1].Hash != hash:
		out.frame(map[string]any{"type": "reset", "subscription": id, "reason": "other_hash", "head": head, "head_hash": rows[head-1].Hash})
		return
	}
	out.frame(map[string]any{"type": "subscribed", "id": id, "head": head})
	for from < head {
		n := min(head-from, 7)
		if !batch {
			n = 1
		}
		var some []any
		piece := slices.Clone(rows[from : from+n])
		if b.slip != nil && from+n < head { // what comes last and is left out nobody can miss yet
			b.mu.Lock()
			at := b.slip()
			b.mu.Unlock()
			switch at {
			case 0:
				piece = piece[1:]
			case 1:
				piece = append(piece, piece[0])
			}
		}
		for _, e := range piece {
			if len(types) > 0 && !slices.Contains(types, e.Type) {
				continue
			}
			if e.Stored != nil {
				e.Stored = new(*e.Stored)
			}
			if b.forge != nil {
				b.forge(&e)
			}
			if batch {
				some = append(some, e)
				continue
			}
			out.text(`{"type":"event","subscription":"` + id + `",` + strings.TrimPrefix(text(e), "{"))
		}
		from += n
		if batch {
			if some == nil {
				some = []any{}
			}
			out.frame(map[string]any{"type": "events", "subscription": id, "cursor": from, "events": some})
		}
	}
}

// limited is a connection that dies after so many bytes, wherever in a frame that is.
type limited struct {
	net.Conn
	left int // -1: never
}

func (l *limited) frame(f any) {
	l.text(text(f))
}

// text is JSON as the gateway writes it: the bytes of what is stored stay as they are.
func text(f any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(f)
	return strings.TrimSpace(b.String())
}

func (l *limited) text(text string) {
	head := []byte{0x81, 126, byte(len(text) >> 8), byte(len(text))}
	if len(text) > 1<<16-1 {
		head = []byte{0x81, 127, 0, 0, 0, 0, byte(len(text) >> 24), byte(len(text) >> 16), byte(len(text) >> 8), byte(len(text))}
	}
	b := append(head, text...)
	if l.left >= 0 {
		if n := min(l.left, len(b)); n < len(b) {
			_, _ = l.Write(b[:n])
			l.left = 0
			_ = l.Close()
			return
		}
		l.left -= len(b)
	}
	_, _ = l.Write(b)
}
