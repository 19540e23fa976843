package bench

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// direct is the limit of writing: a caller that decides, seals, encodes, produces the same commit to a log of its own and
// reads it back, with no command topic and no writer between.
type direct struct {
	topics kafka.Topics
	schema *codec.Schema
	keys   streams.Keys
	client *kgo.Client
	reader *kgo.Client
	next   atomic.Int64

	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func newDirect(ctx context.Context, config kafka.Config, schema *codec.Schema, keys streams.Keys) (*direct, error) {
	config.Topics.Prefix = cmp.Or(config.Topics.Prefix, "cairn") + "-direct"
	config.Stored = nil
	if err := config.Ensure(ctx); err != nil {
		return nil, err
	}
	d := &direct{topics: config.Topics, schema: schema, keys: keys, waiting: map[string]chan struct{}{}}
	var err error
	d.client, err = kgo.NewClient(
		kgo.SeedBrokers(config.Seeds...), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.MaxBufferedRecords(1<<17),
	)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	from := map[int32]kgo.Offset{}
	for p := range d.topics.N() {
		from[p] = kgo.NewOffset().At(0)
	}
	d.reader, err = kgo.NewClient(kgo.SeedBrokers(config.Seeds...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{d.topics.Log(): from}))
	if err != nil {
		d.client.Close()
		return nil, fmt.Errorf("bench: %w", err)
	}
	return d, nil
}

// run reads the log back until ctx ends.
func (d *direct) run(ctx context.Context) error {
	defer d.client.Close()
	defer d.reader.Close()
	for {
		fetches := d.reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("bench: reading back: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if _, err := kafka.MarkOf(r.Headers); err != nil {
				return
			}
			for _, h := range r.Headers {
				if h.Key == kafka.HeaderCommandID {
					d.arrived(string(h.Value))
				}
			}
		})
	}
}

func (d *direct) arrived(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if done, ok := d.waiting[id]; ok {
		delete(d.waiting, id)
		close(done)
	}
}

// caller is one caller's stream, which it keeps itself.
type caller struct {
	direct    *direct
	aggregate domain.Aggregate
	stream    domain.Stream
	state     any
	version   uint64
	hash      []byte
}

// State implements domain.View.
func (c *caller) State(domain.Stream) any { return c.state }

// Version implements domain.View.
func (c *caller) Version(domain.Stream) uint64 { return c.version }

// ask does what the ring does for a command, alone.
func (c *caller) ask(ctx context.Context, command streams.Command) error {
	d := c.direct
	commit, err := c.decide(ctx, command)
	if err != nil {
		return err
	}
	value, err := codec.EncodeCommit(commit)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	d.mu.Lock()
	d.waiting[command.ID] = done
	d.mu.Unlock()
	failed := make(chan error, 1)
	d.client.Produce(ctx, &kgo.Record{
		Topic: d.topics.Log(), Partition: d.topics.PartitionOf(command.Scope), Key: []byte(command.Scope),
		Value: value, Headers: kafka.CommitHeaders(commit, c.version),
	}, func(_ *kgo.Record, err error) {
		if err != nil {
			failed <- err
		}
	})
	select {
	case <-done:
		return nil
	case err := <-failed:
		return fmt.Errorf("bench: produce: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decide makes the commit of a command and moves the caller's state over it.
func (c *caller) decide(ctx context.Context, command streams.Command) (streams.Commit, error) {
	d := c.direct
	facts, err := c.aggregate.Decide(c, command.Body)
	if err != nil {
		return streams.Commit{}, err
	}
	index, err := d.keys.Index(ctx, command.Scope)
	if err != nil {
		return streams.Commit{}, err
	}
	plain, err := d.schema.Plain(command.Body)
	if err != nil {
		return streams.Commit{}, err
	}
	key, err := d.keys.Current(ctx, command.Scope)
	if err != nil {
		return streams.Commit{}, err
	}
	offset := d.next.Add(1)
	commit := streams.Commit{
		Era: 1, Lead: 1, Writer: "0123456789abcdef0123456789abcdef", CommandOffset: offset, After: streams.CommandPlace{Era: 1, Offset: offset - 1},
		Scope: command.Scope, CommandID: command.ID, Fingerprint: codec.Fingerprint(index, plain),
		DecidedAt: time.Now().UTC().Format(streams.TimeLayout), Actor: codec.EncodeActor(command.Actor), CorrelationID: command.ID,
	}
	for i, fact := range facts {
		r, err := d.schema.Record(key, command.Scope, command.ID, i, fact.Stream, c.version+1, c.version+1, commit.DecidedAt, commit.Actor, c.hash, fact.Event)
		if err != nil {
			return streams.Commit{}, err
		}
		c.state, c.version, c.hash = c.aggregate.Evolve(c.state, fact.Event), r.Version, r.Hash
		commit.Events = append(commit.Events, r)
	}
	return commit, nil
}

// produceOnly appends the commit and waits for the acknowledgement alone.
func (c *caller) produceOnly(ctx context.Context, command streams.Command) error {
	commit, err := c.decide(ctx, command)
	if err != nil {
		return err
	}
	value, err := codec.EncodeCommit(commit)
	if err != nil {
		return err
	}
	return c.direct.client.ProduceSync(ctx, &kgo.Record{
		Topic: c.direct.topics.Log(), Partition: c.direct.topics.PartitionOf(command.Scope), Key: []byte(command.Scope),
		Value: value, Headers: kafka.CommitHeaders(commit, c.version),
	}).FirstErr()
}
