package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
)

// truth is the whole log as every reader must understand it.
type truth struct {
	commits []streams.Commit
	answers map[string]streams.AnswerRow
	tallies map[streams.StreamKey]int
	leads   int
}

// check reads the log to its end and fails on whatever no history may show.
func (s *stage) check() truth {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := truth{answers: map[string]streams.AnswerRow{}, tallies: map[streams.StreamKey]int{}}
	for p := range s.config.Topics.N() {
		s.checkPartition(ctx, p, &all)
	}
	return all
}

func (s *stage) checkPartition(ctx context.Context, partition int32, all *truth) {
	t := s.t
	t.Helper()
	tailer, err := kafka.NewTailer(s.config)
	if err != nil {
		t.Fatal(err)
	}
	defer tailer.Close()
	end, err := tailer.End(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	positions := map[domain.Scope]uint64{}
	times := map[domain.Scope]string{}
	versions := map[streams.StreamKey]uint64{}
	hashes := map[streams.StreamKey][]byte{}
	reader, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.config.Seeds...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.config.Topics.Log(): {partition: kgo.NewOffset().At(0)}}),
	}, s.config.Options...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a := streams.NewAcceptance()
	for next := int64(0); next < end; {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("reading the log: %v, at %d of %d", err, next, end)
		}
		for _, r := range fetches.Records() {
			next = r.Offset + 1
			h, err := kafka.ReadHeaders(r.Headers)
			if err != nil {
				t.Fatal(err)
			}
			var counts bool
			if a, counts = a.Accept(h.Mark); !counts {
				continue
			}
			if h.Mark.Sort != streams.SortCommit {
				all.leads++
				continue
			}
			c, err := codec.DecodeCommit(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			codec.Locate(&c, partition, r.Offset)
			if c.Mark() != h.Mark {
				t.Fatalf("headers say %+v, the commit %+v", h.Mark, c.Mark())
			}
			if c.CommandID != "" {
				if _, twice := all.answers[c.CommandID]; twice {
					t.Fatalf("command %s was decided twice", c.CommandID)
				}
				all.answers[c.CommandID] = h.Answer
			}
			if c.DecidedAt < times[c.Scope] {
				t.Fatalf("decided_at of %s runs backwards: %s after %s", c.Scope, c.DecidedAt, times[c.Scope])
			}
			times[c.Scope] = c.DecidedAt
			for _, e := range c.Events {
				key := streams.StreamKey{Scope: c.Scope, Stream: e.Stream}
				if positions[c.Scope]++; e.Position != positions[c.Scope] {
					t.Fatalf("position %d of %s where %d is the next", e.Position, c.Scope, positions[c.Scope])
				}
				if versions[key]++; e.Version != versions[key] {
					t.Fatalf("version %d of %s where %d is the next", e.Version, e.Stream, versions[key])
				}
				prev := hashes[key]
				if prev == nil {
					prev = codec.Genesis(e.Stream)
				}
				if !bytes.Equal(codec.Chain(prev, e), e.Hash) {
					t.Fatalf("the chain of %s breaks at version %d", e.Stream, e.Version)
				}
				hashes[key] = e.Hash
				if e.Type == "tally.added" {
					var body added
					if err := json.Unmarshal(e.Data, &body); err != nil {
						t.Fatal(err)
					}
					all.tallies[key] += body.By
				}
			}
			all.commits = append(all.commits, c)
		}
	}
	s.checkStates(ctx, partition, all, versions, hashes, positions)
}

// checkStates compares what is stored with the fold of the log; it may be behind, but never beside it.
func (s *stage) checkStates(ctx context.Context, partition int32, all *truth, versions map[streams.StreamKey]uint64, hashes map[streams.StreamKey][]byte, positions map[domain.Scope]uint64) {
	var what streams.Lookup
	for key := range versions {
		what.Streams = append(what.Streams, key)
	}
	for scope := range positions {
		what.Scopes = append(what.Scopes, scope)
	}
	stored, err := s.states.Load(ctx, partition, what)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, row := range stored.States {
		key := streams.StreamKey{Scope: row.Scope, Stream: row.Stream}
		if row.Version > versions[key] {
			s.t.Fatalf("stored version %d of %s, the log has %d", row.Version, row.Stream, versions[key])
		}
		if row.Version == versions[key] && !bytes.Equal(row.Hash, hashes[key]) {
			s.t.Fatalf("stored hash of %s is not the log's", row.Stream)
		}
		if strings.HasPrefix(string(row.Stream), "tally-") && row.Version == versions[key] {
			var state tally
			if err := json.Unmarshal(row.State, &state); err != nil || state.n != all.tallies[key] || uint64(state.count) != row.Version {
				s.t.Fatalf("stored state of %s is %s, the log adds up to %d", row.Stream, row.State, all.tallies[key])
			}
		}
	}
	for _, row := range stored.Scopes {
		if row.Position > positions[row.Scope] {
			s.t.Fatalf("stored position %d of %s, the log has %d", row.Position, row.Scope, positions[row.Scope])
		}
	}
}

// storeAll stores the fold of the log as another writer would that reads it just now.
func (s *stage) storeAll() {
	s.t.Helper()
	tailer, err := kafka.NewTailer(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tailer.Close()
	ctx := context.Background()
	next, err := tailer.Live(ctx, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	now, err := s.states.Load(ctx, 0, streams.Lookup{})
	if err != nil {
		s.t.Fatal(err)
	}
	f := streams.Flush{Expected: now.Checkpoint, Next: next}
	all := s.check()
	for _, c := range all.commits {
		f.Answers = append(f.Answers, all.answers[c.CommandID])
		for _, e := range c.Events {
			state, _ := json.Marshal(tally{all.tallies[streams.StreamKey{Scope: c.Scope, Stream: e.Stream}], int(e.Version)})
			f.States = append(f.States, streams.StateRow{Scope: c.Scope, Stream: e.Stream, Version: e.Version, Hash: e.Hash, Fold: 1, State: state})
			f.Scopes = append(f.Scopes, streams.ScopeRow{Scope: c.Scope, Position: e.Position, DecidedAt: c.DecidedAt})
		}
	}
	if err := s.states.Store(ctx, f); err != nil {
		s.t.Fatal(err)
	}
}
