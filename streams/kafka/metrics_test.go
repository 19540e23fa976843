package kafka_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/memory"
)

// measured is the value of a metric with a label's value, or of all together where the label is empty.
func measured(t *testing.T, from prometheus.Gatherer, metric, label, value string) (sum float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			is := label == ""
			for _, l := range m.GetLabel() {
				is = is || l.GetName() == label && l.GetValue() == value
			}
			if is {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// TestEachCommandIsMeasuredOnceByItsOutcome asks for commands that are accepted, rejected and repeated.
func TestEachCommandIsMeasuredOnceByItsOutcome(t *testing.T) {
	registry := prometheus.NewRegistry()
	config := kafkatest.Broker(t)
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	config.Metrics = registry
	config.Options = append(config.Options, kgo.WithHooks(kafka.NewClients(registry)))
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	keys, states := memory.NewKeys(), memory.NewStates()
	writer, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		t.Fatal(err)
	}
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) error {
		if err := writer.Run(ctx); err != nil {
			return err
		}
		return ctx.Err()
	})
	run(t, asker.Run)
	scope := domain.User("measured")
	for n := range 5 {
		mustAsk(t, asker, rename(scope, "a", n))
	}
	mustAsk(t, asker, rename(scope, "a", 4)) // again: answered as before
	if _, err := asker.Ask(t.Context(), rename(scope, "missing", 1)); code(err) != domain.CodeNotFound {
		t.Fatalf("a thread that is not there was renamed: %v", err)
	}
	for _, want := range []struct {
		metric, label, value string
		n                    float64
	}{
		{"cairn_commands_total", "outcome", "accepted", 5},
		{"cairn_commands_total", "outcome", "repeated", 1},
		{"cairn_commands_total", "outcome", "rejected", 1},
		{"cairn_ask_seconds", "", "", 7},
		{"cairn_writer_commands_total", "outcome", "accepted", 5},
		{"cairn_writer_commands_total", "outcome", "rejected", 1},
		{"cairn_writer_rejections_total", "code", domain.CodeNotFound, 1},
		{"cairn_writer_batch_commands", "", "", 6},
		{"cairn_writer_read_back_seconds", "", "", 6},
		{"cairn_writer_leads_total", "", "", float64(config.Topics.N())},
		{"cairn_writer_leads_lost_total", "", "", 0},
		{"cairn_writer_leading", "", "", float64(config.Topics.N())},
		{"cairn_writer_parked_total", "", "", 0},
		{"cairn_kafka_connect_errors_total", "", "", 0},
	} {
		if got := measured(t, registry, want.metric, want.label, want.value); got != want.n {
			t.Errorf("%s %s is %v, want %v", want.metric, want.value, got, want.n)
		}
	}
	if got := measured(t, registry, "cairn_commands_total", "command", schema.CommandName(rename(scope, "a", 1).Body)); got < 5 {
		t.Errorf("%v renames were measured", got)
	}
	if got := measured(t, registry, "cairn_kafka_records_total", "direction", "written"); got < 6 {
		t.Errorf("%v records were measured to be written", got)
	}
}

// TestWhoLeavesIsNoFault asks an asker that does not run yet, and does not wait for it.
func TestWhoLeavesIsNoFault(t *testing.T) {
	registry := prometheus.NewRegistry()
	config := kafkatest.Broker(t)
	config.Metrics = registry
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: memory.NewKeys(), States: memory.NewStates()})
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := asker.Ask(gone, rename(domain.User("gone"), "a", 1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("nobody waits, and it is answered %v", err)
	}
	for outcome, n := range map[string]float64{"left": 1, "failed": 0, "unknown": 0} {
		if got := measured(t, registry, "cairn_commands_total", "outcome", outcome); got != n {
			t.Errorf("%v commands are measured as %s, want %v", got, outcome, n)
		}
	}
}
