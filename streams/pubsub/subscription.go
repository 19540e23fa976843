package pubsub

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollRecords = 500
	// backlog is how many records of a partition may wait before no more are fetched.
	backlog = 1000
	// partWithin is how long a subscription that ends tries to keep its places.
	partWithin = 5 * time.Second
)

// subscription reads one topic. Of each partition that it has a worker hands out one message at a time.
type subscription struct {
	config Config
	topic  string
	ctx    context.Context //nolint:containedctx // the subscriber's, ended also by Close
	client *kgo.Client
	out    chan *message.Message

	mu      sync.Mutex
	workers map[int32]*worker
}

func newSubscription(ctx context.Context, config Config, topic string) (*subscription, error) {
	s := &subscription{config: config, topic: topic, ctx: ctx, out: make(chan *message.Message), workers: map[int32]*worker{}}
	options := []kgo.Opt{
		kgo.ConsumeTopics(topic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.MetadataMinAge(250 * time.Millisecond),
	}
	if config.Group != "" {
		options = append(options,
			kgo.ConsumerGroup(config.Group), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.BlockRebalanceOnPoll(),
			kgo.SessionTimeout(config.SessionTimeout), kgo.HeartbeatInterval(config.SessionTimeout/4), kgo.RebalanceTimeout(20*time.Second),
			kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Second),
			kgo.OnPartitionsRevoked(s.revoked), kgo.OnPartitionsLost(s.lost),
		)
	}
	var err error
	s.client, err = config.client(options...)
	return s, err
}

// run reads until ctx ends, then keeps the places of what was taken.
func (s *subscription) run() {
	defer close(s.out)
	for s.ctx.Err() == nil {
		fetches := s.client.PollRecords(s.ctx, pollRecords)
		if s.ctx.Err() == nil {
			fetches.EachError(func(topic string, partition int32, err error) {
				s.config.Log.Warn("reading failed, trying again", "topic", topic, "partition", partition, "error", err)
			})
			fetches.EachPartition(func(p kgo.FetchTopicPartition) { s.worker(p.Partition).push(p.Records) })
		}
		s.client.AllowRebalance()
	}
	s.stop(nil)
	if s.config.Group != "" {
		s.keep(context.WithoutCancel(s.ctx))
	}
	s.client.CloseAllowingRebalance()
}

// keep tells the group what was taken. What it does not get to know comes again, to whoever is next.
func (s *subscription) keep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, partWithin)
	defer cancel()
	if err := s.client.CommitMarkedOffsets(ctx); err != nil {
		s.config.Log.Warn("the group's places were not kept: some messages come again", "topic", s.topic, "error", err)
	}
}

func (s *subscription) revoked(ctx context.Context, _ *kgo.Client, taken map[string][]int32) {
	if partitions := taken[s.topic]; len(partitions) > 0 {
		s.stop(partitions)
		s.keep(ctx)
	}
}

func (s *subscription) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	if partitions := lost[s.topic]; len(partitions) > 0 {
		s.stop(partitions)
	}
}

func (s *subscription) worker(partition int32) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workers[partition]
	if w == nil {
		w = &worker{subscription: s, partition: partition, woken: make(chan struct{}, 1), done: make(chan struct{})}
		w.ctx, w.end = context.WithCancel(s.ctx)
		s.workers[partition] = w
		go w.run()
	}
	return w
}

// stop ends the workers of partitions, or of all, and waits for them.
func (s *subscription) stop(partitions []int32) {
	s.mu.Lock()
	if partitions == nil {
		for p := range s.workers {
			partitions = append(partitions, p)
		}
	}
	var stopping []*worker
	for _, p := range partitions {
		if w := s.workers[p]; w != nil {
			stopping = append(stopping, w)
			delete(s.workers, p)
		}
	}
	s.mu.Unlock()
	for _, w := range stopping {
		w.end()
	}
	for _, w := range stopping {
		<-w.done
	}
	s.client.ResumeFetchPartitions(map[string][]int32{s.topic: partitions})
}
