package projections

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Measure is an EngineConfig.Observe that measures what is applied.
func Measure(registerer prometheus.Registerer) func(Applied) {
	factory := promauto.With(registerer)
	transactions := factory.NewHistogram(prometheus.HistogramOpts{
		Name: "cairn_projector_transaction_seconds", Help: "How long applying a batch takes, with its commit.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	})
	batch := factory.NewHistogram(prometheus.HistogramOpts{
		Name: "cairn_projector_batch_events", Help: "Events in one transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 13),
	})
	visible := factory.NewHistogram(prometheus.HistogramOpts{
		Name: "cairn_projector_visible_seconds", Help: "From the decision of a batch's newest commit to its rows being there to read, by the clocks of both machines.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})
	events := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "cairn_projector_events_total", Help: "Events of the batches that were applied, for each generation that was fed with them.",
	}, []string{"projection", "generation"})
	folding := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "cairn_projector_fold_seconds_total", Help: "How long folding them took, without the transaction's end.",
	}, []string{"projection", "generation"})
	return func(a Applied) {
		transactions.Observe(a.Took.Seconds())
		batch.Observe(float64(a.Events))
		if !a.DecidedAt.IsZero() {
			visible.Observe(max(0, time.Since(a.DecidedAt).Seconds()))
		}
		for _, m := range a.Models {
			generation := strconv.Itoa(m.Generation)
			events.WithLabelValues(m.Projection, generation).Add(float64(a.Events))
			folding.WithLabelValues(m.Projection, generation).Add(m.Took.Seconds())
		}
	}
}
