package kafka_test

import (
	"testing"

	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// topics are those of one test, on an embedded broker in memory or on the real cluster that CAIRN_TEST_KAFKA names.
func topics(t testing.TB, options ...kafkatest.Option) kafka.Config {
	t.Helper()
	config := kafkatest.Broker(t, options...)
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return config
}
