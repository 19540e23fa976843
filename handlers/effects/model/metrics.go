package model

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what is measured of model calls.
type metrics struct {
	seconds, first *prometheus.HistogramVec
	tokens         *prometheus.CounterVec
}

// The outcomes of a call besides the classes of failures.
const (
	callWhole = "ok"
	callEnded = "ended" // broken off, because its run had ended
)

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	buckets := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160}
	return &metrics{
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cairn_model_call_seconds", Help: "How long a call of a language model takes, by purpose, model and outcome: ok, ended (its run had ended), or the class of the failure.", Buckets: buckets,
		}, []string{"purpose", "model", "outcome"}),
		first: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cairn_model_first_token_seconds", Help: "From the call of a language model to the first piece of its answer.", Buckets: buckets,
		}, []string{"purpose", "model"}),
		tokens: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_model_tokens_total", Help: "Tokens that the provider counted.",
		}, []string{"purpose", "model", "direction"}),
	}
}

// measured is one call under way.
type measured struct {
	metrics        *metrics
	purpose, model string
	began          time.Time
	came           bool
}

func (m *metrics) begin(purpose, model string) *measured {
	return &measured{metrics: m, purpose: purpose, model: model, began: time.Now()}
}

// each notes the first piece of the answer on its way.
func (c *measured) each(next func(delta)) func(delta) {
	return func(d delta) {
		if !c.came && (d.Text != "" || d.Reasoning != "" || d.Tool != "") {
			c.came = true
			c.metrics.first.WithLabelValues(c.purpose, c.model).Observe(time.Since(c.began).Seconds())
		}
		next(d)
	}
}

func (c *measured) end(said answer, failure *Failure) {
	outcome := callWhole
	switch {
	case failure == nil:
	case errors.Is(failure.Err, errEnded):
		outcome = callEnded
	default:
		outcome = string(failure.Class)
	}
	c.metrics.seconds.WithLabelValues(c.purpose, c.model, outcome).Observe(time.Since(c.began).Seconds())
	if failure == nil {
		c.metrics.tokens.WithLabelValues(c.purpose, c.model, "input").Add(float64(said.Input))
		c.metrics.tokens.WithLabelValues(c.purpose, c.model, "output").Add(float64(said.Output))
	}
}
