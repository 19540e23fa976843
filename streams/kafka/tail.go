package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/safety"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// fetchBytes is how much of a partition is fetched at once: a larger piece keeps the embedded broker, which
// serves everybody from one goroutine, from answering askers meanwhile.
const fetchBytes = 256 << 10

// Defect is a counted commit that no correct writer wrote. The reader stops; an operator looks.
type Defect struct {
	Partition int32
	Offset    int64
	Reason    string
}

// Error names the record.
func (d *Defect) Error() string {
	return fmt.Sprintf("the commit at offset %d of log partition %d is not what a writer may write: %s; `cairn log void %d %d --reason …` lets everybody step over it",
		d.Offset, d.Partition, d.Reason, d.Partition, d.Offset)
}

// Tailer implements streams.Tailer. Each Tail has a client of its own.
type Tailer struct {
	config Config
	client *kgo.Client

	mu    sync.Mutex
	known map[int32]streams.Checkpoint // the newest seen of each partition
	// defects are those that a tail of this process has met. One that begins again right before it may know too little of
	// the scope's positions to see it a second time (see Config.Around), and must not go past it either.
	defects map[streams.Place]*Defect
}

// NewTailer makes a Tailer; it connects when it is first used.
func NewTailer(config Config) (*Tailer, error) {
	client, err := config.client()
	if err != nil {
		return nil, err
	}
	return &Tailer{config: config, client: client, known: map[int32]streams.Checkpoint{}, defects: map[streams.Place]*Defect{}}, nil
}

// Close ends End and Live. Tails end with their contexts.
func (t *Tailer) Close() { t.client.Close() }

// Partitions implements streams.Tailer.
func (t *Tailer) Partitions() int32 { return t.config.Topics.N() }

// PartitionOf implements streams.Tailer.
func (t *Tailer) PartitionOf(scope domain.Scope) int32 { return t.config.Topics.PartitionOf(scope) }

// End implements streams.Tailer.
func (t *Tailer) End(ctx context.Context, partition int32) (int64, error) {
	ends, err := endOffsets(ctx, t.client, t.config.Topics.Log(), partition)
	return ends[partition], err
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// Live implements streams.Tailer: it reads on, marks only, from the newest checkpoint that it knows of.
func (t *Tailer) Live(ctx context.Context, partition int32) (streams.Checkpoint, error) {
	end, err := t.End(ctx, partition)
	if err != nil {
		return streams.Checkpoint{}, err
	}
	at, ok := t.newest(partition)
	if !ok {
		if at, err = t.config.stored(ctx, partition); err != nil {
			return streams.Checkpoint{}, err
		}
	}
	if at.Next >= end {
		return at, nil
	}
	client, err := t.config.follow(map[int32]int64{partition: at.Next})
	if err != nil {
		return streams.Checkpoint{}, err
	}
	defer client.Close()
	for at.Next < end {
		records, err := poll(ctx, client)
		if err != nil {
			return streams.Checkpoint{}, err
		}
		for _, r := range records {
			at, _, _ = accept(at, r)
		}
	}
	t.remember(partition, at)
	return at, nil
}

// Tail implements streams.Tailer. Beside ctx's error and handle's it answers a *Defect, and faults of the log itself,
// such as a checkpoint that the log does not reach.
func (t *Tailer) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	var voided map[int64]bool
	if t.config.Voided != nil {
		var err error
		if voided, err = t.config.Voided(ctx, partition); err != nil {
			return fmt.Errorf("voided records of partition %d: %w", partition, err)
		}
	}
	client, err := t.config.follow(map[int32]int64{partition: from.Next})
	if err != nil {
		return err
	}
	defer client.Close()
	watch := newPositions(&t.config, from, voided)
	for {
		records, err := poll(ctx, client)
		if err != nil {
			return err
		}
		b := streams.Batch{Partition: partition, From: from, Next: from}
		var defect *Defect
		for _, r := range records {
			next, mark, counts := accept(b.Next, r)
			if counts && mark.Sort == streams.SortCommit {
				var commit *streams.Commit
				if voided[r.Offset] {
					commit = VoidedCommit(r, mark)
					watch.forget(commit.Scope)
				} else if commit, err = t.sound(ctx, watch, r, mark); errors.As(err, &defect) {
					break
				} else if err != nil {
					return err
				}
				b.Commits = append(b.Commits, *commit)
			}
			b.Next = next
		}
		if defect == nil || b.Next != from { // what precedes a defect is as good as ever
			if err := handle(ctx, b); err != nil {
				return err
			}
			from = b.Next
			t.remember(partition, from)
		}
		if defect != nil {
			return defect
		}
	}
}

// sound is the commit of a counted record, or what is wrong with it, a *Defect.
func (t *Tailer) sound(ctx context.Context, watch *positions, r *kgo.Record, mark streams.Mark) (*streams.Commit, error) {
	place := streams.Place{Partition: r.Partition, Offset: r.Offset}
	t.mu.Lock()
	known := t.defects[place]
	t.mu.Unlock()
	if known != nil {
		return nil, known
	}
	commit, err := decodeCounted(r, mark)
	if err == nil && !safety.Off(safety.Positions) {
		var reason string
		if reason, err = watch.check(ctx, commit); reason != "" {
			err = &Defect{Partition: r.Partition, Offset: r.Offset, Reason: reason}
		}
	}
	var defect *Defect
	if errors.As(err, &defect) {
		t.mu.Lock()
		t.defects[place] = defect
		t.mu.Unlock()
	}
	return commit, err
}

func (t *Tailer) newest(partition int32) (streams.Checkpoint, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.known[partition]
	return c, ok
}

func (t *Tailer) remember(partition int32, c streams.Checkpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Next > t.known[partition].Next {
		t.known[partition] = c
	}
}

// follow is a client that reads partitions of the log from offsets on.
func (c Config) follow(from map[int32]int64) (*kgo.Client, error) {
	offsets := make(map[int32]kgo.Offset, len(from))
	for p, next := range from {
		offsets[p] = kgo.NewOffset().At(next)
	}
	return c.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topics.Log(): offsets}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxPartitionBytes(fetchBytes),
		kgo.FetchMaxBytes(fetchBytes*max(1, int32(len(from)))),
	)
}

// poll waits for records. Its error is ctx's, or one that waiting does not mend.
func poll(ctx context.Context, client *kgo.Client) ([]*kgo.Record, error) {
	return pollPast(ctx, client, passes)
}

// pollEphemeral is poll for topics whose records may be lost with a broker, and are missed by nobody for long.
func pollEphemeral(ctx context.Context, client *kgo.Client) ([]*kgo.Record, error) {
	return pollPast(ctx, client, func(err error) bool {
		var loss *kgo.ErrDataLoss
		return passes(err) || errors.As(err, &loss)
	})
}

// passes reports an error of a broker in trouble, such as with its disk: the client asks again by itself.
func passes(err error) bool { return errors.Is(err, kerr.UnknownServerError) }

func pollPast(ctx context.Context, client *kgo.Client, mends func(error) bool) ([]*kgo.Record, error) {
	fetches := client.PollFetches(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var err error
	mended := false
	fetches.EachError(func(topic string, partition int32, e error) {
		if mends(e) {
			mended = true
			return
		}
		err = errors.Join(err, fmt.Errorf("reading partition %d of %s: %w", partition, topic, e))
	})
	if err != nil {
		return nil, err
	}
	records := fetches.Records()
	if mended && len(records) == 0 {
		timer := time.NewTimer(100 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
	return records, nil
}

// accept moves a checkpoint over a record and answers its mark and whether it counts. A record without a mark was
// written by no writer; it moves the place and nothing else.
func accept(c streams.Checkpoint, r *kgo.Record) (streams.Checkpoint, streams.Mark, bool) {
	c.Next = r.Offset + 1
	mark, err := MarkOf(r.Headers)
	if err != nil {
		return c, mark, false
	}
	var counts bool
	c.Acceptance, counts = c.Acceptance.Accept(mark)
	return c, mark, counts
}

// decodeCounted is the commit of a counted record. A body that says something else than the headers by which it was
// counted is a defect.
func decodeCounted(r *kgo.Record, mark streams.Mark) (*streams.Commit, error) {
	commit, err := codec.DecodeCommit(r.Value)
	if err != nil {
		return nil, &Defect{Partition: r.Partition, Offset: r.Offset, Reason: err.Error()}
	}
	if commit.Mark() != mark {
		return nil, &Defect{Partition: r.Partition, Offset: r.Offset, Reason: "body and headers disagree"}
	}
	codec.Locate(&commit, r.Partition, r.Offset)
	commit.Trace = traceOf(r.Headers)
	for i := range commit.Events {
		commit.Events[i].Trace = commit.Trace
	}
	return &commit, nil
}

// VoidedCommit is a counted record without events, as one that was voided counts, for every reader: its body may be anything.
func VoidedCommit(r *kgo.Record, mark streams.Mark) *streams.Commit {
	commit := &streams.Commit{
		Era: mark.Era, Lead: mark.Lead, Writer: mark.Writer, CommandOffset: mark.CommandOffset, After: mark.After,
		Place: streams.Place{Partition: r.Partition, Offset: r.Offset},
	}
	if h, err := ReadHeaders(r.Headers); err == nil {
		commit.Scope, commit.CommandID, commit.Fingerprint = h.Answer.Scope, h.Answer.CommandID, h.Answer.Fingerprint
		commit.DecidedAt = h.Answer.DecidedAt
	}
	return commit
}
