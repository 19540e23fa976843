package effects

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what a worker measures.
type metrics struct {
	tries            *prometheus.CounterVec
	seconds          *prometheus.HistogramVec
	fired, abandoned prometheus.Counter
}

// What came of one call of a handler.
const (
	tryDone     = "done"
	tryFailed   = "failed" // it is tried again
	tryPanicked = "panicked"
)

func newMetrics(registerer prometheus.Registerer, r *Runner) *metrics {
	factory := promauto.With(registerer)
	gauge := func(name, help string, read func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	gauge("cairn_effects_running", "Handlers of effects that run here now.", func() int { return len(r.slots) })
	gauge("cairn_effects_slots", "How many may run at once.", func() int { return r.Parallel })
	gauge("cairn_effects_held", "Effects that are claimed here, those included that wait to be tried again.", r.holds)
	m := &metrics{
		tries: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_effects_total", Help: "Calls of the handlers of effects, by what came of them. What failed is tried again.",
		}, []string{"kind", "outcome"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cairn_effect_seconds", Help: "How long one call of a handler takes.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"kind"}),
		fired:     factory.NewCounter(prometheus.CounterOpts{Name: "cairn_timers_fired_total", Help: "Timers that this process told their threads of."}),
		abandoned: factory.NewCounter(prometheus.CounterOpts{Name: "cairn_effects_abandoned_total", Help: "Effects that a worker had begun before it died, and whose outcome is unknown."}),
	}
	for _, kind := range r.kinds {
		m.seconds.WithLabelValues(kind)
		for _, outcome := range []string{tryDone, tryFailed, tryPanicked} {
			m.tries.WithLabelValues(kind, outcome)
		}
	}
	return m
}

// errPanicked marks what a handler that panicked came to.
var errPanicked = errors.New("the handler panicked")

// tried notes a call of a handler.
func (m *metrics) tried(kind string, took time.Duration, err error) {
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
	switch {
	case err == nil:
		m.tries.WithLabelValues(kind, tryDone).Inc()
	case errors.Is(err, errPanicked):
		m.tries.WithLabelValues(kind, tryPanicked).Inc()
	default:
		m.tries.WithLabelValues(kind, tryFailed).Inc()
	}
}

// holds is how many effects are claimed here.
func (r *Runner) holds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}
