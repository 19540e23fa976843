package model

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// heard is what the transport saw of an attempt and the client library does not hand on.
type heard struct {
	status     int
	retryAfter time.Duration
}

type heardKey struct{}

// listening makes a context whose requests write what they hear into the returned value. It is read only
// after the attempt has ended.
func listening(ctx context.Context) (context.Context, *heard) {
	h := &heard{}
	return context.WithValue(ctx, heardKey{}, h), h
}

// transport reads Retry-After, and makes streams readable that the client library would refuse.
type transport struct{ next http.RoundTripper }

// RoundTrip is http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if h, ok := r.Context().Value(heardKey{}).(*heard); ok {
		h.status = response.StatusCode
		if response.StatusCode >= 400 {
			h.retryAfter = retryAfter(response.Header, time.Now())
		}
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		response.Body = &sse{from: bufio.NewReader(response.Body), body: response.Body}
	}
	return response, nil
}

// retryAfter is what the far side asks to wait: Retry-After in seconds or as a date (RFC 9110, 10.2.3), or OpenAI's retry-after-ms.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = time.Hour
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return min(time.Duration(ms*float64(time.Millisecond)), most)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, most.Seconds())*float64(time.Second)), most)
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), most)
	}
	return 0
}

// sse hands an event stream on line by line. Some servers put several calls with the same index into one
// delta; the client library fails on them (eino #962) when it joins them to the empty first chunk, so
// their indexes are taken away here: our own joiner goes by their ids.
type sse struct {
	from *bufio.Reader
	body io.Closer
	line []byte
	err  error
}

// Read is io.Reader.
func (s *sse) Read(p []byte) (int, error) {
	for len(s.line) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.line, s.err = s.from.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(s.line, []byte("data:")); ok && bytes.Count(data, []byte(`"index"`)) > 2 {
			if fixed, ok := parted(data); ok {
				s.line = append(append([]byte("data: "), fixed...), '\n')
			}
		}
	}
	n := copy(p, s.line)
	s.line = s.line[n:]
	return n, nil
}

// Close is io.Closer.
func (s *sse) Close() error { return s.body.Close() }

// parted takes the indexes away from tool calls of one delta that share one.
func parted(data []byte) ([]byte, bool) {
	var chunk map[string]json.RawMessage
	var choices []map[string]json.RawMessage
	if json.Unmarshal(data, &chunk) != nil || json.Unmarshal(chunk["choices"], &choices) != nil {
		return nil, false
	}
	changed := false
	for _, choice := range choices {
		var delta map[string]json.RawMessage
		var calls []map[string]json.RawMessage
		if json.Unmarshal(choice["delta"], &delta) != nil || json.Unmarshal(delta["tool_calls"], &calls) != nil {
			continue
		}
		if !share(calls) {
			continue
		}
		for _, call := range calls {
			delete(call, "index")
		}
		delta["tool_calls"], _ = json.Marshal(calls)
		choice["delta"], _ = json.Marshal(delta)
		changed = true
	}
	if !changed {
		return nil, false
	}
	chunk["choices"], _ = json.Marshal(choices)
	fixed, err := json.Marshal(chunk)
	return fixed, err == nil
}

func share(calls []map[string]json.RawMessage) bool {
	seen := map[string]string{}
	for _, call := range calls {
		index, id := string(call["index"]), string(call["id"])
		if other, ok := seen[index]; ok && other != id && id != "" {
			return true
		}
		seen[index] = id
	}
	return false
}
