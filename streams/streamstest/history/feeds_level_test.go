package history_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// Feeds are waited for until they are level with the log; those that never are, are found to lack what they lack.
func TestFeedsThatAreBehindAreWaitedForAndNotForEver(t *testing.T) {
	p := newPlot(t)
	records := publish(t, p.commit(ann, "a", "thread-x", "thread-y"), p.commit(ann, "b", "device-z"))
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	config := kafka.Config{Seeds: cluster.ListenAddrs()}
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(config.Seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, records[0], records[1]).FirstErr(); err != nil {
		t.Fatal(err)
	}
	verdict := func(within time.Duration) history.Verdict {
		feeds, err := history.ReadLevelFeeds(ctx, config, p.log(), within)
		if err != nil {
			t.Fatal(err)
		}
		return judge(history.Evidence{Logs: []*history.Log{p.log()}, Feeds: feeds, Rest: history.AtRest})
	}
	found(t, verdict(10*time.Millisecond), history.FeedsCarry)
	written := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { written <- client.ProduceSync(ctx, records[2]).FirstErr() })
	v := verdict(15 * time.Second)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	found(t, v)
	if v.Published != 3 {
		t.Errorf("%d records were published, not 3", v.Published)
	}
}
