package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/codec"
)

// Fencing says what keeps two publishers of one partition apart.
type Fencing int

// The ways.
const (
	// Transactions: each batch is one, under an id that belongs to the partition. Whoever begins with that id ends
	// what another had open and shuts it out.
	Transactions Fencing = iota
	// Alone: no other process can reach the broker, because it lives and dies in this one. The embedded broker's
	// transactions would not survive a kill whole, and need not.
	Alone
)

// PublisherConfig is what a Publisher needs. Numbers that are zero have the default that stands beside them.
type PublisherConfig struct {
	Config
	Schema  *codec.Schema
	Fencing Fencing

	Group           string        // that announces partitions: the prefix of the topics and ".publishers"
	SessionTimeout  time.Duration // of that group: 6 s
	TransactionalID string        // of partition n, with "-n" behind it: Group
	// Every is how far apart batches are that are not full: 100 ms. The first event after a pause waits for nothing.
	Every time.Duration
	// GiveWay is how long one that was shut out by another waits at least before it tries again: SessionTimeout.
	GiveWay time.Duration
	// Within is how long a batch may take: 20 s. Then its outcome is in doubt, and the partition begins anew.
	Within time.Duration
}

func (c *PublisherConfig) complete() error {
	var wrong []error
	if c.Schema == nil {
		wrong = append(wrong, errors.New("publisher: no Schema"))
	}
	if len(c.Seeds) == 0 {
		wrong = append(wrong, errors.New("publisher: no Seeds"))
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Group = cmp.Or(c.Group, cmp.Or(c.Topics.Prefix, "cairn")+".publishers")
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 6*time.Second)
	c.TransactionalID = cmp.Or(c.TransactionalID, c.Group)
	c.Every = cmp.Or(c.Every, 100*time.Millisecond)
	c.GiveWay = cmp.Or(c.GiveWay, c.SessionTimeout)
	c.Within = cmp.Or(c.Within, 20*time.Second)
	return errors.Join(wrong...)
}

// Publisher copies the events of the log to the feeds, one event a record, in order and once. It keeps no place of its
// own: where it stands is said by the feeds' last records. Its consumer group only suggests which partitions it takes;
// what keeps two apart is Fencing.
type Publisher struct {
	config    PublisherConfig
	tailer    *Tailer
	published prometheus.Counter

	mu         sync.Mutex
	partitions map[int32]*publishing
	failed     chan error
}

// NewPublisher makes a publisher, which does nothing before Run.
func NewPublisher(config PublisherConfig) (*Publisher, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	p := &Publisher{
		config: config, partitions: map[int32]*publishing{}, failed: make(chan error, 1),
		published: promauto.With(config.Metrics).NewCounter(prometheus.CounterOpts{Name: "cairn_publisher_events_total", Help: "Events that this process published to the feeds."}),
	}
	if config.Metrics != nil {
		if err := config.Metrics.Register(feedCollector{p}); err != nil {
			return nil, fmt.Errorf("publisher: %w", err)
		}
	}
	return p, nil
}

// Run publishes until ctx ends, finishes the batch in hand, leaves the group and answers ctx's error. It must be called once.
func (p *Publisher) Run(ctx context.Context) error {
	var err error
	read := p.config.Config
	if read.Around != nil {
		read.Around = p.around
	}
	if p.tailer, err = NewTailer(read); err != nil {
		return err
	}
	defer p.tailer.Close()
	topic := p.config.Topics.Log()
	group, err := p.config.client(
		kgo.ConsumerGroup(p.config.Group),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(p.config.SessionTimeout),
		kgo.HeartbeatInterval(p.config.SessionTimeout/4),
		kgo.RebalanceTimeout(30*time.Second),
		// Nothing is ever fetched by this client: it has no offsets to commit and none to lose.
		kgo.AdjustFetchOffsetsFn(fromTheStart),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) { p.start(ctx, given[topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { p.finish(taken[topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { p.finish(lost[topic]) }),
	)
	if err != nil {
		return err
	}
	group.PauseFetchTopics(topic)
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-p.failed:
	}
	p.finish(p.assigned())
	group.Close()
	p.finish(p.assigned())
	return err
}

// start begins to publish partitions. One that runs already goes on.
func (p *Publisher) start(ctx context.Context, partitions []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range partitions {
		if _, runs := p.partitions[n]; runs || ctx.Err() != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		one := &publishing{publisher: p, config: &p.config, partition: n, stop: stop, done: make(chan struct{})}
		one.stats.Partition = n
		p.partitions[n] = one
		go func() {
			defer close(one.done)
			one.run(ctx)
		}()
	}
}

// finish ends partitions and waits until they have stopped.
func (p *Publisher) finish(partitions []int32) {
	var ending []*publishing
	p.mu.Lock()
	for _, n := range partitions {
		if one, runs := p.partitions[n]; runs {
			delete(p.partitions, n)
			ending = append(ending, one)
		}
	}
	p.mu.Unlock()
	for _, one := range ending {
		one.stop()
	}
	for _, one := range ending {
		<-one.done
	}
}

func (p *Publisher) assigned() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.partitions))
}

// fail ends Run. Only the first failure is told.
func (p *Publisher) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// FeedStats is how the publishing of a partition is doing.
type FeedStats struct {
	Partition int32
	Published int64 // events since this process took the partition
	Next      int64 // the offset of the log that it reads next; zero before it resumed
	// Waiting is why nothing is published now, in words; empty: all is well.
	Waiting string
}

// Stats says how each assigned partition is, in the order of their numbers.
func (p *Publisher) Stats() []FeedStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]FeedStats, 0, len(p.partitions))
	for _, one := range p.partitions {
		all = append(all, one.read())
	}
	slices.SortFunc(all, func(a, b FeedStats) int { return cmp.Compare(a.Partition, b.Partition) })
	return all
}

// errInDoubt is a batch of a publisher that is Alone whose outcome is not known. Nothing could keep a late append apart
// from what a second attempt appends, so the process must end, and its broker with it.
type errInDoubt struct{ err error }

func (e *errInDoubt) Error() string {
	return fmt.Sprintf("the outcome of a batch for the feeds is not known, and only a restart of the broker settles it: %v", e.err)
}

func (e *errInDoubt) Unwrap() error { return e.err }
