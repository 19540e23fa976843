package load_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/clients/device"
	"github.com/cairnhq/cairn/cmd/chaos/load"
	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

const (
	scope = domain.Scope("user-ann")
	step  = "r.1.0.1"
)

// A device that makes a row twice because it forgot that it had made it is found; one that remembers is not, nor one that
// reads twice.
func TestARowThatIsMadeTwiceIsFound(t *testing.T) {
	insert := `{"type":"tool_call","id":"` + step + `","run_id":"r","action":"insert","table":"tasks","data":{"title":"once"}}`
	for name, c := range map[string]struct {
		forgetful bool
		call      string
		found     bool
	}{
		"made twice":           {true, insert, true},
		"asked twice":          {false, insert, false},
		"read twice":           {true, strings.Replace(insert, "insert", "select", 1), false},
		"read, and remembered": {false, strings.Replace(insert, "insert", "select", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			rec := history.New()
			twice(t, c.call, device.Options{Forgetful: c.forgetful, OnDone: load.Done(rec, scope)})
			l := history.NewLog(1, asked(t)...)
			v := history.Check(history.Evidence{
				History: rec, Logs: []*history.Log{l, l}, Invoked: func(*streams.Commit) bool { return false },
				Effects: func(streams.Recorded) (history.Asks, error) {
					return history.Asks{Opens: []domain.Effect{{ID: step}}}, nil
				},
			})
			broken := v.Broken(history.OneOutcome)
			if (len(broken) > 0) != c.found || len(v.Faults) != len(broken) {
				t.Fatal(v.Err())
			}
			if c.found && !strings.Contains(broken[0].Detail, "must not be repeated, and was done 2 times") {
				t.Error(broken)
			}
		})
	}
}

// asked is a log in which the step is asked for.
func asked(t *testing.T) []*kgo.Record {
	t.Helper()
	lead := codec.Lead{Kind: codec.KindLead, Era: 1, Lead: 1, Writer: "w", At: "2026-11-30T00:00:00.000000Z"}
	value, err := codec.EncodeLead(lead)
	if err != nil {
		t.Fatal(err)
	}
	c := streams.Commit{
		Era: 1, Lead: 1, Writer: "w", After: streams.CommandPlace{Offset: -1}, Scope: scope, CommandID: streams.CommandID(scope, "a"),
		DecidedAt: lead.At, Actor: json.RawMessage(`{"kind":"user"}`),
	}
	e := streams.Recorded{
		ID: streams.EventID(c.CommandID, 0), Scope: scope, Stream: "thread-x", Version: 1, Position: 1,
		Type: "asked", Schema: 1, At: c.DecidedAt, Actor: c.Actor, Data: json.RawMessage(`{}`),
	}
	e.Hash = codec.Chain(codec.Genesis(e.Stream), e)
	c.Events = []streams.Recorded{e}
	commit, err := codec.EncodeCommit(c)
	if err != nil {
		t.Fatal(err)
	}
	return []*kgo.Record{
		{Headers: kafka.LeadHeaders(streams.Mark{Sort: streams.SortLead, Era: 1, Lead: 1, Writer: "w"}), Value: value},
		{Key: []byte(scope), Headers: kafka.CommitHeaders(c, 1), Value: commit, Offset: 1},
	}
}

// twice sends a device a call two times, and waits for both answers.
func twice(t *testing.T, call string, o device.Options) {
	t.Helper()
	conns := make(chan *websocket.Conn, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil); err == nil {
			conns <- conn
		}
	}))
	defer server.Close()
	store, err := device.OpenStore(t.Context(), ":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o.URL, o.DeviceID, o.Store = server.URL, "d1", store
	o.Token = func(context.Context) (string, error) { return "good", nil }
	d, err := device.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the device ended with %v", err)
		}
	}()
	var conn *websocket.Conn
	select {
	case conn = <-conns:
	case <-ctx.Done():
		t.Fatal("the device does not come")
	}
	defer conn.Close()
	expect := func(kind string) {
		var frame struct{ Type string }
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := conn.ReadJSON(&frame); err != nil || frame.Type != kind {
			t.Fatalf("got %+v (%v), not a %s", frame, err, kind)
		}
	}
	write := func(text string) {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	expect("device_hello")
	write(`{"type":"hello"}`)
	for range 2 {
		write(call)
		expect("tool_result")
	}
}
