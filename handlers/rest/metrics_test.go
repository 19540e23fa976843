package rest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnhq/cairn/handlers/rest"
)

// TestRequestsAreMeasuredByRouteAndNeverByWhatCallersSay asks for ids, paths and methods of a caller's own: none becomes a label.
func TestRequestsAreMeasuredByRouteAndNeverByWhatCallersSay(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRing(t, func(c *rest.Config) { c.Metrics = registry })
	for _, asked := range [][2]string{
		{"GET", "/healthz"}, {"GET", "/api/v1/threads/invented-1"}, {"GET", "/api/v1/threads/invented-2"}, {"GET", "/api/v1/invented-3"},
		{"INVENTED", "/api/v1/threads"}, {"INVENTED", "/invented-4"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), asked[0], r.server.URL+asked[1], nil)
		check(t, err)
		answer, err := http.DefaultClient.Do(request)
		check(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		check(t, err)
		answer.Body.Close()
	}
	families, err := registry.Gather()
	check(t, err)
	seen := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
				if strings.Contains(strings.ToLower(l.GetValue()), "invented") {
					t.Errorf("%s has the label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
			if f.GetName() == "cairn_http_requests_total" {
				seen[strings.Join(labels, " ")] += m.GetCounter().GetValue()
			}
		}
	}
	for labels, n := range map[string]float64{"GET /healthz 200": 1, "GET /api/v1/threads/:thread 401": 2} {
		if seen[labels] != n {
			t.Errorf("%q was measured %v times, want %v: %v", labels, seen[labels], n, seen)
		}
	}
	all := 0.0
	for _, n := range seen {
		all += n
	}
	if all != 6 {
		t.Errorf("of 6 requests %v were measured: %v", all, seen)
	}
}

// waiting makes no vector until its caller is gone.
type waiting struct{ begun chan struct{} }

func (w waiting) Embed(ctx context.Context, _ string) ([]float32, error) {
	close(w.begun)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestARequestThatNobodyWaitsForIsNoAnswer(t *testing.T) {
	registry, w := prometheus.NewRegistry(), waiting{make(chan struct{})}
	r := newRing(t, func(c *rest.Config) { c.Metrics, c.Embedder = registry, w })
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL+"/api/v1/storage/vectors/embed", strings.NewReader(`{"text":"x"}`))
	check(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+r.user("ann").token)
	go func() {
		<-w.begun
		leave()
	}()
	if answer, err := http.DefaultTransport.RoundTrip(request); err == nil {
		answer.Body.Close()
		t.Fatalf("it was answered %d", answer.StatusCode)
	}
	r.eventually("a request that is counted as it ended", func() bool {
		families, err := registry.Gather()
		check(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "status" && l.GetValue() == "(gone)" {
						return f.GetName() == "cairn_http_requests_total" && m.GetCounter().GetValue() == 1
					}
				}
			}
		}
		return false
	})
}
