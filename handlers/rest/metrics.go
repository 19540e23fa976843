package rest

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// httpMetrics are what is measured of requests, by route: never by address, id or caller.
type httpMetrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	running  prometheus.Gauge
}

func newHTTPMetrics(registerer prometheus.Registerer) *httpMetrics {
	factory := promauto.With(registerer)
	return &httpMetrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_http_requests_total", Help: "Requests that were answered.",
		}, []string{"method", "route", "status"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cairn_http_request_seconds", Help: "How long answering took. Streams are not in it: they last as long as their runs.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method", "route"}),
		running: factory.NewGauge(prometheus.GaugeOpts{Name: "cairn_http_requests_running", Help: "Requests that are being answered, streams included."}),
	}
}

// measured is the outermost of all that handles a request: it sees the status that leaves.
func (m *httpMetrics) measured(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		m.running.Inc()
		defer m.running.Dec()
		began := time.Now()
		err := next(c)
		method, route := methodOf(c), routeOf(c)
		status := "(gone)" // the caller left before there was an answer
		if c.Response().Committed {
			status = strconv.Itoa(c.Response().Status)
		}
		m.requests.WithLabelValues(method, route, status).Inc()
		if !strings.HasPrefix(c.Response().Header().Get(echo.HeaderContentType), "text/event-stream") {
			m.seconds.WithLabelValues(method, route).Observe(time.Since(began).Seconds())
		}
		return err
	}
}

// methodOf is a request's method, if it is one of HTTP's: the caller's own words are no label and no name.
func methodOf(c echo.Context) string {
	switch method := c.Request().Method; method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "(other)"
}

// routeOf is the pattern of the request's path, which has no ids in it.
func routeOf(c echo.Context) string { return cmp.Or(c.Path(), "(none)") }
