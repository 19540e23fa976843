package kafka

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// PartitionLabel is a partition as the value of a label.
func PartitionLabel(partition int32) string { return strconv.Itoa(int(partition)) }

// askMetrics are what an asker measures.
type askMetrics struct {
	commands *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// The outcomes of asking.
const (
	outcomeAccepted = "accepted"
	outcomeRejected = "rejected"
	outcomeRepeated = "repeated" // it was decided before, and is answered as it was
	outcomeBusy     = "busy"     // refused before it was sent
	outcomeUnknown  = "unknown"  // sent, and not answered in time
	outcomeLeft     = "left"     // whoever asked waited no more
	outcomeFailed   = "failed"
)

func newAskMetrics(registerer prometheus.Registerer) *askMetrics {
	factory := promauto.With(registerer)
	m := &askMetrics{
		commands: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_commands_total", Help: "Commands that this process asked for, by their kind and what they were answered.",
		}, []string{"command", "outcome"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cairn_ask_seconds", Help: "From a command to its answer, which is in the log by then.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{outcomeAccepted, outcomeRejected, outcomeRepeated, outcomeBusy, outcomeUnknown, outcomeLeft, outcomeFailed} {
		m.seconds.WithLabelValues(outcome)
	}
	return m
}

func (m *askMetrics) asked(command string, answer streams.Answer, err error, took time.Duration) {
	outcome := outcomeOfAsk(answer, err)
	m.commands.WithLabelValues(command, outcome).Inc()
	m.seconds.WithLabelValues(outcome).Observe(took.Seconds())
}

func outcomeOfAsk(answer streams.Answer, err error) string {
	var rejected *domain.Rejection
	var busy *streams.Busy
	switch {
	case err == nil && answer.Repeated:
		return outcomeRepeated
	case err == nil:
		return outcomeAccepted
	case errors.As(err, &rejected):
		return outcomeRejected
	case errors.As(err, &busy):
		return outcomeBusy
	case errors.Is(err, context.Canceled): // before the next: it may be both, and is no fault of ours
		return outcomeLeft
	case errors.Is(err, streams.ErrOutcomeUnknown):
		return outcomeUnknown
	}
	return outcomeFailed
}

// writeMetrics are what a writer measures, in all of its partitions together.
type writeMetrics struct {
	decided                                   *prometheus.CounterVec
	rejections                                *prometheus.CounterVec
	parked, leads, lost                       prometheus.Counter
	batch, bytes, deciding, readBack, storing prometheus.Histogram
}

func newWriteMetrics(registerer prometheus.Registerer) *writeMetrics {
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return factory.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	quick := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1}
	slow := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	m := &writeMetrics{
		decided: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_writer_commands_total", Help: "Commands that this process decided as leader: accepted, rejected, or known from before.",
		}, []string{"outcome"}),
		rejections: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_writer_rejections_total", Help: "Rejections by their code.",
		}, []string{"code"}),
		parked:   counter("cairn_writer_parked_total", "Commands that could never be decided: rejected, and kept in the parked topic."),
		leads:    counter("cairn_writer_leads_total", "Leads of partitions that this process began."),
		lost:     counter("cairn_writer_leads_lost_total", "Leads, or attempts at one, that ended although the process goes on."),
		batch:    histogram("cairn_writer_batch_commands", "Commits in one append.", prometheus.ExponentialBuckets(1, 2, 10)),
		bytes:    histogram("cairn_writer_batch_bytes", "What one append has in bytes.", prometheus.ExponentialBuckets(256, 4, 9)),
		deciding: histogram("cairn_writer_decide_seconds", "How long deciding a batch takes.", quick),
		readBack: histogram("cairn_writer_read_back_seconds", "From the decision of a command to its commit read back from the log.", slow),
		storing:  histogram("cairn_writer_store_seconds", "How long storing states and answers takes.", slow),
	}
	for _, outcome := range []string{outcomeAccepted, outcomeRejected, outcomeRepeated} {
		m.decided.WithLabelValues(outcome)
	}
	for _, code := range []string{domain.CodeInternal, domain.CodeTooLarge} {
		m.rejections.WithLabelValues(code)
	}
	return m
}

// counted notes a commit that was read back.
func (m *writeMetrics) counted(p *inFlight) {
	m.readBack.Observe(time.Since(p.at).Seconds())
	if no := p.answer.Rejected; no != nil {
		m.decided.WithLabelValues(outcomeRejected).Inc()
		m.rejections.WithLabelValues(no.Code).Inc()
		return
	}
	m.decided.WithLabelValues(outcomeAccepted).Inc()
}

// leadCollector tells how each partition of a writer is.
type leadCollector struct{ writer *Writer }

// Describe is none: what is there is told by Collect.
func (leadCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c leadCollector) Collect(out chan<- prometheus.Metric) {
	partition := []string{"partition"}
	leading := prometheus.NewDesc("cairn_writer_leading", "1 where this process leads the partition, 0 where it tries to.", partition, nil)
	waiting := prometheus.NewDesc("cairn_writer_waiting", "1 where a partition waits for the database, the vault or a key.", partition, nil)
	unflushed := prometheus.NewDesc("cairn_writer_unflushed_commits", "Commits whose states are not stored yet.", partition, nil)
	replay := prometheus.NewDesc("cairn_writer_replay_seconds", "How long reading the log up to its end took before the last lead.", partition, nil)
	for _, s := range c.writer.Stats() {
		label := PartitionLabel(s.Partition)
		out <- prometheus.MustNewConstMetric(leading, prometheus.GaugeValue, number(s.Phase == Leading), label)
		out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, number(s.Waiting != ""), label)
		out <- prometheus.MustNewConstMetric(unflushed, prometheus.GaugeValue, float64(s.Unflushed), label)
		out <- prometheus.MustNewConstMetric(replay, prometheus.GaugeValue, s.ReplayTook.Seconds(), label)
	}
}

// number is 1 for what is so.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// feedCollector tells how each partition of a publisher is.
type feedCollector struct{ publisher *Publisher }

// Describe is none: what is there is told by Collect.
func (feedCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c feedCollector) Collect(out chan<- prometheus.Metric) {
	waiting := prometheus.NewDesc("cairn_publisher_waiting", "1 where nothing is published to the partition's feeds, for a reason that /readyz says.", []string{"partition"}, nil)
	for _, s := range c.publisher.Stats() {
		out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, number(s.Waiting != ""), PartitionLabel(s.Partition))
	}
}
