package pubsub_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/pubsub"
)

// broker is where the suites of one test run: an embedded broker, or real Kafka.
type broker struct{ kafka.Config }

// topic keeps the test's topics and groups apart from those of others.
func (b broker) topic(t tests.TestContext) string { return b.prefix() + "topic-" + t.TestID.String() }

func (b broker) prefix() string {
	if b.Topics.Prefix == "" {
		return "cairn."
	}
	return b.Topics.Prefix + "."
}

func (b broker) pubSub(t *testing.T, group string, key func(string, *message.Message) []byte) (message.Publisher, message.Subscriber) {
	t.Helper()
	if group != "" {
		group = b.prefix() + group
	}
	config := pubsub.Config{
		Seeds: b.Seeds, Options: b.Options, Group: group, Key: key, Partitions: 8, Replication: max(1, b.Topics.Replication),
	}
	publisher, err := pubsub.NewPublisher(config)
	if err != nil {
		t.Fatal(err)
	}
	subscriber, err := pubsub.NewSubscriber(config)
	if err != nil {
		t.Fatal(err)
	}
	return publisher, subscriber
}

func byMetadata(_ string, m *message.Message) []byte { return []byte(m.Metadata.Get("partition_key")) }

// The feature sets are those with which Watermill's own Kafka driver runs its suite. Here the suite is short; its
// whole length is in stress_test.go.
func (b broker) grouped() tests.Features {
	return tests.Features{ConsumerGroups: true, Persistent: true, GenerateTopicFunc: b.topic, ForceShort: true}
}

func (b broker) ordered() tests.Features {
	f := b.grouped()
	f.GuaranteedOrder = true
	return f
}

func (b broker) ungrouped() tests.Features {
	return tests.Features{Persistent: true, NewSubscriberReceivesOldMessages: true, GenerateTopicFunc: b.topic, ForceShort: true}
}

func (b broker) inGroup(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	return b.pubSub(t, group, nil)
}

func (b broker) inTestGroup(t *testing.T) (message.Publisher, message.Subscriber) {
	return b.pubSub(t, "test", nil)
}

func (b broker) partitioned(t *testing.T) (message.Publisher, message.Subscriber) {
	return b.pubSub(t, "test", byMetadata)
}

func (b broker) withoutGroup(t *testing.T) (message.Publisher, message.Subscriber) {
	return b.pubSub(t, "", nil)
}

func TestPublishSubscribe(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSub(t, b.grouped(), b.inTestGroup, b.inGroup)
}

func TestPublishSubscribeInOrder(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSub(t, b.ordered(), b.partitioned, b.inGroup)
}

func TestPublishSubscribeWithoutGroup(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSub(t, b.ungrouped(), b.withoutGroup, nil)
}
