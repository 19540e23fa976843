package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// undecided copies the commands behind the last counted one of each partition, and everything that was parked. A command
// that arrives in the old topic later is decided nowhere: whoever sent it gets no answer, and repeats it.
func (c *copying) undecided(ctx context.Context, closed []streams.Checkpoint) error {
	from := make([]int64, len(closed))
	for p, at := range closed {
		if a := at.Acceptance; a.After.Era == a.Era {
			from[p] = a.After.Offset + 1
		}
	}
	var err error
	if c.done.Commands, err = c.records(ctx, c.From.Topics.Commands(), c.To.Topics.Commands(), from); err != nil {
		return fmt.Errorf("copy the undecided commands: %w", err)
	}
	if c.done.Parked, err = c.records(ctx, c.From.Topics.Parked(), c.To.Topics.Parked(), make([]int64, len(closed))); err != nil {
		return fmt.Errorf("copy what was parked: %w", err)
	}
	return nil
}

// records copies what stands in a topic now, each partition from an offset on, to where its scope lies in the new one.
func (c *copying) records(ctx context.Context, topic, to string, from []int64) (copied int64, err error) {
	client, err := c.From.client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ends, err := offsetsAtEnd(ctx, client, topic)
	if err != nil {
		return 0, err
	}
	starts, err := kadm.NewClient(client).ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("start of %s: %w", topic, err)
	}
	for p, next := range from {
		if start, ok := starts.Lookup(topic, int32(p)); ok {
			next = max(next, start.Offset)
		}
		n, err := c.partitionRecords(ctx, topic, to, int32(p), next, ends[int32(p)])
		if err != nil {
			return copied, fmt.Errorf("partition %d of %s: %w", p, topic, err)
		}
		copied += n
	}
	return copied, nil
}

func (c *copying) partitionRecords(ctx context.Context, topic, to string, p int32, next, end int64) (copied int64, err error) {
	if next >= end {
		return 0, nil
	}
	in, err := c.From.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(next)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	for next < end {
		records, err := poll(ctx, in)
		if err != nil {
			return copied, err
		}
		for _, r := range records {
			if r.Offset >= end {
				break
			}
			scope, _ := find(r.Headers, HeaderScope)
			if err := c.put(ctx, &kgo.Record{
				Topic: to, Partition: c.partition(domain.Scope(scope), p), Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp,
			}, -1); err != nil {
				return copied, err
			}
			copied++
		}
		if len(records) > 0 {
			next = records[len(records)-1].Offset + 1
		}
	}
	return copied, nil
}
