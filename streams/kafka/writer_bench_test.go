package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// realTime is a broker on the loopback, a writer and an asker.
type realTime struct {
	config kafka.Config
	states *memory.States
	keys   *memory.Keys
	schema *codec.Schema
	writer *kafka.Writer
	ask    *kafka.Asker
}

func newRealTime(t testing.TB, embedded kafka.EmbeddedConfig, change func(*kafka.WriterConfig)) *realTime {
	t.Helper()
	broker, err := kafka.StartEmbedded(embedded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &realTime{
		config: kafka.Config{Seeds: broker.Seeds(), LiveSeeds: broker.LiveSeeds()},
		states: memory.NewStates(), keys: memory.NewKeys(), schema: release(t, 1, 1),
	}
	if err := s.config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := kafka.WriterConfig{Config: s.config, Schema: s.schema, Keys: s.keys, States: s.states}
	if change != nil {
		change(&config)
	}
	if s.writer, err = kafka.NewWriter(config); err != nil {
		t.Fatal(err)
	}
	s.ask, err = kafka.NewAsker(kafka.AskerConfig{Config: s.config, Schema: s.schema, Keys: s.keys, States: s.states})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.writer.Run(ctx) })
	running.Go(func() { _ = s.ask.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	if err := s.ask.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if all := s.writer.Stats(); len(all) > 0 && all[0].Phase == kafka.Leading {
			tick.Stop()
			return s
		}
	}
}

var body = add{Tally: "x", By: 1, Note: note{"Create a task called Buy milk, high priority, due tomorrow"}}

// BenchmarkAsk is a whole question and its answer, one scope and stream for each asker.
func BenchmarkAsk(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, askers := range []int{1, 16, 64, 1024} {
			b.Run(fmt.Sprintf("sync=%v/askers=%d", sync, askers), func(b *testing.B) {
				s := newRealTime(b, kafka.EmbeddedConfig{Dir: b.TempDir(), Sync: sync}, nil)
				report(b, askers, func(asker, i int) error {
					scope := domain.Scope(fmt.Sprint("user-", asker))
					_, err := s.ask.Ask(context.Background(), wish(scope, fmt.Sprint(i), body))
					return err
				})
			})
		}
	}
}

// report runs do by so many at once and says how many a second, and how long.
func report(b *testing.B, askers int, do func(asker, i int) error) {
	for a := range askers { // warm
		if err := do(a, -1-a); err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	took := make([][]time.Duration, askers)
	var all sync.WaitGroup
	b.ResetTimer()
	began := time.Now()
	for a := range askers {
		all.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				at := time.Now()
				if err := do(a, i); err != nil {
					b.Error(err)
					return
				}
				took[a] = append(took[a], time.Since(at))
			}
		})
	}
	all.Wait()
	whole := time.Since(began)
	flat := slices.Concat(took...)
	slices.Sort(flat)
	b.ReportMetric(float64(b.N)/whole.Seconds(), "asks/s")
	b.ReportMetric(float64(flat[len(flat)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(flat[len(flat)*99/100].Microseconds()), "p99-us")
}

// BenchmarkDirect is what a caller could do alone: decide, seal, encode, produce the same commit, read it back.
func BenchmarkDirect(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, askers := range []int{1, 64, 1024} {
			b.Run(fmt.Sprintf("sync=%v/askers=%d", sync, askers), func(b *testing.B) { direct(b, sync, askers) })
		}
	}
}

func direct(b *testing.B, sync bool, askers int) {
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: b.TempDir(), Sync: sync})
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	config := kafka.Config{Seeds: broker.Seeds()}
	if err := config.Ensure(b.Context()); err != nil {
		b.Fatal(err)
	}
	schema, keys := release(b, 1, 1), memory.NewKeys()
	out := client(b, broker.Seeds(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	in := client(b, broker.Seeds(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{config.Topics.Log(): {0: kgo.NewOffset().At(0)}}))
	waiting := newWaiting()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			in.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if h, err := kafka.ReadHeaders(r.Headers); err == nil {
					waiting.tell(h.Answer.CommandID)
				}
			})
		}
	}()
	aggregate, _ := schema.Aggregate("tally")
	states := make([]any, askers)
	hashes := make([][]byte, askers)
	versions := make([]uint64, askers)
	report(b, askers, func(asker, i int) error {
		scope := domain.Scope(fmt.Sprint("user-", asker))
		w := wish(scope, fmt.Sprint(i), body)
		if states[asker] == nil {
			states[asker] = aggregate.Zero()
		}
		facts, err := aggregate.Decide(lone{states[asker]}, body)
		if err != nil {
			return err
		}
		key, err := keys.Current(ctx, scope)
		if err != nil {
			return err
		}
		at := time.Now().UTC().Format(streams.TimeLayout)
		c := streams.Commit{Era: 1, Lead: 1, Writer: "direct", Scope: scope, CommandID: w.ID, DecidedAt: at, Actor: json.RawMessage(`{}`), CommandOffset: int64(i)}
		for n, f := range facts {
			versions[asker]++
			r, err := schema.Record(key, scope, w.ID, n, f.Stream, versions[asker], versions[asker], at, c.Actor, hashes[asker], f.Event)
			if err != nil {
				return err
			}
			event, err := schema.Decode(r)
			if err != nil {
				return err
			}
			states[asker], hashes[asker] = aggregate.Evolve(states[asker], event), r.Hash
			c.Events = append(c.Events, r)
		}
		value, err := codec.EncodeCommit(c)
		if err != nil {
			return err
		}
		done := waiting.on(w.ID)
		out.Produce(ctx, &kgo.Record{Topic: config.Topics.Log(), Key: []byte(scope), Headers: kafka.CommitHeaders(c, versions[asker]), Value: value}, nil)
		<-done
		return nil
	})
}

// lone is a view of one stream.
type lone struct{ state any }

func (l lone) State(domain.Stream) any      { return l.state }
func (l lone) Version(domain.Stream) uint64 { return 0 }

// waiting is who waits for which command.
type waiting struct {
	mu  sync.Mutex
	ids map[string]chan struct{}
}

func newWaiting() *waiting { return &waiting{ids: map[string]chan struct{}{}} }

func (w *waiting) on(id string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := make(chan struct{})
	w.ids[id] = done
	return done
}

func (w *waiting) tell(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done, ok := w.ids[id]; ok {
		close(done)
		delete(w.ids, id)
	}
}
