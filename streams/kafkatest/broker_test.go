package kafkatest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafkatest"
)

// A test is given a broker that takes what it writes, whichever it is, and its own topics.
func TestBrokerTakesARecord(t *testing.T) {
	for range 2 {
		config := kafkatest.Broker(t, kafkatest.Partitions(3))
		if err := config.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(config.Seeds...))
		if err != nil {
			t.Fatal(err)
		}
		record, err := client.ProduceSync(t.Context(), &kgo.Record{Topic: config.Topics.Log(), Value: []byte("one")}).First()
		client.Close()
		if err != nil {
			t.Fatal(err)
		}
		if record.Offset != 0 {
			t.Errorf("offset %d: somebody else's topic", record.Offset)
		}
	}
}
