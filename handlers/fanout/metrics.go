package fanout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cairnhq/cairn/domain/account"
)

// source is where an event was had from.
type source int

const (
	fromRing source = iota
	fromEvents
	fromLog
)

// The sources, as labels.
const (
	sourceRing   = "ring"
	sourceEvents = "events"
	sourceLog    = "log"
)

// metrics are what a hub measures.
type metrics struct {
	delivered   [3]prometheus.Counter
	provisional prometheus.Counter
	lag         prometheus.Histogram
	now         func() time.Time
	erased      string // wire name of the event that ends an account
}

func newMetrics(registerer prometheus.Registerer, h *Hub) *metrics {
	factory := promauto.With(registerer)
	gauge := func(name, help string, read func() float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	gauge("cairn_fanout_partitions", "Partitions of the log that are followed here.", func() float64 {
		return h.sum(func(p *partition) int {
			if p.cancel != nil {
				return 1
			}
			return 0
		})
	})
	gauge("cairn_fanout_ring_bytes", "What the rings of recent events take, about.", func() float64 {
		return h.sum(func(p *partition) int { return p.bytes })
	})
	gauge("cairn_fanout_subscriptions", "Who follows a stream or a scope here: at sockets, over HTTP, and whoever is told a run's story.", func() float64 {
		return h.sum(func(p *partition) (n int) {
			for _, t := range p.topics {
				t.mu.RLock()
				n += len(t.subs)
				t.mu.RUnlock()
			}
			return n
		})
	})
	delivered := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "cairn_fanout_deliveries_total",
		Help: "Events that somebody who follows them was given, by where they were had from: the ring of recent ones, the read model, or the log between the two.",
	}, []string{"source"})
	return &metrics{
		delivered: [3]prometheus.Counter{
			fromRing: delivered.WithLabelValues(sourceRing), fromEvents: delivered.WithLabelValues(sourceEvents), fromLog: delivered.WithLabelValues(sourceLog),
		},
		provisional: factory.NewCounter(prometheus.CounterOpts{Name: "cairn_fanout_provisional_total", Help: "Provisional frames that somebody was given, joined ones once."}),
		lag: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "cairn_fanout_delivery_seconds", Help: "From the decision of a commit to its delivery out of the ring, by the clocks of both machines.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		now: h.Now, erased: erasedName(),
	}
}

func (h *Hub) sum(of func(*partition) int) (sum float64) {
	for _, p := range h.partitions {
		p.mu.Lock()
		sum += float64(of(p))
		p.mu.Unlock()
	}
	return sum
}

// took notes what a Pull gave, and how old the newest event of the ring among it is.
func (m *metrics) took(counts [3]int, newest *Event) {
	for where, n := range counts {
		if n > 0 {
			m.delivered[where].Add(float64(n))
		}
	}
	if newest != nil {
		m.lag.Observe(max(0, newest.age(m.now()).Seconds()))
	}
}

// erasedName is the wire name of the event that ends an account.
func erasedName() string {
	for _, kind := range account.Events {
		if _, ok := kind.Fresh().Interface().(*account.Erased); ok {
			return kind.Name()
		}
	}
	return ""
}
