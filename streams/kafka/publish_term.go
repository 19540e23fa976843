package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
)

const (
	// fullBatch is the number of events from which a batch counts as full: the next follows at once.
	fullBatch = 200
	// stopFeedWithin is how long the batch in hand may take when the publisher is told to stop.
	stopFeedWithin = 5 * time.Second
)

// publishing is the publishing of one partition.
type publishing struct {
	publisher *Publisher
	config    *PublisherConfig
	partition int32
	stop      context.CancelFunc
	done      chan struct{}

	mu    sync.Mutex
	stats FeedStats

	out  *kgo.Client
	last map[string]published // by feed: what its last record is
}

func (p *publishing) read() FeedStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (p *publishing) change(f func(*FeedStats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.stats)
}

// run publishes, beginning anew after every fault, until ctx ends.
func (p *publishing) run(ctx context.Context) {
	pause := 100 * time.Millisecond
	for {
		began := time.Now()
		err := p.term(ctx)
		var doubt *errInDoubt
		if errors.As(err, &doubt) { // also where the partition was taken away meanwhile: who has it next can't know
			p.publisher.fail(err)
			return
		}
		if ctx.Err() != nil {
			return
		}
		p.config.Log.Error("publishing is interrupted and begins anew", "partition", p.partition, "reason", err)
		p.change(func(s *FeedStats) { s.Waiting = err.Error() })
		if time.Since(began) > 30*time.Second {
			pause = 100 * time.Millisecond
		}
		pause = min(2*pause, 5*time.Second)
		next := pause
		if shutOut(err) {
			// Another took the partition. Whoever of the two has lost the assignment hears of it meanwhile.
			next = p.config.GiveWay + rand.N(p.config.GiveWay) //nolint:gosec // no secret
		}
		if !wait(ctx, next) {
			return
		}
	}
}

// shutOut reports whether another producer began with the same transactional id.
func shutOut(err error) bool {
	return errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidTxnState)
}

// wait answers whether the pause passed before ctx ended.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// term is one attempt. The order is the point: first every other publisher of the partition is shut out and what it had
// open is ended, and only then the feeds are asked how far they are, so that nothing can be appended after the answer.
func (p *publishing) term(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	defer p.out.Close()
	from, err := p.resume(ctx)
	if err != nil {
		return err
	}
	p.config.Log.Info("publishing to the feeds", "partition", p.partition, "from", from.Next)
	p.change(func(s *FeedStats) { s.Waiting, s.Next = "", from.Next })
	return p.publisher.tailer.Tail(ctx, p.partition, from, p.take)
}

// open connects the producer and shuts others out.
func (p *publishing) open(ctx context.Context) error {
	options := []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(4 << 20),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(1 << 20), // a batch is bounded by what the tailer fetches at once
	}
	if p.config.Fencing == Transactions {
		options = append(options, kgo.TransactionalID(p.transactionalID()), kgo.TransactionTimeout(p.transactionTimeout()))
	}
	var err error
	if p.out, err = p.config.client(options...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.Within)
	defer cancel()
	if p.config.Fencing == Transactions {
		if err := checkTransactions(ctx, p.out); err != nil {
			p.out.Close()
			return err
		}
	}
	if _, _, err := p.out.ProducerID(ctx); err != nil {
		p.out.Close()
		return fmt.Errorf("taking the feeds of partition %d: %w", p.partition, err)
	}
	return nil
}

// transactionTimeout is when the coordinator ends a transaction by itself: later than the batch is given up here.
func (p *publishing) transactionTimeout() time.Duration { return p.config.Within + 10*time.Second }

// transactionalID belongs to the partition, whoever publishes it.
func (p *publishing) transactionalID() string {
	return fmt.Sprintf("%s-%d", p.config.TransactionalID, p.partition)
}

// take publishes what a batch of the log holds for the feeds.
func (p *publishing) take(ctx context.Context, b streams.Batch) error {
	var records []*kgo.Record
	for i := range b.Commits {
		c := &b.Commits[i]
		if err := p.compare(c); err != nil {
			return err
		}
		for j := range c.Events {
			r, err := p.record(c.Events[j], b.From)
			if err != nil {
				return err
			}
			if r != nil {
				records = append(records, r)
			}
		}
	}
	if err := p.passed(b.Next.Next); err != nil {
		return err
	}
	if len(records) > 0 {
		if err := p.publish(ctx, records); err != nil {
			return err
		}
	}
	p.change(func(s *FeedStats) { s.Next, s.Published = b.Next.Next, s.Published+int64(len(records)) })
	p.publisher.published.Add(float64(len(records)))
	if n := len(records); n > 0 && n < fullBatch && !wait(ctx, p.config.Every) {
		return ctx.Err()
	}
	return nil
}

// record is an event's record on its feed, or nil where the feed has it already.
func (p *publishing) record(e streams.Recorded, from streams.Checkpoint) (*kgo.Record, error) {
	name, err := feed.Of(e.Stream)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", e.ID, err)
	}
	if last, ok := p.last[name]; ok && !last.place.before(e.Place) {
		return nil, nil
	}
	data, schema, err := p.config.Schema.Raise(e)
	if err != nil {
		return nil, err
	}
	event, err := feed.New(e, data, schema)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{
		Topic: p.config.Topics.Feed(name), Partition: p.partition, Key: []byte(e.Scope), Value: event.Data,
		Headers: make([]kgo.RecordHeader, 0, len(event.Attributes)+3),
	}
	for _, a := range event.Attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + a.Name, Value: []byte(a.Value)})
	}
	r.Headers = append(r.Headers,
		kgo.RecordHeader{Key: "content-type", Value: []byte(feed.ContentType)},
		kgo.RecordHeader{Key: HeaderResume, Value: resumeText(from)})
	r.Headers = traced(r.Headers, e.Trace)
	return r, nil
}

// publish appends records, all of them or, as whoever reads what is committed sees it, none.
func (p *publishing) publish(ctx context.Context, records []*kgo.Record) error {
	work, cancel := p.finishing(ctx)
	defer cancel()
	if p.config.Fencing == Transactions {
		if err := p.out.BeginTransaction(); err != nil {
			return fmt.Errorf("publishing: %w", err)
		}
	}
	var mu sync.Mutex
	var failed error
	for _, r := range records {
		p.out.Produce(work, r, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	err := p.out.Flush(work)
	mu.Lock()
	err = errors.Join(failed, err) // a commit would succeed although a produce failed
	mu.Unlock()
	switch {
	case err == nil && p.config.Fencing == Transactions:
		err = p.out.EndTransaction(work, kgo.TryCommit)
	case err != nil && p.config.Fencing == Alone:
		return &errInDoubt{err}
	}
	if err != nil {
		// The next attempt ends what is open, whatever became of it, and asks the feeds how far they are.
		return fmt.Errorf("publishing %d events of partition %d: %w", len(records), p.partition, err)
	}
	return nil
}

// finishing is a context for the batch in hand: it may end when ctx does, but only after a while.
func (p *publishing) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.Within)
	release := context.AfterFunc(ctx, func() {
		wait(work, stopFeedWithin)
		cancel()
	})
	return work, func() { release(); cancel() }
}
