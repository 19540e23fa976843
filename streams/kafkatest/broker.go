package kafkatest

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Variable names the brokers of a running cluster that tests use instead of an embedded one, separated by commas.
const Variable = "CAIRN_TEST_KAFKA"

// Seeds are the brokers of the cluster that CAIRN_TEST_KAFKA names, or nil when it is not set.
func Seeds(t testing.TB) []string {
	t.Helper()
	given := os.Getenv(Variable)
	if given == "" {
		return nil
	}
	return strings.Split(given, ",")
}

// Option changes what Broker gives.
type Option func(*kafka.Config)

// Partitions is the number of partitions of every topic.
func Partitions(n int32) Option { return func(c *kafka.Config) { c.Topics.Partitions = n } }

// Broker is a broker for one test. Where CAIRN_TEST_KAFKA is set its topics have a prefix of their own on that
// cluster, and they and the groups under that prefix are deleted when the test ends; else it is an embedded broker in
// memory. The topics are not made yet: Config.Ensure does. Clients must be closed before the test's end.
func Broker(t testing.TB, options ...Option) kafka.Config {
	t.Helper()
	var config kafka.Config
	if seeds := Seeds(t); seeds != nil {
		config = onCluster(t, seeds)
	} else {
		embedded, err := kafka.StartEmbedded(kafka.EmbeddedConfig{})
		if err != nil {
			t.Fatalf("kafkatest: %v", err)
		}
		t.Cleanup(func() {
			if err := embedded.Close(); err != nil {
				t.Errorf("kafkatest: %v", err)
			}
		})
		config = kafka.Config{Seeds: embedded.Seeds(), LiveSeeds: embedded.LiveSeeds()}
	}
	for _, o := range options {
		o(&config)
	}
	return config
}

func onCluster(t testing.TB, seeds []string) kafka.Config {
	t.Helper()
	config := kafka.Config{Seeds: seeds, LiveSeeds: seeds, Topics: kafka.Topics{
		Prefix:      "t" + strings.ToLower(rand.Text()[:10]),
		Replication: int16(min(3, len(seeds))),
	}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := wipe(ctx, seeds, config.Topics.Prefix); err != nil {
			t.Errorf("kafkatest: %v", err)
		}
	})
	return config
}

// wipe deletes the topics and groups under a prefix.
func wipe(ctx context.Context, seeds []string, prefix string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ClientID("kafkatest"))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, prefix+".") {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		if _, err := admin.DeleteTopics(ctx, names...); err != nil {
			return err
		}
	}
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	names = nil
	for _, name := range groups.Groups() {
		if strings.HasPrefix(name, prefix+".") {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		_, err = admin.DeleteGroups(ctx, names...)
	}
	return err
}
