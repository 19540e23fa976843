package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// copying is a Copy under way.
type copying struct {
	*Migration
	out  *kgo.Client
	fail context.CancelCauseFunc // of what is produced: a record that went astray ends the copy
	to   []*copied
	done Migrated

	phase     string // what was told last, and when
	said      time.Time
	read, all int64 // records of the old log
}

// copied is a partition of the new log as it is being written.
type copied struct {
	first streams.Mark // lead(1)
	last  streams.Mark // lead(2), of the new era
	n     int64        // commits, and so the next command_offset
	after streams.CommandPlace
	sum   hash.Hash // over all commits
}

// Copy writes the new log and commands. Closed is what Close answered. Every counted commit of the old log is copied in
// the order of its scope, byte for byte but for its mark, under lead(1) of the old era; the undecided commands follow, and
// what was parked; lead(2) of the new era ends each partition. Then all of it is read back, as every reader will.
func (m *Migration) Copy(ctx context.Context, closed []streams.Checkpoint) (Migrated, error) {
	if len(closed) != int(m.From.Topics.N()) {
		return Migrated{}, fmt.Errorf("migrate: %d partitions were closed, of %d", len(closed), m.From.Topics.N())
	}
	for p, c := range closed {
		if !c.Acceptance.Closed {
			return Migrated{}, fmt.Errorf("migrate: partition %d is not closed", p)
		}
	}
	out, err := m.To.appender(time.Minute)
	if err != nil {
		return Migrated{}, err
	}
	defer out.Close()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c := &copying{Migration: m, out: out, fail: fail}
	if err := c.copy(ctx, closed); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Migrated{}, fmt.Errorf("migrate: %w", err)
	}
	return c.done, nil
}

func (c *copying) copy(ctx context.Context, closed []streams.Checkpoint) error {
	for _, at := range closed {
		c.all += at.Next
	}
	topics := c.To.Topics
	for q := range topics.N() {
		t := &copied{after: streams.NewAcceptance().After, sum: sha256.New()}
		var err1, err2 error
		t.first, err1 = c.mark(streams.SortLead, c.From.Topics.CurrentEra(), 1)
		t.last, err2 = c.mark(streams.SortLead, topics.CurrentEra(), 2)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		c.to = append(c.to, t)
		if err := c.putLead(ctx, q, t.first, 0); err != nil {
			return err
		}
	}
	if err := c.commits(ctx, closed); err != nil {
		return err
	}
	if err := c.undecided(ctx, closed); err != nil {
		return err
	}
	for q, t := range c.to {
		if err := c.putLead(ctx, int32(q), t.last, t.n+1); err != nil {
			return err
		}
	}
	if err := c.out.Flush(ctx); err != nil {
		return fmt.Errorf("append to the new log: %w", err)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return c.verify(ctx)
}

// old is a partition of the old log that is being read.
type old struct {
	number int32
	closed streams.Acceptance
	at     streams.Checkpoint
	watch  *positions
	voided map[int64]bool
}

// commits copies the counted commits: first what lies before Last in every partition, then the rest.
func (c *copying) commits(ctx context.Context, closed []streams.Checkpoint) error {
	olds := make([]*old, len(closed))
	for p, end := range closed {
		o := &old{number: int32(p), closed: end.Acceptance, at: streams.Start()}
		if c.From.Voided != nil {
			var err error
			if o.voided, err = c.From.Voided(ctx, o.number); err != nil {
				return fmt.Errorf("voided records of partition %d: %w", p, err)
			}
		}
		o.watch = newPositions(&c.From, o.at, o.voided)
		olds[p] = o
		upTo := end.Next
		if c.Last != nil {
			upTo = min(upTo, c.Last[p])
		}
		if err := c.part(ctx, o, upTo); err != nil {
			return err
		}
	}
	for _, t := range c.to {
		c.done.Last = append(c.done.Last, t.n+1)
	}
	for p, o := range olds {
		if err := c.part(ctx, o, closed[p].Next); err != nil {
			return err
		}
		if o.at.Acceptance != o.closed {
			return fmt.Errorf("partition %d does not read as it did when it was closed, at %d", p, o.at.Next)
		}
	}
	return nil
}

// part copies the counted commits of a partition up to an offset.
func (c *copying) part(ctx context.Context, o *old, upTo int64) error {
	if o.at.Next >= upTo || o.at.Acceptance.Closed {
		return nil
	}
	in, err := c.From.follow(map[int32]int64{o.number: o.at.Next})
	if err != nil {
		return err
	}
	defer in.Close()
	for o.at.Next < upTo && !o.at.Acceptance.Closed {
		records, err := poll(ctx, in)
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Offset >= upTo {
				break
			}
			next, mark, counts := accept(o.at, r)
			o.at = next
			c.read++
			if !counts || mark.Sort != streams.SortCommit {
				continue
			}
			if err := c.commit(ctx, r, mark, o); err != nil {
				return fmt.Errorf("copy partition %d: %w", o.number, err)
			}
		}
		c.progress("copy", c.read, c.all)
	}
	return nil
}

// commit copies one.
func (c *copying) commit(ctx context.Context, r *kgo.Record, mark streams.Mark, o *old) error {
	commit, void := VoidedCommit(r, mark), o.voided[r.Offset]
	if !void {
		whole, err := decodeCounted(r, mark)
		if err != nil {
			return err
		}
		reason, err := o.watch.check(ctx, whole)
		if err != nil {
			return err
		}
		if reason != "" {
			return &Defect{Partition: r.Partition, Offset: r.Offset, Reason: reason}
		}
		commit = whole
		c.done.Events += int64(len(whole.Events))
	} else {
		o.watch.forget(commit.Scope)
	}
	q := c.partition(commit.Scope, r.Partition)
	t := c.to[q]
	is := streams.Mark{
		Sort: streams.SortCommit, Era: t.first.Era, Lead: t.first.Lead, Writer: t.first.Writer, CommandOffset: t.n, After: t.after,
	}
	value, err := codec.Remark(r.Value, mark, is)
	switch {
	case err == nil && void:
		c.done.Voids = append(c.done.Voids, Moved{
			From: streams.Place{Partition: r.Partition, Offset: r.Offset}, To: streams.Place{Partition: q, Offset: t.n + 1},
		})
	case err != nil && void: // it can't be read at all: without events it needs no void any more
		commit.Era, commit.Lead, commit.Writer, commit.CommandOffset, commit.After = is.Era, is.Lead, is.Writer, is.CommandOffset, is.After
		value, err = codec.EncodeCommit(*commit)
	}
	if err != nil {
		return &Defect{Partition: r.Partition, Offset: r.Offset, Reason: err.Error()}
	}
	headers := make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		if h.Key == HeaderMark {
			h = markHeader(is)
		}
		headers[i] = h
	}
	record := &kgo.Record{Topic: c.To.Topics.Log(), Partition: q, Key: r.Key, Value: value, Headers: headers, Timestamp: r.Timestamp}
	sumUp(t.sum, record)
	t.n++
	t.after = streams.CommandPlace{Era: is.Era, Offset: is.CommandOffset}
	c.done.Commits++
	return c.put(ctx, record, t.n)
}

// partition is where a scope lies in the new log; what has none keeps its number as far as that goes.
func (c *copying) partition(scope domain.Scope, was int32) int32 {
	if scope.Valid() {
		return c.To.Topics.PartitionOf(scope)
	}
	return was % c.To.Topics.N()
}

// put appends a record; it must come to lie at that offset, since nobody else writes there. The fault of one shows later.
func (c *copying) put(ctx context.Context, r *kgo.Record, at int64) error {
	c.out.Produce(ctx, r, func(r *kgo.Record, err error) {
		switch {
		case err != nil:
			c.fail(fmt.Errorf("append to %s: %w", r.Topic, err))
		case at >= 0 && r.Offset != at:
			c.fail(fmt.Errorf("a record of partition %d of %s lies at %d, not at %d: %w", r.Partition, r.Topic, r.Offset, at, ErrNotEmpty))
		}
	})
	return context.Cause(ctx)
}

func (c *copying) putLead(ctx context.Context, q int32, mark streams.Mark, at int64) error {
	record, err := c.leadRecord(c.To.Topics.Log(), q, mark)
	if err != nil {
		return err
	}
	return c.put(ctx, record, at)
}

func (c *copying) progress(phase string, done, total int64) {
	now := time.Now()
	if phase == c.phase && now.Sub(c.said) < 250*time.Millisecond && done < total {
		return
	}
	c.phase, c.said = phase, now
	c.tell(Progress{Phase: phase, Done: done, Total: total})
}

// sumUp adds all that a record carries but its mark's header, which the value has too.
func sumUp(sum hash.Hash, r *kgo.Record) {
	var size [8]byte
	add := func(part []byte) {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		sum.Write(size[:]) //nolint:errcheck,gosec // a hash never fails
		sum.Write(part)    //nolint:errcheck,gosec // a hash never fails
	}
	add(r.Key)
	add(r.Value)
	for _, h := range r.Headers {
		if h.Key != HeaderMark {
			add([]byte(h.Key))
			add(h.Value)
		}
	}
}

// verify reads every partition of the new log from its beginning, by the acceptance rule, and compares it with what
// was to be written: a record that was lost, doubled or changed on the way shows here.
func (c *copying) verify(ctx context.Context) error {
	c.read, c.all = 0, c.done.Commits+2*int64(len(c.to))
	for q, t := range c.to {
		at, err := c.verifyPartition(ctx, int32(q), t)
		if err != nil {
			return fmt.Errorf("partition %d of the new log: %w", q, err)
		}
		c.done.Ends = append(c.done.Ends, at)
	}
	return nil
}

func (c *copying) verifyPartition(ctx context.Context, q int32, t *copied) (streams.Checkpoint, error) {
	at, sum := streams.Start(), sha256.New()
	in, err := c.To.follow(map[int32]int64{q: 0})
	if err != nil {
		return at, err
	}
	defer in.Close()
	var n int64
	for at.Next < t.n+2 {
		records, err := poll(ctx, in)
		if err != nil {
			return at, err
		}
		for _, r := range records {
			next, mark, counts := accept(at, r)
			at = next
			if counts && mark.Sort == streams.SortCommit {
				sumUp(sum, r)
				n++
			}
		}
		c.read += int64(len(records))
		c.progress("verify", c.read, c.all)
	}
	want := streams.Checkpoint{Next: t.n + 2, Acceptance: streams.Acceptance{
		Era: t.last.Era, Lead: t.last.Lead, Writer: t.last.Writer, After: t.after,
	}}
	if at != want || n != t.n || !bytes.Equal(sum.Sum(nil), t.sum.Sum(nil)) {
		return at, fmt.Errorf("it does not read as it was written: %d of %d commits count, up to %d", n, t.n, at.Next)
	}
	return at, nil
}
