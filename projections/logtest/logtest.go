// Package logtest is a log in memory with events that tests write, for what reads the log but does not care
// how it got there. It has no leads, no keys and no hashes.
package logtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// Log implements streams.Tailer.
type Log struct {
	// MaxBatch bounds the commits that a tail hands over at once; 0: 100.
	MaxBatch int

	n         int32
	kinds     map[reflect.Type]domain.Kind
	mu        sync.Mutex
	more      chan struct{} // closed when something was appended
	commits   [][]streams.Commit
	versions  map[streams.StreamKey]uint64
	positions map[domain.Scope]uint64
	now       time.Time
}

// New is an empty log of n partitions.
func New(n int32) *Log {
	l := &Log{
		n: n, kinds: map[reflect.Type]domain.Kind{}, more: make(chan struct{}), commits: make([][]streams.Commit, n),
		versions: map[streams.StreamKey]uint64{}, positions: map[domain.Scope]uint64{}, now: time.Now().UTC().Truncate(time.Microsecond),
	}
	for _, a := range aggregates.All() {
		for _, k := range a.Events {
			l.kinds[k.Type()] = k
		}
	}
	return l
}

// Schema is a schema of all aggregates.
func Schema() *codec.Schema {
	s, err := codec.New(aggregates.All()...)
	if err != nil {
		panic(err)
	}
	return s
}

// SetTime is what the next commits are decided at.
func (l *Log) SetTime(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = now.UTC().Truncate(time.Microsecond)
}

// Append appends one commit with those events and answers it.
func (l *Log) Append(scope domain.Scope, facts ...domain.Fact) streams.Commit {
	return l.append(scope, facts, func(*streams.Commit) {})
}

// AppendRaw appends one commit, changed by edit before anybody sees it.
func (l *Log) AppendRaw(scope domain.Scope, edit func(*streams.Commit), facts ...domain.Fact) streams.Commit {
	return l.append(scope, facts, edit)
}

func (l *Log) append(scope domain.Scope, facts []domain.Fact, edit func(*streams.Commit)) streams.Commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	partition := l.PartitionOf(scope)
	offset := int64(len(l.commits[partition]))
	c := streams.Commit{
		Era: 1, Lead: 1, Writer: "writer", CommandOffset: offset, After: streams.CommandPlace{Era: 1, Offset: offset - 1},
		Scope: scope, CommandID: streams.CommandID(scope, fmt.Sprint(partition, offset)), DecidedAt: l.now.Format(streams.TimeLayout),
		Actor: json.RawMessage(`{"kind":"system"}`), Place: streams.Place{Partition: partition, Offset: offset},
	}
	for i, f := range facts {
		c.Events = append(c.Events, l.record(c, i, f))
	}
	edit(&c)
	l.commits[partition] = append(l.commits[partition], c)
	close(l.more)
	l.more = make(chan struct{})
	return c
}

func (l *Log) record(c streams.Commit, i int, f domain.Fact) streams.Recorded {
	kind, ok := l.kinds[reflect.TypeOf(f.Event)]
	if !ok {
		panic(fmt.Sprintf("logtest: %T is no event", f.Event))
	}
	data, err := json.Marshal(f.Event)
	if err != nil {
		panic(err)
	}
	key := streams.StreamKey{Scope: c.Scope, Stream: f.Stream}
	l.versions[key]++
	l.positions[c.Scope]++
	hash := sha256.Sum256(fmt.Append(nil, c.CommandID, i))
	r := streams.Recorded{
		ID: streams.EventID(c.CommandID, i), Scope: c.Scope, Stream: f.Stream, Version: l.versions[key], Position: l.positions[c.Scope],
		Type: kind.Name(), Schema: kind.Schema(), At: c.DecidedAt, Actor: c.Actor, Data: data, Hash: hash[:],
		CommandID: c.CommandID, CorrelationID: c.CommandID, Era: c.Era, Place: c.Place,
	}
	r.Place.Index = i
	if kind.SealedField() >= 0 {
		r.Sealed, r.Key, r.SealDigest = []byte{1, 0, 255}, 1, []byte{2}
	}
	return r
}

// Commits are those of a partition.
func (l *Log) Commits(partition int32) []streams.Commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.commits[partition][:len(l.commits[partition]):len(l.commits[partition])]
}

// PositionOf is where a commit left its scope.
func PositionOf(c streams.Commit) streams.Position {
	p := streams.Position{Scope: c.Scope, Era: c.Era, Partition: c.Place.Partition, Offset: c.Place.Offset}
	if n := len(c.Events); n > 0 {
		p.Position = c.Events[n-1].Position
	}
	return p
}

// Partitions implements streams.Tailer.
func (l *Log) Partitions() int32 { return l.n }

// PartitionOf implements streams.Tailer.
func (l *Log) PartitionOf(scope domain.Scope) int32 {
	sum := sha256.Sum256([]byte(scope))
	return int32(sum[0]) % l.n
}

// Tail implements streams.Tailer.
func (l *Log) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	for {
		b, more := l.next(partition, from)
		if len(b.Commits) > 0 {
			if err := handle(ctx, b); err != nil {
				return err
			}
			from = b.Next
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

func (l *Log) next(partition int32, from streams.Checkpoint) (streams.Batch, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.MaxBatch
	if limit == 0 {
		limit = 100
	}
	commits := l.commits[partition][from.Next:]
	commits = commits[:min(limit, len(commits)):min(limit, len(commits))]
	b := streams.Batch{Partition: partition, From: from, Next: from, Commits: commits}
	if n := len(commits); n > 0 {
		b.Next = checkpointAfter(commits[n-1])
	}
	return b, l.more
}

func checkpointAfter(c streams.Commit) streams.Checkpoint {
	return streams.Checkpoint{Next: c.Place.Offset + 1, Acceptance: streams.Acceptance{
		Era: c.Era, Lead: c.Lead, Writer: c.Writer, After: streams.CommandPlace{Era: c.Era, Offset: c.CommandOffset},
	}}
}

// End implements streams.Tailer.
func (l *Log) End(_ context.Context, partition int32) (int64, error) {
	return int64(len(l.Commits(partition))), nil
}

// Live implements streams.Tailer.
func (l *Log) Live(_ context.Context, partition int32) (streams.Checkpoint, error) {
	commits := l.Commits(partition)
	if len(commits) == 0 {
		return streams.Start(), nil
	}
	return checkpointAfter(commits[len(commits)-1]), nil
}
