package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// Log is one reading of the whole log, from its first record to the end that it had when the reading began.
type Log struct {
	// Partitions holds each partition's records, in order of their offsets.
	Partitions [][]Entry
	// Starts and Ends are the offsets of the first record that is kept, and after the last.
	Starts, Ends []int64
	// Counted are what a reader must remember after each partition.
	Counted []streams.Acceptance
	// Commands are those that were there afterwards. Nil: nobody read them, and they are not judged.
	Commands *Commands
}

// NewLog makes a Log of records, which are those of each partition in order.
func NewLog(partitions int32, records ...*kgo.Record) *Log {
	l := &Log{
		Partitions: make([][]Entry, partitions), Starts: make([]int64, partitions), Ends: make([]int64, partitions),
		Counted: make([]streams.Acceptance, partitions),
	}
	for p := range l.Counted {
		l.Counted[p] = streams.Acceptance{After: streams.CommandPlace{Offset: -1}}
	}
	for _, r := range records {
		l.add(r)
	}
	return l
}

func (l *Log) add(r *kgo.Record) {
	e := entry(r)
	if !e.Stray {
		l.Counted[r.Partition], e.Counts = count(l.Counted[r.Partition], e.Mark)
	}
	l.Partitions[r.Partition] = append(l.Partitions[r.Partition], e)
	l.Ends[r.Partition] = max(l.Ends[r.Partition], r.Offset+1)
}

// count is the acceptance rule, said again from DESIGN section 3: the first lead of the next number leads; of its commits
// those count that continue the last one that counted; after a close nothing does.
func count(now streams.Acceptance, m streams.Mark) (streams.Acceptance, bool) {
	claims := m.Sort == streams.SortLead || m.Sort == streams.SortClose
	switch {
	case now.Closed:
		return now, false
	case claims && m.Writer != "" && m.Era >= now.Era && m.Lead == now.Lead+1:
		return streams.Acceptance{Era: m.Era, Lead: m.Lead, Writer: m.Writer, After: now.After, Closed: m.Sort == streams.SortClose}, true
	case m.Sort == streams.SortCommit && now.Lead > 0 && m.Writer == now.Writer && m.Lead == now.Lead && m.Era == now.Era && m.After == now.After:
		now.After.Era, now.After.Offset = m.Era, m.CommandOffset
		return now, true
	}
	return now, false
}

// Read reads all partitions of the log to the end that they have now, uncommitted and uncounted records too, and then the
// commands, so that every command that the log decides is among them unless it was trimmed.
func Read(ctx context.Context, config kafka.Config) (*Log, error) {
	n, topic := config.Topics.N(), config.Topics.Log()
	client, err := dial(config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	l := NewLog(n)
	if l.Starts, l.Ends, err = bounds(ctx, client, topic, n); err != nil {
		return nil, err
	}
	if err := readTopic(ctx, client, topic, l.Starts, l.Ends, l.add); err != nil {
		return nil, err
	}
	if l.Commands, err = readCommands(ctx, client, config.Topics); err != nil {
		return nil, err
	}
	return l, nil
}

// readTopic hands on the records of each partition from a start to an end.
func readTopic(ctx context.Context, client *kgo.Client, topic string, starts, ends []int64, add func(*kgo.Record)) error {
	from, next := map[int32]kgo.Offset{}, slices.Clone(starts)
	for p := range starts {
		if starts[p] < ends[p] {
			from[int32(p)] = kgo.NewOffset().At(starts[p])
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	defer client.PurgeTopicsFromConsuming(topic)
	for !reached(next, ends) {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("history: reading %s: %w, at %v of %v", topic, err, next, ends)
		}
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("history: reading %s: %w", topic, err)
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("history: reading partition %d of %s: %w", e.Partition, topic, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			if r.Offset < ends[r.Partition] {
				add(r)
			}
		})
	}
	return nil
}

func reached(next, ends []int64) bool {
	for p := range ends {
		if next[p] < ends[p] {
			return false
		}
	}
	return true
}

// bounds are the offsets of each partition's first record that is kept, and after its last.
func bounds(ctx context.Context, client *kgo.Client, topic string, n int32) (from, to []int64, err error) {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("history: start of %s: %w", topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("history: end of %s: %w", topic, err)
	}
	for p := range n {
		start, ok := starts.Lookup(topic, p)
		end, also := ends.Lookup(topic, p)
		if !ok || !also {
			return nil, nil, fmt.Errorf("history: %s has no partition %d", topic, p)
		}
		from, to = append(from, start.Offset), append(to, end.Offset)
	}
	return from, to, nil
}

// each hands on the commits that count, partition by partition, until yield says no.
func (l *Log) each(yield func(*Entry) bool) {
	for p := range l.Partitions {
		for i := range l.Partitions[p] {
			if e := &l.Partitions[p][i]; e.Counts && e.Commit != nil && !yield(e) {
				return
			}
		}
	}
}

// At is what a reader must remember that has read a partition up to an offset.
func (l *Log) At(partition int32, next int64) streams.Acceptance {
	now := streams.Acceptance{After: streams.CommandPlace{Offset: -1}}
	for _, e := range l.Partitions[partition] {
		if e.Offset >= next {
			break
		}
		if !e.Stray {
			now, _ = count(now, e.Mark)
		}
	}
	return now
}
