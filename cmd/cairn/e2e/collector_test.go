package e2e_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectors "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is what a collector got.
type span struct {
	*traces.Span
	roles string // of the process that it is from
}

func (s span) id() string     { return hex.EncodeToString(s.SpanId) }
func (s span) parent() string { return hex.EncodeToString(s.ParentSpanId) }
func (s span) trace() string  { return hex.EncodeToString(s.TraceId) }

// attribute is the text of an attribute.
func (s span) attribute(name string) string {
	for _, a := range s.Attributes {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// collector takes spans as OpenTelemetry's does: OTLP over HTTP, in protobuf.
type collector struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	spans []span
	raw   bytes.Buffer // all that came
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collectors.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s %s (%s): %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.raw.Write(body)
	for _, resource := range request.ResourceSpans {
		var roles []string
		for _, a := range resource.Resource.Attributes {
			for _, v := range a.Value.GetArrayValue().GetValues() {
				if a.Key == "cairn.roles" {
					roles = append(roles, v.GetStringValue())
				}
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{Span: s, roles: strings.Join(roles, ",")})
			}
		}
	}
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, err := proto.Marshal(&collectors.ExportTraceServiceResponse{})
	if err != nil {
		c.t.Error(err)
	}
	_, _ = w.Write(answer) // whoever is gone needs no answer
}

// of are the spans of a trace, the earliest first.
func (c *collector) of(trace string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []span
	for _, s := range c.spans {
		if s.trace() == trace {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b span) int { return int(int64(a.StartTimeUnixNano - b.StartTimeUnixNano)) })
	return found
}

// linked are the ids of the spans of a trace to which spans of a name link, wherever those are.
func (c *collector) linked(name, trace string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]bool{}
	for _, s := range c.spans {
		for _, l := range s.Links {
			if s.Name == name && hex.EncodeToString(l.TraceId) == trace {
				found[hex.EncodeToString(l.SpanId)] = true
			}
		}
	}
	return found
}

// got reports whether something stood in what came.
func (c *collector) got(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.raw.Bytes(), []byte(text))
}
