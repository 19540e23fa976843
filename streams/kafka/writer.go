package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// WriterConfig is what a Writer needs. Numbers that are zero have the default that stands beside them.
type WriterConfig struct {
	Config
	Schema  *codec.Schema
	Keys    streams.Keys
	States  streams.States
	History streams.History  // to fold states again; nil: a stored state of another fold makes its partition wait
	Now     func() time.Time // for stamps
	Rand    io.Reader        // of writer ids; nil: crypto/rand. Never a seeded one outside tests

	Group          string        // that announces partitions: the prefix of the topics and ".writers"
	FlushEvery     time.Duration // how often states are stored: 1 s
	ReadBackWithin time.Duration // an own commit not read back by then ends the lead: 10 s
	SessionTimeout time.Duration // of the group that announces partitions: 6 s
	InFlight       int           // batches decided and not yet read back: 2
	CachedStreams  int           // clean states kept in memory for each partition: 50,000
	HeldIDs        int           // flushed ids kept in memory for each partition, none longer than an hour: 200,000
	MaxUnflushed   int           // commits not yet stored at which a partition waits: 100,000
	TrimEvery      int64         // commands that the commands topic may keep behind the stored checkpoint: 10,000
}

// The bounds of a batch and of a commit.
const (
	maxBatch       = 500
	maxBatchBytes  = 8 << 20
	maxBatchTime   = 50 * time.Millisecond
	maxCommitBytes = 2 << 20
	holdIDsFor     = time.Hour
)

func (c *WriterConfig) complete() error {
	var wrong []error
	for what, missing := range map[string]bool{
		"Schema": c.Schema == nil, "Keys": c.Keys == nil, "States": c.States == nil, "Seeds": len(c.Seeds) == 0,
	} {
		if missing {
			wrong = append(wrong, fmt.Errorf("writer: no %s", what))
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Group = cmp.Or(c.Group, cmp.Or(c.Topics.Prefix, "cairn")+".writers")
	c.FlushEvery = cmp.Or(c.FlushEvery, time.Second)
	c.ReadBackWithin = cmp.Or(c.ReadBackWithin, 10*time.Second)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 6*time.Second)
	c.InFlight = cmp.Or(c.InFlight, 2)
	c.CachedStreams = cmp.Or(c.CachedStreams, 50_000)
	c.HeldIDs = cmp.Or(c.HeldIDs, 200_000)
	c.MaxUnflushed = cmp.Or(c.MaxUnflushed, 100_000)
	c.TrimEvery = cmp.Or(c.TrimEvery, 10_000)
	return errors.Join(wrong...)
}

// Writer decides the commands of the partitions that its consumer group announces to it. It leads each
// partition in the log (DESIGN section 3): the group only suggests, and what counts is in the log alone.
type Writer struct {
	config  WriterConfig
	metrics *writeMetrics
	replies *kgo.Client
	parked  *kgo.Client

	mu         sync.Mutex
	partitions map[int32]*running
}

// running is a partition being led, or being tried.
type running struct {
	*status
	stop context.CancelFunc
	done chan struct{}
}

// NewWriter makes a writer, which does nothing before Run.
func NewWriter(config WriterConfig) (*Writer, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	w := &Writer{config: config, metrics: newWriteMetrics(config.Metrics), partitions: map[int32]*running{}}
	if config.Metrics != nil {
		if err := config.Metrics.Register(leadCollector{w}); err != nil {
			return nil, fmt.Errorf("writer: %w", err)
		}
	}
	return w, nil
}

// Run leads what it is given until ctx ends, then finishes what it has in flight, stores its states, leaves the group and
// answers nil. It must be called once.
func (w *Writer) Run(ctx context.Context) error {
	replies, err := w.config.liveClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), quiet(w.config.Log))
	if err != nil {
		return err
	}
	defer replies.Close()
	parked, err := w.parkedClient()
	if err != nil {
		return err
	}
	defer parked.Close()
	w.replies, w.parked = replies, parked

	group, err := w.config.client(
		quiet(w.config.Log),
		kgo.ConsumerGroup(w.config.Group),
		kgo.ConsumeTopics(w.config.Topics.Commands()),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(w.config.SessionTimeout),
		kgo.HeartbeatInterval(w.config.SessionTimeout/4),
		kgo.RebalanceTimeout(20*time.Second),
		// Nothing is ever fetched by this client: it has no offsets to commit and none to lose.
		kgo.AdjustFetchOffsetsFn(fromTheStart),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			w.start(ctx, given[w.config.Topics.Commands()])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			w.finish(taken[w.config.Topics.Commands()])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			w.finish(lost[w.config.Topics.Commands()])
		}),
	)
	if err != nil {
		return err
	}
	group.PauseFetchTopics(w.config.Topics.Commands())
	<-ctx.Done()
	w.finish(w.assigned())
	group.Close()
	w.finish(w.assigned())
	return nil
}

// parkedClient appends to the parked topic, and reads it.
func (w *Writer) parkedClient() (*kgo.Client, error) {
	return w.config.client(quiet(w.config.Log), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		// A writer that ends must not wait for brokers that it does not reach. What is parked twice has the same id.
		kgo.AllowIdempotentProduceCancellation())
}

func fromTheStart(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for _, partitions := range offsets {
		for p := range partitions {
			partitions[p] = kgo.NewOffset().At(0)
		}
	}
	return offsets, nil
}

// start begins to lead partitions. One that runs already goes on.
func (w *Writer) start(ctx context.Context, partitions []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range partitions {
		if _, runs := w.partitions[p]; runs || ctx.Err() != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		r := &running{status: newStatus(p, w.config.Log), stop: stop, done: make(chan struct{})}
		w.partitions[p] = r
		go func() {
			defer close(r.done)
			w.lead(ctx, r.status)
		}()
	}
}

// finish ends partitions and waits until they have stopped.
func (w *Writer) finish(partitions []int32) {
	var ending []*running
	w.mu.Lock()
	for _, p := range partitions {
		if r, runs := w.partitions[p]; runs {
			delete(w.partitions, p)
			ending = append(ending, r)
		}
	}
	w.mu.Unlock()
	for _, r := range ending {
		r.stop()
	}
	for _, r := range ending {
		<-r.done
	}
}

func (w *Writer) assigned() []int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.partitions))
}

// Stats says how each assigned partition is, in the order of their numbers.
func (w *Writer) Stats() []PartitionStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]PartitionStats, 0, len(w.partitions))
	for _, r := range w.partitions {
		all = append(all, r.stats())
	}
	slices.SortFunc(all, func(a, b PartitionStats) int { return cmp.Compare(a.Partition, b.Partition) })
	return all
}

// quietLogger keeps the client's remarks on every flush out of the log.
type quietLogger struct{ log *slog.Logger }

func quiet(log *slog.Logger) kgo.Opt { return kgo.WithLogger(quietLogger{log}) }

// Level implements kgo.Logger.
func (quietLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (q quietLogger) Log(level kgo.LogLevel, text string, keyvals ...any) {
	if level == kgo.LogLevelError {
		q.log.Error(text, keyvals...)
		return
	}
	q.log.Warn(text, keyvals...)
}
