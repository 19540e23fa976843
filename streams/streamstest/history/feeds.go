package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Feeds is what all topics of feeds hold for whoever reads what is committed.
type Feeds struct {
	// Lines are the partitions of the topics, in the order of their names and numbers.
	Lines []*FeedLine
}

// FeedLine is one partition of one feed.
type FeedLine struct {
	Feed      string // without the prefix of topics
	Partition int32
	Records   []FeedRecord // in the order of their offsets
}

// FeedRecord is one record of a feed, as it stands there.
type FeedRecord struct {
	Offset  int64
	Key     string
	Value   []byte
	Headers map[string]string
	// Twice is a header that stands there more than once. Empty: none.
	Twice string
}

// NewFeeds makes Feeds of records, which are those of each partition in order.
func NewFeeds(topics kafka.Topics, records ...*kgo.Record) *Feeds {
	f := &Feeds{}
	for _, r := range records {
		f.line(strings.TrimPrefix(r.Topic, topics.Feed("")), r.Partition).add(r)
	}
	slices.SortFunc(f.Lines, func(a, b *FeedLine) int {
		return cmp.Or(strings.Compare(a.Feed, b.Feed), cmp.Compare(a.Partition, b.Partition))
	})
	return f
}

func (f *Feeds) line(feed string, partition int32) *FeedLine {
	for _, l := range f.Lines {
		if l.Feed == feed && l.Partition == partition {
			return l
		}
	}
	l := &FeedLine{Feed: feed, Partition: partition}
	f.Lines = append(f.Lines, l)
	return l
}

func (l *FeedLine) add(r *kgo.Record) {
	one := FeedRecord{Offset: r.Offset, Key: string(r.Key), Value: r.Value, Headers: map[string]string{}}
	for _, h := range r.Headers {
		if _, twice := one.Headers[h.Key]; twice {
			one.Twice = h.Key
		}
		one.Headers[h.Key] = string(h.Value)
	}
	l.Records = append(l.Records, one)
}

// attribute is a CloudEvents attribute of the record.
func (r *FeedRecord) attribute(name string) string { return r.Headers["ce_"+name] }

// place is where the record says that its event stands in the log.
func (r *FeedRecord) place() (partition int32, offset int64, ok bool) {
	p, err1 := strconv.ParseInt(r.attribute("logpartition"), 10, 32)
	o, err2 := strconv.ParseInt(r.attribute("logoffset"), 10, 64)
	return int32(p), o, err1 == nil && err2 == nil
}

// Behind is how many events of a log the feeds do not have yet.
func (f *Feeds) Behind(l *Log) int {
	c := newCheck(Evidence{})
	c.log = l
	wanted, _ := c.wanted()
	for _, line := range f.Lines {
		for i := range line.Records {
			delete(wanted, line.Records[i].attribute("id"))
		}
	}
	return len(wanted)
}

// ReadLevelFeeds waits until the feeds have every event of a log, but no longer than within, and reads them.
func ReadLevelFeeds(ctx context.Context, config kafka.Config, log *Log, within time.Duration) (*Feeds, error) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for late := false; ; {
		f, err := ReadFeeds(ctx, config)
		if err != nil || late || f.Behind(log) == 0 {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("history: the feeds: %w", ctx.Err())
		case <-limit.C:
			late = true
		case <-tick.C:
		}
	}
}

// ReadFeeds reads every topic of feeds that there is, also one that this release does not know, as far as it is committed.
func ReadFeeds(ctx context.Context, config kafka.Config) (*Feeds, error) {
	client, err := dial(config)
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	defer client.Close()
	names, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("history: topics: %w", err)
	}
	var records []*kgo.Record
	for _, topic := range names.Names() {
		if !strings.HasPrefix(topic, config.Topics.Feed("")) {
			continue
		}
		all, err := readCommitted(ctx, config, admin, topic)
		if err != nil {
			return nil, err
		}
		records = append(records, all...)
	}
	return NewFeeds(config.Topics, records...), nil
}

// readCommitted reads a topic up to what is committed now. The markers of transactions are read, too: the last record of
// a partition may be one.
func readCommitted(ctx context.Context, config kafka.Config, admin *kadm.Client, topic string) ([]*kgo.Record, error) {
	starts, err1 := admin.ListStartOffsets(ctx, topic)
	ends, err2 := admin.ListCommittedOffsets(ctx, topic)
	if err := cmp.Or(err1, err2, starts.Error(), ends.Error()); err != nil {
		return nil, fmt.Errorf("history: ends of %s: %w", topic, err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(topic, end.Partition); ok && start.Offset < end.Offset {
			from[end.Partition], left[end.Partition] = kgo.NewOffset().At(start.Offset), end.Offset
		}
	})
	client, err := dial(config, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var all []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := cmp.Or(ctx.Err(), fetches.Err()); err != nil {
			return nil, fmt.Errorf("history: reading %s: %w, with %v left", topic, err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, reading := left[r.Partition]
			if reading && r.Offset < end && !r.Attrs.IsControl() {
				all = append(all, r)
			}
			if r.Offset >= end-1 {
				delete(left, r.Partition)
			}
		})
	}
	return all, nil
}

// dial makes a client that never begins anywhere but where it is told.
func dial(config kafka.Config, more ...kgo.Opt) (*kgo.Client, error) {
	all := append([]kgo.Opt{kgo.SeedBrokers(config.Seeds...), kgo.ClientID("cairn-history")}, config.Options...)
	if config.EachOptions != nil {
		all = append(all, config.EachOptions()...)
	}
	client, err := kgo.NewClient(append(append(all, kgo.ConsumeResetOffset(kgo.NoResetOffset())), more...)...)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return client, nil
}
