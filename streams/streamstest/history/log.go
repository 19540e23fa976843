package history

import (
	"context"
	"fmt"

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

// Read reads all partitions of the log to the end that they have now, uncommitted and uncounted records too.
func Read(ctx context.Context, config kafka.Config) (*Log, error) {
	n, topic := config.Topics.N(), config.Topics.Log()
	all := append([]kgo.Opt{kgo.SeedBrokers(config.Seeds...), kgo.ClientID("cairn-history")}, config.Options...)
	if config.EachOptions != nil {
		all = append(all, config.EachOptions()...)
	}
	client, err := kgo.NewClient(append(all, kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer client.Close()
	l := NewLog(n)
	if err := l.bounds(ctx, kadm.NewClient(client), topic); err != nil {
		return nil, err
	}
	from, next := map[int32]kgo.Offset{}, make([]int64, n)
	for p := range n {
		next[p] = l.Starts[p]
		if l.Starts[p] < l.Ends[p] {
			from[p] = kgo.NewOffset().At(l.Starts[p])
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for !reached(next, l.Ends) {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("history: reading %s: %w, at %v of %v", topic, err, next, l.Ends)
		}
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("history: reading %s: %w", topic, err)
		}
		for _, e := range fetches.Errors() {
			return nil, fmt.Errorf("history: reading partition %d of %s: %w", e.Partition, topic, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			if r.Offset < l.Ends[r.Partition] {
				l.add(r)
			}
		})
	}
	return l, nil
}

func reached(next, ends []int64) bool {
	for p := range ends {
		if next[p] < ends[p] {
			return false
		}
	}
	return true
}

func (l *Log) bounds(ctx context.Context, admin *kadm.Client, topic string) error {
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("history: start of %s: %w", topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("history: end of %s: %w", topic, err)
	}
	for p := range l.Partitions {
		start, ok := starts.Lookup(topic, int32(p))
		end, also := ends.Lookup(topic, int32(p))
		if !ok || !also {
			return fmt.Errorf("history: %s has no partition %d", topic, p)
		}
		l.Starts[p], l.Ends[p] = start.Offset, end.Offset
	}
	return nil
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
