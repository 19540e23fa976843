package rest

import (
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// openStreams counts who listens: of each user, and in all.
type openStreams struct {
	most int

	mu sync.Mutex
	by map[string]int // user

	running prometheus.Gauge
	closed  *prometheus.CounterVec
}

func newOpenStreams(most int, registerer prometheus.Registerer) *openStreams {
	factory := promauto.With(registerer)
	return &openStreams{most: most, by: map[string]int{},
		running: factory.NewGauge(prometheus.GaugeOpts{Name: "cairn_http_streams_running", Help: "Server-Sent Events streams that are open."}),
		closed: factory.NewCounterVec(prometheus.CounterOpts{Name: "cairn_http_streams_closed_total",
			Help: "Server-Sent Events streams that ended: the listener is gone or slow, was reset, lost access, was drained, or has the whole."}, []string{"reason"}),
	}
}

func (o *openStreams) begun() { o.running.Inc() }

func (o *openStreams) ended(why string) {
	o.running.Dec()
	o.closed.WithLabelValues(why).Inc()
}

// enter counts one more of a user, if that is not too many.
func (o *openStreams) enter(user string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by[user] >= o.most {
		return false
	}
	o.by[user]++
	return true
}

func (o *openStreams) leave(user string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by[user]--; o.by[user] == 0 {
		delete(o.by, user)
	}
}

// limitStreams refuses whoever listens at too many places already. Other requests pass.
func (s *server) limitStreams(o operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !o.followed(c.Request()) {
				return next(c)
			}
			user := principal(c).UserID
			if !s.streams.enter(user) {
				return &problem{Code: "rate_limited", Detail: "you follow too many streams at once: close one", retryAfter: 5 * time.Second}
			}
			defer s.streams.leave(user)
			return next(c)
		}
	}
}

// ticketed lets in who has a ticket in its address, and whoever has an access token in the header as everywhere.
func (s *server) ticketed(next echo.HandlerFunc) echo.HandlerFunc {
	token := s.authenticate(next)
	return func(c echo.Context) error {
		ticket := c.QueryParam(ticketParameter)
		if ticket == "" || c.Request().Header.Get(echo.HeaderAuthorization) != "" {
			return token(c)
		}
		p, err := s.Accounts.Redeem(c.Request().Context(), ticket)
		if err != nil {
			return err
		}
		c.Set(keyPrincipal, p)
		return next(c)
	}
}

// ticketParameter is the name of the parameter, as the document's security scheme says it.
const ticketParameter = "ticket"

// followed reports whether a request is for a stream that goes on.
func (o operation) followed(r *http.Request) bool {
	return o.streams && (!o.pages || accepts(r, eventStream))
}
