package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams/kafka"
)

// fetchBytes is how much is read at once: larger pieces keep an embedded broker from answering others meanwhile.
const fetchBytes = 256 << 10

func dial(c kafka.Config, options ...kgo.Opt) (*kgo.Client, error) {
	all := append([]kgo.Opt{kgo.SeedBrokers(c.Seeds...), kgo.ClientID("cairn-backup")}, c.Options...)
	if c.EachOptions != nil {
		all = append(all, c.EachOptions()...)
	}
	client, err := kgo.NewClient(append(all, options...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return client, nil
}

// span is a range of offsets of a partition.
type span struct{ start, end int64 }

// spans are the first and the next offset of each partition of a topic.
func spans(ctx context.Context, client *kgo.Client, topic string) (map[int32]span, error) {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("beginning of %s: %w", topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("end of %s: %w", topic, err)
	}
	found := map[int32]span{}
	ends.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, o.Partition)
		found[o.Partition] = span{start.Offset, o.Offset}
	})
	return found, nil
}

// Scan reads a partition of a topic from an offset up to another.
func Scan(ctx context.Context, config kafka.Config, topic string, partition int32, from, to int64, each func(*kgo.Record) error) error {
	if from >= to {
		return nil
	}
	client, err := dial(config,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxPartitionBytes(fetchBytes), kgo.FetchMaxBytes(fetchBytes))
	if err != nil {
		return err
	}
	defer client.Close()
	for from < to {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading partition %d of %s: %w", partition, topic, err)
		}
		for _, r := range fetches.Records() {
			if r.Offset >= to {
				return nil
			}
			if err := each(r); err != nil {
				return err
			}
			from = r.Offset + 1
		}
	}
	return nil
}

// isFiller reports whether a record only takes an offset. Nothing that Cairn writes is without headers, and no reader
// takes one for anything; so back-ups leave them out, and a restore puts them where an offset has no record.
func isFiller(r *kgo.Record) bool { return r.Key == nil && r.Value == nil && len(r.Headers) == 0 }

// digest is the checksum of records that does not depend on how they lie in a file.
type digest struct {
	sum  hash.Hash
	room []byte
}

func newDigest() *digest { return &digest{sum: sha256.New()} }

func (d *digest) add(r *kgo.Record) []byte {
	d.room = appendRecord(d.room[:0], r)
	d.sum.Write(d.room)
	return d.room
}

// filler puts records into one partition, each at its own offset.
type filler struct {
	client    *kgo.Client
	topic     string
	partition int32
	next      int64

	mu  sync.Mutex
	err error
}

func openFiller(config kafka.Config, topic string, partition int32) (*filler, error) {
	client, err := dial(config, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression().WithLevel(1)))
	if err != nil {
		return nil, err
	}
	return &filler{client: client, topic: topic, partition: partition}, nil
}

// put appends a record where it was, with records that only take an offset before it where that is needed.
func (f *filler) put(ctx context.Context, r *kgo.Record) error {
	if r.Offset < f.next {
		return fmt.Errorf("offset %d of partition %d of %s comes after %d", r.Offset, f.partition, f.topic, f.next-1)
	}
	if err := f.fillTo(ctx, r.Offset); err != nil {
		return err
	}
	return f.append(ctx, r)
}

// fillTo makes next the offset of the next record.
func (f *filler) fillTo(ctx context.Context, next int64) error {
	for f.next < next {
		if err := f.append(ctx, &kgo.Record{}); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) append(ctx context.Context, r *kgo.Record) error {
	want := f.next
	f.next++
	copied := &kgo.Record{Topic: f.topic, Partition: f.partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
	f.client.Produce(ctx, copied, func(got *kgo.Record, err error) {
		if err == nil && got.Offset != want {
			err = fmt.Errorf("the record lies at offset %d, not %d: somebody else writes there", got.Offset, want)
		}
		f.fail(err)
	})
	return f.failed()
}

func (f *filler) fail(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("writing partition %d of %s: %w", f.partition, f.topic, err)
	}
}

func (f *filler) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close waits until everything is written.
func (f *filler) close(ctx context.Context) error {
	err := f.client.Flush(ctx)
	f.client.Close()
	return errors.Join(err, f.failed())
}

// Pad appends records that no reader takes for anything until a partition's next offset is the one given.
func Pad(ctx context.Context, config kafka.Config, topic string, partition int32, next int64) (padded int64, err error) {
	f, err := openFiller(config, topic, partition)
	if err != nil {
		return 0, err
	}
	found, err := spans(ctx, f.client, topic)
	if err != nil {
		return 0, errors.Join(err, f.close(ctx))
	}
	f.next = found[partition].end
	padded = max(0, next-f.next)
	err = f.fillTo(ctx, next)
	return padded, errors.Join(err, f.close(ctx))
}

// readBack compares a partition with the file that it was filled from.
func readBack(ctx context.Context, config kafka.Config, topic string, r Records) error {
	d := newDigest()
	if err := Scan(ctx, config, topic, r.Partition, r.From, r.Next, func(record *kgo.Record) error {
		if !isFiller(record) {
			d.add(record)
		}
		return nil
	}); err != nil {
		return err
	}
	if !bytes.Equal(d.sum.Sum(nil), r.Digest) {
		return fmt.Errorf("partition %d of %s does not read back as it was written", r.Partition, topic)
	}
	return nil
}

// used names the topics of an installation that have records.
func used(ctx context.Context, client *kgo.Client, prefix string) ([]string, error) {
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the topics: %w", err)
	}
	var names []string
	for _, name := range topics.Names() {
		if !strings.HasPrefix(name, prefix+".") {
			continue
		}
		found, err := spans(ctx, client, name)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if s.end > 0 {
				names = append(names, name)
				break
			}
		}
	}
	return names, nil
}
