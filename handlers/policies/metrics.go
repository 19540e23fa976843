package policies

import (
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what is measured of policies.
type metrics struct {
	tries  *prometheus.CounterVec
	parked prometheus.Counter
}

// What came of one try at an event.
const (
	tryDone   = "done"
	tryWaits  = "waits" // something that it needs is away
	tryFailed = "failed"
)

func newMetrics(registerer prometheus.Registerer, policies []Policy) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		tries: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_policy_events_total", Help: "Tries of policies at events, by what came of them.",
		}, []string{"policy", "outcome"}),
		parked: factory.NewCounter(prometheus.CounterOpts{
			Name: "cairn_policy_parked_total", Help: "Events that a policy failed on for good, and that were parked.",
		}),
	}
	for _, p := range policies {
		for _, outcome := range []string{tryDone, tryWaits, tryFailed} {
			m.tries.WithLabelValues(p.Name, outcome)
		}
	}
	return m
}

// counted notes what came of each try.
func (m *metrics) counted(h message.HandlerFunc) message.HandlerFunc {
	return func(e *message.Message) ([]*message.Message, error) {
		policy := message.HandlerNameFromCtx(e.Context())
		out, err := h(e)
		outcome := tryDone
		switch {
		case err != nil && passing(err):
			outcome = tryWaits
		case err != nil:
			outcome = tryFailed
		}
		m.tries.WithLabelValues(policy, outcome).Inc()
		return out, err
	}
}
