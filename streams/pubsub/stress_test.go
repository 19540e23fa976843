//go:build stress

package pubsub_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/cairnhq/cairn/streams/kafkatest"
)

// whole is a feature set for the suite at its whole length.
func whole(f tests.Features) tests.Features {
	f.ForceShort = false
	return f
}

func TestWholeSuite(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSub(t, whole(b.grouped()), b.inTestGroup, b.inGroup)
}

func TestWholeSuiteInOrder(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSub(t, whole(b.ordered()), b.partitioned, b.inGroup)
}

func TestWholeSuiteWithoutGroup(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSub(t, whole(b.ungrouped()), b.withoutGroup, nil)
}

// Watermill's stress tests run many suites at once; STRESS_TEST_COUNT says how many (10).
func TestStress(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSubStressTest(t, whole(b.grouped()), b.inTestGroup, b.inGroup)
}

func TestStressInOrder(t *testing.T) {
	b := broker{kafkatest.Broker(t)}
	tests.TestPubSubStressTest(t, whole(b.ordered()), b.partitioned, b.inGroup)
}
