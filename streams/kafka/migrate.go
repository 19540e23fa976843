package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Migration copies the log of From into the topics of To, which are new and of the next era (DESIGN section 3, "Eras"):
// to another broker, or to more partitions. Close comes first: nothing counts in the old log afterwards. Then everything
// that reads the old log is brought to its end, Copy fills the new one, and the readers get the checkpoints it answers.
// A migration that is interrupted is begun again, with topics that are empty.
type Migration struct {
	From, To Config
	Now      func() time.Time
	Rand     io.Reader // of writer ids; nil: crypto/rand
	// Last are offsets in the old log, by partition: what lies from there on comes last in each new partition, behind all
	// that lies before. So a reader that had got to there goes on at one place (Migrated.Last). Nil: the ends.
	Last []int64
	// Progress is told how far a phase is, a few times a second at most in all. Nil: nobody.
	Progress func(Progress)
}

// Progress is how far a long work is.
type Progress struct {
	Phase       string
	Done, Total int64
}

// Migrated is what Copy did.
type Migrated struct {
	// Ends are where readers go on, by partition of the new log: behind its lead of the new era.
	Ends []streams.Checkpoint
	// Last are where what Migration.Last names begins, by partition of the new log.
	Last     []int64
	Commits  int64
	Events   int64
	Commands int64 // undecided ones
	Parked   int64
	// Voids are where the voided records of the old log lie in the new one.
	Voids []Moved
}

// Moved is a record's old and new place. Index is always 0.
type Moved struct{ From, To streams.Place }

// ErrNotEmpty is the answer when the topics to copy to hold something, such as what an interrupted migration left.
var ErrNotEmpty = errors.New("the topics to copy to are not empty")

// migrationWriter is what the writer ids of migrations begin with, and no other's.
const migrationWriter = "migration-"

// Check makes or checks the new topics and answers ErrNotEmpty unless they are empty.
func (m *Migration) Check(ctx context.Context) error {
	if from, to := m.From.Topics.CurrentEra(), m.To.Topics.CurrentEra(); to != from+1 {
		return fmt.Errorf("migrate: the new topics are of era %d, which must be %d, the one after the old", to, from+1)
	}
	to := m.To
	to.Stored = nil
	if err := to.Ensure(ctx); err != nil {
		return fmt.Errorf("migrate: the new topics: %w", err)
	}
	client, err := to.client()
	if err != nil {
		return err
	}
	defer client.Close()
	topics := to.Topics
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topics.Log(), topics.Commands(), topics.Parked())
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("migrate: ends of the new topics: %w", err)
	}
	var held error
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 && held == nil {
			held = fmt.Errorf("migrate: partition %d of %s has %d records: %w", o.Partition, o.Topic, o.Offset, ErrNotEmpty)
		}
	})
	return held
}

// Close appends a close to every partition of the old log, unless it has one, and answers where each was closed: readers
// of the old log are level with it when their acceptance state is the same.
func (m *Migration) Close(ctx context.Context) ([]streams.Checkpoint, error) {
	out, err := m.From.appender(10 * time.Second)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	closed := make([]streams.Checkpoint, m.From.Topics.N())
	for p := range m.From.Topics.N() {
		if closed[p], err = m.closePartition(ctx, out, p); err != nil {
			return nil, fmt.Errorf("migrate: close partition %d: %w", p, err)
		}
		m.tell(Progress{Phase: "close", Done: int64(p) + 1, Total: int64(len(closed))})
	}
	return closed, nil
}

// closeTries is how often a close is appended: each time that another lead came first, or that nobody knows.
const closeTries = 20

func (m *Migration) closePartition(ctx context.Context, out *kgo.Client, p int32) (streams.Checkpoint, error) {
	at, err := m.From.stored(ctx, p)
	if err != nil {
		return at, err
	}
	in, err := m.From.follow(map[int32]int64{p: at.Next})
	if err != nil {
		return at, err
	}
	defer in.Close()
	var failed error
	for range closeTries {
		end, err := endOf(ctx, out, m.From.Topics.Log(), p)
		if err != nil {
			return at, err
		}
		if at.Next > end {
			return at, fmt.Errorf("the log ends at %d, and was read to %d: it lost its end", end, at.Next)
		}
		for at.Next < end {
			records, err := poll(ctx, in)
			if err != nil {
				return at, err
			}
			for _, r := range records {
				if !at.Acceptance.Closed { // what comes after it is nothing
					at, _, _ = accept(at, r)
				}
			}
			if at.Acceptance.Closed {
				break
			}
		}
		a, era := at.Acceptance, m.From.Topics.CurrentEra()
		switch {
		case a.Lead > 0 && a.Era != era:
			return at, fmt.Errorf("the log is in era %d, and the topics in era %d", a.Era, era)
		case a.Closed:
			return at, nil
		}
		mark, err := m.mark(streams.SortClose, era, a.Lead+1)
		if err != nil {
			return at, err
		}
		failed = m.appendLead(ctx, out, m.From.Topics.Log(), p, mark)
		if ctx.Err() != nil {
			return at, ctx.Err()
		}
	}
	return at, fmt.Errorf("it does not count after %d tries: %w", closeTries, cmp.Or(failed, errOtherLeads))
}

// mark is that of a lead or a close, under an id that is used for nothing else.
func (m *Migration) mark(sort streams.Sort, era int, lead int64) (streams.Mark, error) {
	var raw [16]byte
	source := m.Rand
	if source == nil {
		source = rand.Reader
	}
	if _, err := io.ReadFull(source, raw[:]); err != nil {
		return streams.Mark{}, fmt.Errorf("drawing a writer id: %w", err)
	}
	return streams.Mark{Sort: sort, Era: era, Lead: lead, Writer: migrationWriter + hex.EncodeToString(raw[:])}, nil
}

// leadRecord is the record of a lead's or a close's mark.
func (m *Migration) leadRecord(topic string, p int32, mark streams.Mark) (*kgo.Record, error) {
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	value, err := codec.EncodeLead(codec.Lead{
		Kind: string(mark.Sort), Era: mark.Era, Lead: mark.Lead, Writer: mark.Writer, At: now().UTC().Format(streams.TimeLayout),
	})
	return &kgo.Record{Topic: topic, Partition: p, Headers: LeadHeaders(mark), Value: value}, err
}

func (m *Migration) appendLead(ctx context.Context, out *kgo.Client, topic string, p int32, mark streams.Mark) error {
	record, err := m.leadRecord(topic, p, mark)
	if err != nil {
		return err
	}
	return out.ProduceSync(ctx, record).FirstErr()
}

func (m *Migration) tell(p Progress) {
	if m.Progress != nil {
		m.Progress(p)
	}
}

// appender is a client that appends to the log in large batches, each record within so long.
func (c Config) appender(within time.Duration) (*kgo.Client, error) {
	return c.client(
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression().WithLevel(1)),
		kgo.MaxBufferedRecords(20_000), kgo.MaxBufferedBytes(64<<20), kgo.RecordDeliveryTimeout(within),
	)
}

// endOf is the offset behind a partition's last record.
func endOf(ctx context.Context, client *kgo.Client, topic string, partition int32) (int64, error) {
	ends, err := offsetsAtEnd(ctx, client, topic)
	if err != nil {
		return 0, err
	}
	end, ok := ends[partition]
	if !ok {
		return 0, fmt.Errorf("%s has no partition %d", topic, partition)
	}
	return end, nil
}

// CheckEra refuses a reader's checkpoint that does not belong to these topics: one of a later era, which is that of the
// topics the log was migrated to, or one of an earlier era that no migration into these topics made.
func (t Topics) CheckEra(reader string, partition int32, stored streams.Checkpoint) error {
	a, era := stored.Acceptance, t.CurrentEra()
	switch {
	case a.Era > era:
		return fmt.Errorf("%s is in era %d, and the topics %s in era %d: %w", reader, a.Era, t.Log(), era, ErrMigrated)
	case a.Lead > 0 && a.Era < era && (a.Closed || !strings.HasPrefix(a.Writer, migrationWriter)):
		return fmt.Errorf("%s is in era %d at partition %d, and the topics %s in era %d: %w", reader, a.Era, partition, t.Log(), era, ErrNotMigrated)
	default:
		return nil
	}
}

// The two ways in which a log and what read it can be of different eras.
var (
	ErrMigrated    = errors.New("the log was migrated, and goes on elsewhere")
	ErrNotMigrated = errors.New("the migration into these topics was not finished")
)
