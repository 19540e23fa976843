package rest_test

import (
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
