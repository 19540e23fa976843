package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long something may take that a slow machine does slowly.
const patience = 60 * time.Second

// heard is an event of a stream.
type heard struct {
	name, id, raw string
	data          map[string]any
	comment       bool
}

func (h heard) number(name string) uint64 {
	n, _ := h.data[name].(float64)
	return uint64(n)
}

// ears listen to a stream.
type ears struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Reader
	cancel   context.CancelFunc
	last     string // the newest id, as an EventSource keeps it
	retry    string
}

// listen opens a stream that is answered with 200.
func (u *user) listen(path string, headers ...header) *ears {
	u.r.t.Helper()
	e := u.ask(path, headers...)
	if e.response.StatusCode != http.StatusOK || e.response.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(e.response.Body)
		u.r.t.Fatalf("GET %s: %d %s: %s", path, e.response.StatusCode, e.response.Header, raw)
	}
	return e
}

// ask asks for a stream, whatever the answer is.
func (u *user) ask(path string, headers ...header) *ears {
	u.r.t.Helper()
	ctx, cancel := context.WithTimeout(u.r.t.Context(), patience)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.r.server.URL+path, nil)
	check(u.r.t, err)
	request.Header.Set("Accept", "text/event-stream")
	if u.token != "" {
		request.Header.Set("Authorization", "Bearer "+u.token)
	}
	for _, h := range headers {
		request.Header.Set(h.name, h.value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	check(u.r.t, err)
	e := &ears{t: u.r.t, response: response, lines: bufio.NewReader(response.Body), cancel: cancel}
	u.r.t.Cleanup(e.leave)
	return e
}

func (e *ears) leave() {
	e.cancel()
	_ = e.response.Body.Close()
}

// next is the next event or comment; an error: the stream has ended.
func (e *ears) next() (heard, error) {
	var h heard
	var data []string
	begun := false
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return h, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && !begun:
			continue
		case line == "" && len(data) == 0 && !h.comment:
			begun = false // an event without data is none
			continue
		case line == "":
			h.raw = strings.Join(data, "\n")
			if len(data) > 0 {
				d := json.NewDecoder(strings.NewReader(h.raw))
				if err := d.Decode(&h.data); err != nil {
					e.t.Fatalf("%q: %v", h.raw, err)
				}
			}
			return h, nil
		case name == "":
			h.comment = true
		case name == "event":
			h.name = value
		case name == "data":
			data = append(data, value)
		case name == "id":
			h.id, e.last = value, value
		case name == "retry":
			e.retry = value
		default:
			e.t.Fatalf("a line %q in a stream", line)
		}
		begun = true
	}
}

// want is the next event of that name that is no comment.
func (e *ears) want(name string) heard {
	e.t.Helper()
	for {
		h, err := e.next()
		if err != nil {
			e.t.Fatalf("no %q came: %v", name, err)
		}
		if h.comment || h.name == "live" && name != "live" {
			continue
		}
		if h.name != name {
			e.t.Fatalf("%q came where %q was due: %s", h.name, name, h.raw)
		}
		return h
	}
}

// over wants the stream to end.
func (e *ears) over() {
	e.t.Helper()
	if h, err := e.next(); err == nil {
		e.t.Fatalf("the stream goes on with %q %s", h.name, h.raw)
	}
}

// history is what GET /events has of the scope, by its ids; it is complete up to a position.
func (u *user) history(until uint64) []map[string]any {
	u.r.t.Helper()
	var all []map[string]any
	for uint64(len(all)) < until {
		got := u.get("/api/v1/events?limit=200&after=" + strconv.Itoa(len(all))).want(http.StatusOK)
		all = append(all, got.list("data")...)
		if len(got.list("data")) == 0 {
			u.r.eventually("the rest of the events", func() bool {
				return uint64(u.get("/api/v1/events?limit=1").want(http.StatusOK).at("head").(float64)) > uint64(len(all))
			})
		}
	}
	return all
}

// same wants an event that was told to be the one in the history.
func (u *user) same(was map[string]any, h heard) {
	u.r.t.Helper()
	for _, name := range []string{"id", "stream", "seq", "position", "event_type", "schema", "at", "hash", "seal_digest"} {
		if was[name] != h.data[name] {
			u.r.t.Errorf("%s of event %v is %v, and was told as %v", name, was["position"], was[name], h.data[name])
		}
	}
	told, _ := h.data["data"].(map[string]any)
	plain := map[string]any{}
	for name, v := range told {
		if name != "content" {
			plain[name] = v
		}
	}
	if !equalJSON(u.r.t, plain, was["data"]) || !equalJSON(u.r.t, told["content"], was["content"]) {
		u.r.t.Errorf("event %v is %v with %v, and was told as %v", was["position"], was["data"], was["content"], told)
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	check(t, err)
	y, err := json.Marshal(b)
	check(t, err)
	return bytes.Equal(x, y)
}
