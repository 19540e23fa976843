package live

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cairnhq/cairn/handlers/fanout"
)

// metrics are what a gateway measures.
type metrics struct {
	opened          prometheus.Counter
	closed          *prometheus.CounterVec
	received        *prometheus.CounterVec
	sent, sentBytes prometheus.Counter
	writes          prometheus.Counter
	resets          *prometheus.CounterVec
	calls           *prometheus.CounterVec
	answered        prometheus.Histogram
}

// Why a socket was closed, as a label.
const (
	closedGone     = "gone" // by the client, or its network
	closedPolicy   = "policy"
	closedGarbage  = "malformed"
	closedRestart  = "restart"
	closedReplaced = "replaced"
	closedSlow     = "slow"
)

// What became of a device's call.
const (
	callOffered  = "offered"
	callAnswered = "answered"
	callReturned = "returned" // given back, to be offered again
	callUnknown  = "unknown"  // the socket ended, and nobody knows what the device did
)

func newMetrics(registerer prometheus.Registerer, g *Gateway) *metrics {
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		vec := factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, value := range values {
			vec.WithLabelValues(value)
		}
		return vec
	}
	gauge := func(name, help string, read func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	gauge("cairn_gateway_sockets", "Sockets that are open here.", g.sessions.count)
	gauge("cairn_gateway_devices", "Devices whose newest socket is here.", func() int { return len(g.sessions.here()) })
	gauge("cairn_gateway_calls_waiting", "Calls that devices here were given and have not answered.", g.calls.count)
	return &metrics{
		opened: counter("cairn_gateway_sockets_opened_total", "Sockets that were opened."),
		closed: counters("cairn_gateway_sockets_closed_total", "Sockets that ended, and why: a slow one was cut off because it did not read in time.", "reason",
			closedGone, closedPolicy, closedGarbage, closedRestart, closedReplaced, closedSlow),
		received:  counters("cairn_gateway_frames_received_total", "Frames that clients sent, by type.", "type", append(frameTypes(), otherFrame)...),
		sent:      counter("cairn_gateway_frames_sent_total", "Frames that clients were sent."),
		sentBytes: counter("cairn_gateway_sent_bytes_total", "What those had in bytes."),
		writes:    counter("cairn_gateway_writes_total", "Writes in which those left, several in one."),
		resets: counters("cairn_gateway_resets_total", "Subscriptions that could not go on from where they were, and why.", "reason",
			string(fanout.BeyondHead), string(fanout.OtherHash), string(fanout.Pruned), string(fanout.TooOld), string(fanout.NoAccess)),
		calls: counters("cairn_gateway_device_calls_total", "Calls of devices, by what became of them.", "outcome", callOffered, callAnswered, callReturned, callUnknown),
		answered: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "cairn_gateway_device_call_seconds", Help: "From the offer of a call to the device's answer.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
}

// reasonOf is the label of a code.
func reasonOf(why *closing) string {
	if why == nil {
		return closedGone
	}
	switch why.code {
	case closePolicy:
		return closedPolicy
	case closeGarbage:
		return closedGarbage
	case closeRestart:
		return closedRestart
	case closeReplaced:
		return closedReplaced
	case closeSlow:
		return closedSlow
	}
	return closedGone
}

// frameTypes are those of the frames that clients send.
func frameTypes() []string {
	return []string{"device_hello", "chat_request", "home_request", "floating_request", "cancel", "subscribe", "unsubscribe", "tool_result", "tool_ack", "ping", "pong"}
}

// otherFrame is the label of all others.
const otherFrame = "other"

// frame notes a frame of a client. Types are the client's: only those that are known become a label.
func (m *metrics) frame(kind string) {
	if !slices.Contains(frameTypes(), kind) {
		kind = otherFrame
	}
	m.received.WithLabelValues(kind).Inc()
}

// wrote notes frames that a socket took.
func (m *metrics) wrote(j *joined) {
	m.sent.Add(float64(len(j.ends)))
	m.sentBytes.Add(float64(j.bytes))
	m.writes.Inc()
}

// count is how many sockets are here.
func (t *sessions) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// count is how many calls wait for an answer here.
func (t *calls) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}
