package kafka

import (
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Clients measures all clients of a process together: they come and go with the leads of their partitions, and what
// each of them had would be lost with it.
type Clients struct {
	connects, failed, disconnects prometheus.Counter
	requests                      *prometheus.HistogramVec
	requestsFailed                *prometheus.CounterVec
	throttled                     prometheus.Counter
	records, bytes                *prometheus.CounterVec
}

// NewClients makes hooks for kgo.WithHooks.
func NewClients(registerer prometheus.Registerer) *Clients {
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	c := &Clients{
		connects:    counter("cairn_kafka_connects_total", "Connections to brokers that were opened."),
		failed:      counter("cairn_kafka_connect_errors_total", "Connections to brokers that could not be opened."),
		disconnects: counter("cairn_kafka_disconnects_total", "Connections to brokers that were closed."),
		throttled:   counter("cairn_kafka_throttled_seconds_total", "How long brokers told clients to wait."),
		requests: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cairn_kafka_request_seconds", Help: "From a request to a broker to its answer. A fetch waits for records, up to 2 s.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"request"}),
		requestsFailed: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_kafka_request_errors_total", Help: "Requests that had no answer.",
		}, []string{"request"}),
		records: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_kafka_records_total", Help: "Records that were written to topics, and read from them.",
		}, []string{"topic", "direction"}),
		bytes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_kafka_bytes_total", Help: "What they had in bytes, compressed.",
		}, []string{"topic", "direction"}),
	}
	for _, request := range []kmsg.Request{new(kmsg.ProduceRequest), new(kmsg.FetchRequest)} {
		c.requestsFailed.WithLabelValues(kmsg.NameForKey(request.Key()))
	}
	return c
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c *Clients) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		c.failed.Inc()
		return
	}
	c.connects.Inc()
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (c *Clients) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { c.disconnects.Inc() }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (c *Clients) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	name := kmsg.NameForKey(key)
	if e2e.Err() != nil {
		c.requestsFailed.WithLabelValues(name).Inc()
		return
	}
	c.requests.WithLabelValues(name).Observe(e2e.DurationE2E().Seconds())
}

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (c *Clients) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	c.throttled.Add(interval.Seconds())
}

// OnProduceBatchWritten implements kgo.HookProduceBatchWritten.
func (c *Clients) OnProduceBatchWritten(_ kgo.BrokerMetadata, topic string, _ int32, m kgo.ProduceBatchMetrics) {
	c.records.WithLabelValues(topic, "written").Add(float64(m.NumRecords))
	c.bytes.WithLabelValues(topic, "written").Add(float64(m.CompressedBytes))
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (c *Clients) OnFetchBatchRead(_ kgo.BrokerMetadata, topic string, _ int32, m kgo.FetchBatchMetrics) {
	c.records.WithLabelValues(topic, "read").Add(float64(m.NumRecords))
	c.bytes.WithLabelValues(topic, "read").Add(float64(m.CompressedBytes))
}
