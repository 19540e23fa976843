package feed_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Brokers whose transactions do not keep a late append out are refused, with what to do; the embedded broker, whose
// publisher needs no transactions, is not asked.
func TestAPublisherNeedsTheSecondProtocolOfTransactions(t *testing.T) {
	t.Parallel()
	p := newPress(t, embedded(t, t.TempDir()), 8)
	p.print(5)
	set := func(level int16) {
		t.Helper()
		done, err := kadm.NewClient(p.cl).UpdateFeatures(t.Context(), false,
			kadm.FeatureUpdate{Feature: "transaction.version", MaxVersionLevel: level, UpgradeType: 3})
		if err == nil {
			err = done.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	publisher := p.publisher(nil)
	stop := run(t, publisher.Run)
	eventually(t, "it says what to do", func() bool {
		s := publisher.Stats()
		return len(s) == 1 && strings.Contains(s[0].Waiting, "kafka-features.sh") && strings.Contains(s[0].Waiting, "is 1")
	})
	if n := p.end(p.config.Topics.Feed("threads")); n != 0 {
		t.Errorf("the feed has %d records", n)
	}
	set(2) // and goes on by itself once it is done
	p.level(publisher)
	stop()
	set(1)
	p.print(5)
	lonely := p.publisher(func(c *kafka.PublisherConfig) { alone(c) })
	run(t, lonely.Run)
	p.level(lonely)
	p.check()
}
