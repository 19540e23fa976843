package kafka

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain/safety"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// errOtherLeads ends a lead, or an attempt at one, because another writer's lead counted.
var errOtherLeads = errors.New("another writer leads")

// errAnew ends a lead because what is stored is not what this writer stored last: everything it knows is dropped.
var errAnew = errors.New("states were stored by another, or set back")

// lead tries to lead a partition, again and again, until ctx ends.
func (w *Writer) lead(ctx context.Context, s *status) {
	pause := 100 * time.Millisecond
	var other *streams.Acceptance // whom to give way to, as long as they append
	for {
		began := time.Now()
		t := &term{writer: w, config: &w.config, status: s, partition: s.partition, other: other}
		err := t.run(ctx)
		if ctx.Err() != nil {
			return
		}
		s.resetWaits()
		w.metrics.lost.Inc()
		s.change(func(p *PartitionStats) { p.Phase, p.Ended = Paused, err.Error() })
		other = nil
		if errors.Is(err, errOtherLeads) {
			s.log.Warn("lead given up", "reason", err)
			seen := t.accepted()
			other = &seen
			pause = w.config.SessionTimeout + rand.N(w.config.SessionTimeout) //nolint:gosec // no secret
		} else {
			s.log.Error("lead ended", "reason", err)
			if time.Since(began) > 30*time.Second {
				pause = 100 * time.Millisecond
			}
			pause = min(2*pause, 5*time.Second)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if other != nil {
			pause = 100 * time.Millisecond
		}
	}
}

// term is one attempt to lead a partition, under an id of its own, and the lead that may come of it. Whatever
// is in doubt ends it; nothing that it knows outlives it.
type term struct {
	writer    *Writer
	config    *WriterConfig
	status    *status
	partition int32
	other     *streams.Acceptance

	id   string // drawn at random for this attempt
	lead int64
	log  *kgo.Client // reads the log
	out  *kgo.Client // appends to it

	book *book

	pending   []*inFlight // decided, not read back
	deciding  map[streams.CommandKey]*inFlight
	after     streams.CommandPlace
	batches   int // of pending
	parking   chan *kgo.Record
	unparked  atomic.Int64  // commands rejected and not parked yet; states are not stored before they are
	allParked chan struct{} // unparked came to zero
	owed      []*kgo.Record // commits read whose commands an earlier writer may not have parked
}

// accepted is what the term read last.
func (t *term) accepted() streams.Acceptance {
	if t.book == nil {
		return streams.NewAcceptance()
	}
	return t.book.at.Acceptance
}

// run answers why it ended; nil only when ctx ended.
func (t *term) run(ctx context.Context) error {
	var raw [16]byte
	if _, err := io.ReadFull(t.config.Rand, raw[:]); err != nil {
		return fmt.Errorf("drawing a writer id: %w", err)
	}
	t.id = hex.EncodeToString(raw[:])
	if err := t.open(ctx); err != nil {
		return err
	}
	defer t.close()
	if err := t.replay(ctx); err != nil {
		return err
	}
	if err := t.claim(ctx); err != nil {
		return err
	}
	if err := t.parkOwed(ctx); err != nil {
		return err
	}
	return t.serve(ctx)
}

// open loads the stored checkpoint and prepares to read the log from there.
func (t *term) open(ctx context.Context) error {
	t.status.change(func(p *PartitionStats) { p.Phase = Replaying })
	snapshot, err := t.load(ctx, streams.Lookup{})
	if err != nil {
		return err
	}
	if err := t.config.Topics.CheckEra("what is stored", t.partition, snapshot.Checkpoint); err != nil {
		return err
	}
	voided := map[int64]bool{}
	if t.config.Voided != nil {
		if voided, err = t.config.Voided(ctx, t.partition); err != nil {
			return fmt.Errorf("voided records: %w", err)
		}
	}
	if t.book, err = newBook(t.config, t.partition, snapshot.Checkpoint, voided); err != nil {
		return err
	}
	topics := t.config.Topics
	at := kgo.NewOffset().At(snapshot.Checkpoint.Next)
	t.log, err = t.config.client(
		quiet(t.config.Log),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topics.Log(): {t.partition: at}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxPartitionBytes(4<<20),
	)
	if err != nil {
		return err
	}
	t.out, err = t.config.client(
		quiet(t.config.Log),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ManualFlushing(), // a batch of commits leaves in one request
		kgo.ProducerBatchMaxBytes(4<<20),
		kgo.ProducerBatchCompression(kgo.ZstdCompression().WithLevel(1)), // the fastest
		kgo.RecordDeliveryTimeout(t.config.ReadBackWithin),
	)
	if err != nil {
		t.log.Close()
	}
	return err
}

func (t *term) close() {
	t.log.Close()
	t.out.Close()
}

// ends answers the end of the log.
func (t *term) end(ctx context.Context) (int64, error) {
	ends, err := endOffsets(ctx, t.out, t.config.Topics.Log(), t.partition)
	return ends[t.partition], err
}

// replay reads from the stored checkpoint to the end of the log.
func (t *term) replay(ctx context.Context) error {
	began := time.Now()
	from := t.book.at.Next
	end, err := t.end(ctx)
	if err != nil {
		return err
	}
	if end < from {
		return fmt.Errorf("the log ends at %d, and was read to %d: it lost its end", end, from)
	}
	for t.book.at.Next < end {
		if err := t.readOn(ctx, nil); err != nil {
			return err
		}
		if t.book.ids.unflushed() >= t.config.MaxUnflushed/4 {
			if err := t.parkOwed(ctx); err != nil {
				return err
			}
			if err := t.store(ctx); err != nil {
				return err
			}
		}
	}
	took := time.Since(began)
	t.status.change(func(p *PartitionStats) { p.Replayed, p.ReplayTook = t.book.at.Next-from, took })
	t.status.log.Info("replayed the log", "records", t.book.at.Next-from, "from", from, "took", took)
	return nil
}

// readOn reads what comes next in the log, at least one record, and folds it. It hands leads that count to led.
func (t *term) readOn(ctx context.Context, led func(streams.Mark)) error {
	fetches := t.log.PollFetches(ctx)
	if err := fetchError(ctx, fetches); err != nil {
		return err
	}
	return t.fold(ctx, fetches.Records(), led)
}

func fetchError(ctx context.Context, fetches kgo.Fetches) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, e := range fetches.Errors() {
		return fmt.Errorf("reading partition %d of %s: %w", e.Partition, e.Topic, e.Err)
	}
	return nil
}

// claim appends a lead and reads on until it meets it. The first lead of its number in the log wins.
func (t *term) claim(ctx context.Context) error {
	a := t.book.at.Acceptance
	era := t.config.Topics.CurrentEra()
	switch {
	case a.Closed && !safety.Off(safety.Close):
		return fmt.Errorf("the partition was closed in era %d: its log was migrated", a.Era)
	case a.Lead == 0 && era != 1:
		return fmt.Errorf("the log is empty, and era %d begins with a migration", era)
	case a.Lead > 0 && a.Era != era:
		return fmt.Errorf("the log is in era %d, and the topics in era %d", a.Era, era)
	case t.other != nil && (t.other.Lead != a.Lead || t.other.Writer != a.Writer || t.other.After != a.After):
		return fmt.Errorf("%w: number %d, and it appends", errOtherLeads, a.Lead)
	}
	t.status.change(func(p *PartitionStats) { p.Phase = Claiming })
	mark := streams.Mark{Sort: streams.SortLead, Era: era, Lead: a.Lead + 1, Writer: t.id}
	value, err := codec.EncodeLead(codec.Lead{
		Kind: codec.KindLead, Era: era, Lead: mark.Lead, Writer: t.id, At: t.config.Now().UTC().Format(streams.TimeLayout),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.config.ReadBackWithin, errors.New("the lead was not read back in time"))
	defer cancel()
	record := &kgo.Record{Topic: t.config.Topics.Log(), Partition: t.partition, Headers: LeadHeaders(mark), Value: value}
	if err := t.append(ctx, []*kgo.Record{record}); err != nil {
		return fmt.Errorf("claiming lead %d: %w", mark.Lead, err)
	}
	for t.lead == 0 {
		var taken error
		err := t.readOn(ctx, func(m streams.Mark) {
			switch {
			case m == mark:
				t.lead = m.Lead
			case m.Lead > mark.Lead || m.Lead == mark.Lead && !safety.Off(safety.FirstLead):
				taken = fmt.Errorf("%w: number %d was taken", errOtherLeads, m.Lead)
			}
		})
		if err := errors.Join(err, taken); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
	t.status.change(func(p *PartitionStats) {
		p.Phase, p.Lead = Leading, t.lead
		p.Leads++
	})
	t.writer.metrics.leads.Inc()
	t.status.log.Info("leads", "lead", t.lead, "writer", t.id)
	return nil
}

// append produces records in one request and answers the first failure. An unknown outcome is one.
func (t *term) append(ctx context.Context, records []*kgo.Record) error {
	failed := make(chan error, len(records))
	for _, r := range records {
		t.out.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed <- err
			}
		})
	}
	if err := t.out.Flush(ctx); err != nil {
		return fmt.Errorf("append to the log: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("append to the log: %w", err)
	default:
		return nil
	}
}
