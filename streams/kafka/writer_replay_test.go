package kafka_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// fill writes a log of n events as a writer would have, and as many commands.
func fill(t testing.TB, config kafka.Config, schema *codec.Schema, keys *memory.Keys, n, perCommit int, stream func(i int) streams.StreamKey) {
	t.Helper()
	out := client(t, config.Seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(4<<20),
		kgo.ProducerBatchCompression(kgo.ZstdCompression().WithLevel(1)), kgo.MaxBufferedRecords(100_000))
	put := func(headers []kgo.RecordHeader, value []byte) {
		out.Produce(context.Background(), &kgo.Record{Topic: config.Topics.Log(), Headers: headers, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	lead := streams.Mark{Sort: streams.SortLead, Era: 1, Lead: 1, Writer: "past"}
	value, err := codec.EncodeLead(codec.Lead{Kind: codec.KindLead, Era: 1, Lead: 1, Writer: "past"})
	if err != nil {
		t.Fatal(err)
	}
	put(kafka.LeadHeaders(lead), value)
	actor := codec.EncodeActor(domain.Actor{Kind: domain.ActorUser, ID: "u"})
	type head struct {
		version, position uint64
		hash              []byte
	}
	heads := map[streams.StreamKey]*head{}
	after := streams.CommandPlace{Era: 0, Offset: -1}
	at := time.Now().UTC().Format(streams.TimeLayout)
	for i := 0; i < n; i += perCommit {
		key := stream(i)
		h := heads[key]
		if h == nil {
			h = &head{}
			heads[key] = h
		}
		sealing, err := keys.Current(context.Background(), key.Scope)
		if err != nil {
			t.Fatal(err)
		}
		c := streams.Commit{
			Era: 1, Lead: 1, Writer: "past", CommandOffset: int64(i), After: after, Scope: key.Scope,
			CommandID: streams.CommandID(key.Scope, strconv.Itoa(i)), DecidedAt: at, Actor: actor,
		}
		for e := range perCommit {
			h.version++
			h.position++
			r, err := schema.Record(sealing, key.Scope, c.CommandID, e, key.Stream, h.version, h.position, at, actor, h.hash, added{By: 1, Note: note{"buy milk"}})
			if err != nil {
				t.Fatal(err)
			}
			h.hash = r.Hash
			c.Events = append(c.Events, r)
		}
		after = streams.CommandPlace{Era: 1, Offset: int64(i)}
		if value, err = codec.EncodeCommit(c); err != nil {
			t.Fatal(err)
		}
		put(kafka.CommitHeaders(c, h.position), value)
	}
	// Its last command is the last one of the commands topic.
	for i := 0; i < n; i += perCommit {
		for range min(perCommit, n-i) {
			out.Produce(context.Background(), &kgo.Record{Topic: config.Topics.Commands(), Value: []byte("past")}, nil)
		}
	}
	if err := out.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkReplay is a writer's start on a log of which nothing is stored; CAIRN_EVENTS says how long.
func BenchmarkReplay(b *testing.B) {
	n := 100_000
	if v, err := strconv.Atoi(os.Getenv("CAIRN_EVENTS")); err == nil {
		n = v
	}
	for range b.N {
		b.StopTimer()
		broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{})
		if err != nil {
			b.Fatal(err)
		}
		config := kafka.Config{Seeds: broker.Seeds(), LiveSeeds: broker.LiveSeeds()}
		if err := config.Ensure(b.Context()); err != nil {
			b.Fatal(err)
		}
		schema, keys := release(b, 1, 1), memory.NewKeys()
		fill(b, config, schema, keys, n, 1, func(i int) streams.StreamKey {
			return streams.StreamKey{Scope: domain.Scope(fmt.Sprint("user-", i%1000)), Stream: "tally-x"}
		})
		w, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: keys, States: memory.NewStates()})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		b.StartTimer()
		go func() { defer close(done); _ = w.Run(ctx) }()
		stats := untilLeading(w)
		b.StopTimer()
		if stats.Replayed < int64(n) {
			b.Fatalf("replayed %d records", stats.Replayed)
		}
		b.ReportMetric(float64(stats.Replayed)/stats.ReplayTook.Seconds(), "events/s")
		stop()
		<-done
		if err := broker.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func untilLeading(w *kafka.Writer) kafka.PartitionStats {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if all := w.Stats(); len(all) > 0 && all[0].Phase == kafka.Leading {
			return all[0]
		}
	}
	return kafka.PartitionStats{}
}
