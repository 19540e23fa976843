package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/memory"
)

// site is a log and what its writers store.
type site struct {
	t      testing.TB
	config kafka.Config
	states *memory.States
	keys   *memory.Keys
	voids  map[int32]map[int64]bool
}

func newSite(t testing.TB, partitions int32, era int, keys *memory.Keys) *site {
	t.Helper()
	s := &site{t: t, states: memory.NewStates(), keys: keys, voids: map[int32]map[int64]bool{}}
	s.config = kafkatest.Broker(t, kafkatest.Partitions(partitions), func(c *kafka.Config) { c.Topics.Era = era })
	s.config.Voided = func(_ context.Context, p int32) (map[int64]bool, error) { return s.voids[p], nil }
	s.config.Stored = func(ctx context.Context, p int32) (streams.Checkpoint, error) {
		found, err := s.states.Load(ctx, p, streams.Lookup{})
		return found.Checkpoint, err
	}
	return s
}

// writer runs a writer and an asker until stop.
func (s *site) writer() (ask *kafka.Asker, stop func()) {
	s.t.Helper()
	if err := s.config.Ensure(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	w, err := kafka.NewWriter(s.writing())
	if err != nil {
		s.t.Fatal(err)
	}
	ask, err = kafka.NewAsker(kafka.AskerConfig{Config: s.config, Schema: release(s.t, 1, 1), Keys: s.keys, States: s.states})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done []chan struct{}
	for _, part := range []func(context.Context) error{w.Run, ask.Run} {
		ended := make(chan struct{})
		done = append(done, ended)
		go func() {
			defer close(ended)
			if err := part(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.t.Error(err)
			}
		}()
	}
	return ask, func() {
		cancel()
		for _, d := range done {
			<-d
		}
	}
}

func (s *site) writing() kafka.WriterConfig {
	return kafka.WriterConfig{
		Config: s.config, Schema: release(s.t, 1, 1), Keys: s.keys, States: s.states,
		FlushEvery: 50 * time.Millisecond,
	}
}

func (s *site) produce(r *kgo.Record) {
	s.t.Helper()
	if err := client(s.t, s.config.Seeds).ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// read is every record of a partition of the log.
func (s *site) read(topic string, partition int32) []*kgo.Record {
	s.t.Helper()
	tailer, err := kafka.NewTailer(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tailer.Close()
	end, err := tailer.End(s.t.Context(), partition)
	if err != nil {
		s.t.Fatal(err)
	}
	cl := client(s.t, s.config.Seeds, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	var all []*kgo.Record
	for int64(len(all)) < end {
		all = append(all, cl.PollFetches(s.t.Context()).Records()...)
	}
	return all
}

// counted are the commits that count, by scope, each as what a migration must carry: key, headers and body but for the mark.
func (s *site) counted() map[domain.Scope][]string {
	s.t.Helper()
	found := map[domain.Scope][]string{}
	for p := range s.config.Topics.N() {
		a := streams.NewAcceptance()
		for _, r := range s.read(s.config.Topics.Log(), p) {
			m, err := kafka.MarkOf(r.Headers)
			if err != nil {
				continue
			}
			var counts bool
			if a, counts = a.Accept(m); !counts || m.Sort != streams.SortCommit {
				continue
			}
			h, err := kafka.ReadHeaders(r.Headers)
			if err != nil {
				s.t.Fatal(err)
			}
			_, rest, ok := bytes.Cut(r.Value, fmt.Appendf(nil, `"after":[%d,%d]`, m.After.Era, m.After.Offset))
			if !ok {
				s.t.Fatalf("no place in %s", r.Value)
			}
			text := fmt.Sprintf("%s %s", r.Key, rest)
			for _, header := range r.Headers {
				if header.Key != kafka.HeaderMark {
					text += fmt.Sprintf(" %s=%x", header.Key, header.Value)
				}
			}
			if scope := h.Answer.Scope; scope.Valid() && s.config.Topics.PartitionOf(scope) != p {
				s.t.Fatalf("a commit of %s lies in partition %d", scope, p)
			}
			found[h.Answer.Scope] = append(found[h.Answer.Scope], text)
		}
	}
	return found
}

// live fills a log as a busy Cairn does: several leads, rejections, an unreadable command, and what counts for nobody.
func (s *site) live(commands int) {
	s.t.Helper()
	for round := range 2 {
		ask, stop := s.writer()
		for i := range commands {
			scope := domain.User(fmt.Sprint("u", i%7))
			request := fmt.Sprintf("request-%d-%d", round, i)
			c := wish(scope, request, add{Tally: fmt.Sprint("t", i%3), By: i % 5, Note: note{strings.Repeat("secret ", i%60)}})
			if _, err := ask.Ask(s.t.Context(), c); err != nil && code(err) != "nothing" {
				s.t.Fatal(err)
			}
		}
		s.produce(&kgo.Record{Topic: s.config.Topics.Commands(), Value: []byte("not a command")})
		mustAsk(s.t, ask, wish(lastOf(s.config.Topics, 0), fmt.Sprint("behind ", round), add{Tally: "x", By: 1}))
		stop()
		s.produce(&kgo.Record{Topic: s.config.Topics.Log(), Value: []byte("noise")})
		s.produce(&kgo.Record{Topic: s.config.Topics.Parked(), Value: []byte("parked")})
		zombie := streams.Mark{Sort: streams.SortLead, Era: s.config.Topics.CurrentEra(), Lead: 1, Writer: "zombie"}
		s.produce(&kgo.Record{Topic: s.config.Topics.Log(), Headers: kafka.LeadHeaders(zombie), Value: []byte("{}")})
	}
}

// lastOf is a scope of a partition.
func lastOf(topics kafka.Topics, partition int32) domain.Scope {
	for i := 0; ; i++ {
		if scope := domain.User(fmt.Sprint("z", i)); topics.PartitionOf(scope) == partition {
			return scope
		}
	}
}

// migrate moves a log, as the command does: the readers get the checkpoints.
func migrate(from, to *site) (kafka.Migrated, error) {
	ctx := from.t.Context()
	m := &kafka.Migration{From: from.config, To: to.config}
	if err := m.Check(ctx); err != nil {
		return kafka.Migrated{}, err
	}
	closed, err := m.Close(ctx)
	if err != nil {
		return kafka.Migrated{}, err
	}
	for p := range from.config.Topics.N() {
		at, err := kafka.Settle(ctx, from.writing(), p)
		if err != nil {
			return kafka.Migrated{}, err
		}
		if at.Acceptance != closed[p].Acceptance {
			from.t.Fatalf("partition %d: states are stored at %+v, closed at %+v", p, at, closed[p])
		}
	}
	done, err := m.Copy(ctx, closed)
	if err != nil {
		return done, err
	}
	to.states = from.states.Migrated(done.Ends)
	for _, v := range done.Voids {
		if to.voids[v.To.Partition] == nil {
			to.voids[v.To.Partition] = map[int64]bool{}
		}
		to.voids[v.To.Partition][v.To.Offset] = true
	}
	return done, nil
}

func compareScopes(t *testing.T, was, is map[domain.Scope][]string) {
	t.Helper()
	delete(was, "") // commits of unreadable commands have no order among partitions
	delete(is, "")
	if len(was) != len(is) || len(was) < 7 {
		t.Fatalf("%d scopes became %d", len(was), len(is))
	}
	for scope := range was {
		if !slices.Equal(was[scope], is[scope]) {
			t.Errorf("%s: %d commits became %d, or others", scope, len(was[scope]), len(is[scope]))
		}
	}
}

// The new log has every counted commit of the old one, in the order of its scope, byte for byte but for its mark, whatever
// the partitions; every reader can read it, and it goes on: old ids have their old answers, new commands follow.
func TestMigrateIsByteForByte(t *testing.T) {
	for _, shape := range [][2]int32{{1, 1}, {1, 4}, {3, 2}} {
		t.Run(fmt.Sprintf("%d to %d", shape[0], shape[1]), func(t *testing.T) {
			from := newSite(t, shape[0], 1, memory.NewKeys())
			from.live(60)
			was := from.counted()
			to := newSite(t, shape[1], 2, from.keys)
			done, err := migrate(from, to)
			if err != nil {
				t.Fatal(err)
			}
			if done.Commands != 0 || done.Commits < 120 || done.Parked < 2 {
				t.Errorf("migrated %+v", done)
			}
			is := to.counted()
			for q, last := range done.Last {
				if last != done.Ends[q].Next-1 {
					t.Errorf("what comes last in partition %d begins at %d, the end is %d", q, last, done.Ends[q].Next)
				}
			}
			if len(is[""]) != len(was[""]) || len(is[""]) != 2 {
				t.Errorf("%d commits without a scope became %d", len(was[""]), len(is[""]))
			}
			compareScopes(t, was, is)

			ask, stop := to.writer()
			defer stop()
			again := mustAsk(t, ask, wish("user-u1", "request-1-1", add{Tally: "t1", By: 1}))
			if !again.Repeated || again.Position.Era != 1 {
				t.Errorf("an old id was answered %+v", again)
			}
			next := mustAsk(t, ask, wish("user-u1", "new", add{Tally: "t1", By: 1}))
			if next.Repeated || next.Position.Era != 2 || next.Position.Position == 0 {
				t.Errorf("a new command was answered %+v", next)
			}
			after := to.counted()["user-u1"]
			if len(after) != len(was["user-u1"])+1 {
				t.Errorf("%d commits, and %d after one more command", len(was["user-u1"]), len(after))
			}
			checkChains(t, to)
		})
	}
}

// checkChains reads a log as readers do, and checks versions, positions and hashes.
func checkChains(t *testing.T, s *site) {
	t.Helper()
	tailer, err := kafka.NewTailer(s.config)
	if err != nil {
		t.Fatal(err)
	}
	defer tailer.Close()
	errEnd := errors.New("end")
	for p := range s.config.Topics.N() {
		end, err := tailer.End(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		hashes, versions := map[streams.StreamKey][]byte{}, map[streams.StreamKey]uint64{}
		err = tailer.Tail(t.Context(), p, streams.Start(), func(_ context.Context, b streams.Batch) error {
			for _, c := range b.Commits {
				for _, e := range c.Events {
					key := streams.StreamKey{Scope: e.Scope, Stream: e.Stream}
					prev := hashes[key]
					if prev == nil {
						prev = codec.Genesis(e.Stream)
					}
					if e.Version != versions[key]+1 || !bytes.Equal(codec.Chain(prev, e), e.Hash) {
						t.Errorf("%s version %d follows %d, or its hash is another", e.Stream, e.Version, versions[key])
					}
					hashes[key], versions[key] = e.Hash, e.Version
				}
			}
			if b.Next.Next >= end {
				return errEnd
			}
			return nil
		})
		if !errors.Is(err, errEnd) {
			t.Fatal(err)
		}
	}
}
