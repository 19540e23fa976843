//go:build kafka

package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// A cluster that was made by this Kafka has the protocol of transactions that feeds need; one that was only upgraded may
// have the one before, and is refused until somebody raises it.
func TestKafkaSaysWhichTransactionsItHas(t *testing.T) {
	c, err := kafkatest.Start(t.Context(), kafkatest.Config{Dir: t.TempDir(), Brokers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	config := kafka.Config{Seeds: c.Seeds(), Topics: kafka.Topics{Partitions: 1, Replication: 1}}
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := newPen(t, config)
	p.takeLead(1, penWriter)
	p.write(p.commit(command("user-a", "1", account.Pro), 0, nil, 1))
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	publishes := func(want func(kafka.FeedStats) bool) {
		t.Helper()
		publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Config: config, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, publisher.Run)
		defer stop()
		deadline := time.NewTimer(time.Minute)
		defer deadline.Stop()
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			stats := publisher.Stats()
			if len(stats) == 1 && want(stats[0]) {
				tick.Stop()
				return
			}
			select {
			case <-deadline.C:
				t.Fatalf("waited too long: %+v", stats)
			case <-tick.C:
			}
		}
	}
	publishes(func(s kafka.FeedStats) bool { return s.Next == 2 && s.Published == 1 && s.Waiting == "" })
	done, err := kadm.NewClient(p.cl).UpdateFeatures(t.Context(), false,
		kadm.FeatureUpdate{Feature: "transaction.version", MaxVersionLevel: 1, UpgradeType: 2})
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	publishes(func(s kafka.FeedStats) bool {
		return strings.Contains(s.Waiting, "is 1") && strings.Contains(s.Waiting, "kafka-features.sh")
	})
}
