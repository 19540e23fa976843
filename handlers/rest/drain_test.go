package rest_test

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnhq/cairn/handlers/rest"
)

// Whoever does not take what is written is let go, and hears the rest when it comes again.
func TestASlowListenerIsLetGo(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	r := newRing(t, func(c *rest.Config) { c.Limits.StreamingWrite, c.Metrics = time.Second, registry })
	ann := r.user("ann")
	thread := r.thread(ann, "Plans").text("id")
	for range 12 { // more than the buffers of a connection hold
		ann.post("/api/v1/chat", map[string]any{"message": "hello " + strings.Repeat("x", 1000_000), "session_id": thread, "on_busy": "queue"}).want(http.StatusOK)
	}
	path := "/api/v1/streams/thread-" + thread + "/events?after=0&stored=true"
	frozen, err := net.Dial("tcp", strings.TrimPrefix(r.server.URL, "http://"))
	check(t, err)
	defer frozen.Close()
	check(t, frozen.(*net.TCPConn).SetReadBuffer(4096))
	_, err = frozen.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: cairn\r\nAccept: text/event-stream\r\nAuthorization: Bearer " + ann.token + "\r\n\r\n"))
	check(t, err)
	r.eventually("the slow one's end", func() bool {
		return counted(t, registry, "cairn_http_streams_closed_total", "slow") == 1
	})
	if n := counted(t, registry, "cairn_http_streams_running", ""); n != 0 {
		t.Errorf("%v streams are open", n)
	}

	e := ann.listen("/api/v1/streams/thread-"+thread+"/events", header{"Last-Event-ID", "3"})
	head := e.want("subscribed").number("head")
	for seq := uint64(4); seq <= head; seq++ {
		if h := e.want(""); h.id != strconv.FormatUint(seq, 10) {
			t.Fatalf("%s came where %d was due", h.id, seq)
		}
	}
}

// counted is a metric's value, of the series with that label.
func counted(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	check(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// A server that stops says so to whoever listens, with a time to come again that is not the same for all; who comes again
// with its last id has missed nothing.
func TestListenersAreDrained(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	r := newRing(t, func(c *rest.Config) { c.Stopping = stopping })
	ann := r.user("ann")
	made := r.thread(ann, "Plans")
	of := "/api/v1/streams/thread-" + made.text("id") + "/events"
	run := ann.post("/api/v1/chat", map[string]any{"message": "hello", "session_id": made.text("id")}).want(http.StatusOK).text("run_id")
	var all []*ears
	for _, path := range []string{of + "?after=0", "/api/v1/events?after=0", of + "?after=0", of + "?after=0", of + "?after=0"} {
		e := ann.listen(path)
		e.want("subscribed")
		all = append(all, e)
	}
	r.eventually("the run in the read model", func() bool { return ann.get("/api/v1/runs/"+run).status == http.StatusOK })
	close(stopping)
	times := map[any]bool{}
	for _, e := range all {
		cursor := uint64(0)
		for {
			h, err := e.next()
			check(t, err)
			if h.name == "reconnect" {
				if ms := h.number("after_ms"); ms == 0 || ms > 5000 || e.retry != strconv.FormatUint(ms, 10) || h.data["reason"] != "restart" {
					t.Errorf("%s with retry %s", h.raw, e.retry)
				}
				times[h.data["after_ms"]] = true
				break
			}
			if !h.comment && h.name == "" {
				cursor++
				if h.id != strconv.FormatUint(cursor, 10) {
					t.Fatalf("%s came where %d was due", h.id, cursor)
				}
			}
		}
		e.over()
	}
	if len(times) == 1 {
		t.Errorf("all shall come again at the same time: %v", times)
	}
}

// Whoever is far behind when the server stops is sent away with what it has, not kept until it is level: it comes again with
// its last id.
func TestWhoIsFarBehindIsDrainedToo(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	r := newRing(t, func(c *rest.Config) { c.Stopping = stopping })
	ann := r.user("ann")
	thread := r.thread(ann, "Plans").text("id")
	for range 6 { // each is more than is told at once
		ann.post("/api/v1/chat", map[string]any{"message": "hello " + strings.Repeat("x", 100_000), "session_id": thread, "on_busy": "queue"}).want(http.StatusOK)
	}
	path := "/api/v1/streams/thread-" + thread + "/events?after=0"
	level := ann.listen(path)
	head := level.want("subscribed").number("head")
	for range head {
		level.want("")
	}
	close(stopping)
	late := ann.listen(path)
	late.want("subscribed")
	told := uint64(0)
	for h, err := late.next(); h.name != "reconnect"; h, err = late.next() {
		if check(t, err); !h.comment {
			told++
		}
	}
	if told >= head {
		t.Errorf("it was told all %d events before", told)
	}
}
