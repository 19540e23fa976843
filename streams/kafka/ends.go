package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// endsWithin is how long the question where a partition ends is asked again while its leader is being elected. A new
	// leader also refuses to say it until it knows what was acknowledged under the one before.
	endsWithin = 10 * time.Second
	// servedWithin is how long a cluster may take until all of its brokers know a topic.
	servedWithin = 30 * time.Second
	askAgain     = 50 * time.Millisecond
)

// Appended answers how many records the log was ever given: zero where there is no log yet. While a partition has no
// leader that says where it ends, it waits, and then fails: what is not known is not empty.
func (c Config) Appended(ctx context.Context) (int64, error) {
	client, err := c.client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	there, err := exists(ctx, client, c.Topics.Log())
	if err != nil || !there {
		return 0, err
	}
	ends, err := offsetsAtEnd(ctx, client, c.Topics.Log())
	if err != nil {
		return 0, err
	}
	var all int64
	for _, end := range ends {
		all += end
	}
	return all, nil
}

// exists reports whether any broker knows a topic. They learn of it one after the other.
func exists(ctx context.Context, client *kgo.Client, topic string) (bool, error) {
	limit, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	there := false
	err := again(limit, func() error {
		cluster, err := kadm.NewClient(client).BrokerMetadata(limit)
		if err != nil {
			return err
		}
		var silent error
		for _, b := range cluster.Brokers {
			known, err := describe(limit, client.Broker(int(b.NodeID)), []string{topic})
			if err != nil {
				silent = cmp.Or(silent, err)
				continue
			}
			for _, t := range known.Topics {
				err := kerr.ErrorForCode(t.ErrorCode)
				if there = err == nil; there {
					return nil
				}
				if !errors.Is(err, kerr.UnknownTopicOrPartition) {
					silent = cmp.Or(silent, err)
				}
			}
		}
		return silent
	})
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", topic, cmpErr(ctx.Err(), err))
	}
	return there, nil
}

// offsetsAtEnd answers where each partition of a topic ends.
func offsetsAtEnd(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	limit, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	var partitions []int32
	err := again(limit, func() error {
		partitions = nil
		known, err := describe(limit, client, []string{topic})
		if err != nil {
			return err
		}
		for _, t := range known.Topics {
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return err
			}
			for _, p := range t.Partitions {
				partitions = append(partitions, p.Partition)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", topic, cmpErr(ctx.Err(), err))
	}
	return endOffsets(ctx, client, topic, partitions...)
}

// topicEnds answers where all partitions of a topic end, with endOffsets' patience.
func topicEnds(ctx context.Context, admin *kadm.Client, topic string) (ends kadm.ListedOffsets, err error) {
	limit, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	err = again(limit, func() (err error) {
		ends, err = admin.ListEndOffsets(limit, topic)
		return cmpErr(err, ends.Error())
	})
	if err != nil {
		return nil, fmt.Errorf("end of %s: %w", topic, err)
	}
	return ends, nil
}

// endOffsets answers where partitions of a topic end: what was acknowledged lies before. It waits a while for what
// passes by itself.
func endOffsets(ctx context.Context, client *kgo.Client, topic string, partitions ...int32) (map[int32]int64, error) {
	limit, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	var ends map[int32]int64
	err := again(limit, func() (err error) {
		ends, err = listEnds(limit, client, topic, partitions)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("end of %s: %w", topic, cmpErr(ctx.Err(), err))
	}
	return ends, nil
}

func listEnds(ctx context.Context, client *kgo.Client, topic string, partitions []int32) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, partition := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, -1
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	ends := make(map[int32]int64, len(partitions))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			ends[p.Partition] = p.Offset
		}
	}
	for _, p := range partitions {
		if _, ok := ends[p]; !ok {
			return nil, fmt.Errorf("no partition %d", p)
		}
	}
	return ends, nil
}

// again does something until it succeeds, fails for good, or ctx ends.
func again(ctx context.Context, do func() error) error {
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		err := do()
		if err == nil || !kerr.IsRetriable(unwrapped(err)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// unwrapped is the broker's error, which kerr wants bare.
func unwrapped(err error) error {
	var k *kerr.Error
	if errors.As(err, &k) {
		return k
	}
	return err
}

// Served waits until every broker that answers knows the topics, with a leader for each partition, and answers how many
// partitions each has. A cluster tells its brokers of a new topic one after the other: without this the next request may
// meet one that has not heard of it.
func Served(ctx context.Context, client *kgo.Client, topics ...string) (map[string]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	partitions := map[string]int32{}
	err := again(ctx, func() error {
		// Not of the topics: the client would remember what it was told too early.
		cluster, err := kadm.NewClient(client).BrokerMetadata(ctx)
		if err != nil {
			return err
		}
		for _, b := range cluster.Brokers {
			known, err := describe(ctx, client.Broker(int(b.NodeID)), topics)
			if err != nil {
				continue // it is on its way out, or not in yet: nobody else reaches it, either
			}
			for _, t := range known.Topics {
				if err := leaderless(t); err != nil {
					return fmt.Errorf("topic %s is not served by broker %d: %w", *t.Topic, b.NodeID, err)
				}
				partitions[*t.Topic] = int32(len(t.Partitions))
			}
		}
		return nil
	})
	return partitions, err
}

type requestor interface {
	Request(context.Context, kmsg.Request) (kmsg.Response, error)
}

func describe(ctx context.Context, from requestor, topics []string) (*kmsg.MetadataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req.RequestWith(ctx, from)
}

// leaderless says what keeps a topic from being served.
func leaderless(t kmsg.MetadataResponseTopic) error {
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return err
	}
	for _, p := range t.Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !errors.Is(err, kerr.ReplicaNotAvailable) {
			return fmt.Errorf("partition %d: %w", p.Partition, err)
		}
	}
	return nil
}
