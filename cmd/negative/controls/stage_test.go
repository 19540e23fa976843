package controls_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
	"github.com/cairnhq/cairn/streams/streamstest/history"
)

// stage is a broker in virtual time, with what its writers share.
type stage struct {
	testing.TB
	cluster *kfake.Cluster
	config  kafka.Config
	states  *memory.States
	keys    *memory.Keys
	rec     *history.Recorder
	hand    *kgo.Client // writes and reads by hand
}

// on runs a test in virtual time.
func on(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		network := &kfake.VirtualNetwork{}
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		s := &stage{TB: t, cluster: cluster, states: memory.NewStates(), keys: memory.NewKeys(), rec: history.New()}
		s.config = kafka.Config{
			Seeds: cluster.ListenAddrs(), Options: []kgo.Opt{kgo.Dialer(network.DialContext)},
			// The client's zstd decoders end in finalizers, which are outside of virtual time.
			EachOptions: func() []kgo.Opt { return []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())} },
		}
		if err := s.config.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.hand = s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		defer s.hand.Close()
		test(s)
	})
}

func (s *stage) client(options ...kgo.Opt) *kgo.Client {
	s.Helper()
	cl, err := kgo.NewClient(append(append(options, kgo.SeedBrokers(s.config.Seeds...)), append(s.config.Options, s.config.EachOptions()...)...)...)
	if err != nil {
		s.Fatal(err)
	}
	return cl
}

// writer runs a writer until stop is called.
func (s *stage) writer(change func(*kafka.WriterConfig)) (w *kafka.Writer, stop func()) {
	s.Helper()
	c := kafka.WriterConfig{Config: s.config, Schema: release(s, 1), Keys: s.keys, States: s.states}
	change(&c)
	w, err := kafka.NewWriter(c)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return w, func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("writer: %v", err)
		}
	}
}

func asItIs(*kafka.WriterConfig) {}

// send appends a command as it lies on the topic when nobody looked its id up.
func (s *stage) send(c codec.Envelope) {
	s.Helper()
	value, err := release(s, 1).EncodeCommand(s.Context(), s.keys, c)
	if err != nil {
		s.Fatal(err)
	}
	s.produce(s.config.Topics.Commands(), c.Scope, kafka.CommandHeaders(c.Scope, c.ID), value)
}

func (s *stage) produce(topic string, key domain.Scope, headers []kgo.RecordHeader, value []byte) {
	s.Helper()
	r := &kgo.Record{Topic: topic, Key: []byte(key), Headers: headers, Value: value}
	if err := s.hand.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// elapse lets virtual time pass, and with it everything that waits for it.
func elapse(d time.Duration) { <-time.After(d) }

// heard records as answers to clients what stands on the replies.
func (s *stage) heard() {
	s.Helper()
	cl := s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.config.Topics.Replies(): {0: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		for _, r := range cl.PollFetches(ctx).Records() {
			h, err := kafka.ReadHeaders(r.Headers)
			if err != nil {
				s.Fatal(err)
			}
			a := h.Answer
			op := s.rec.Invoke("who asked", history.Request{Scope: a.Scope, CommandID: a.CommandID})
			op.Ended(streams.Answer{
				Position: streams.Position{Scope: a.Scope, Position: a.Position, Era: a.Era, Partition: a.Partition, Offset: a.Offset},
				Heads:    a.Heads, Repeated: true,
			}, rejection(a.Rejected))
		}
	}
}

func rejection(r *domain.Rejection) error {
	if r == nil {
		return nil
	}
	return r
}

// judge lets the checker look at the log, at the commands and at what was heard.
func (s *stage) judge() history.Verdict {
	s.Helper()
	return s.verdict(s.read(), s.read())
}

func (s *stage) read() *history.Log {
	s.Helper()
	log, err := history.Read(s.Context(), s.config)
	if err != nil {
		s.Fatal(err)
	}
	return log
}

func (s *stage) verdict(logs ...*history.Log) history.Verdict {
	s.Helper()
	verdict := history.Check(history.Evidence{
		History: s.rec, Logs: logs, Invoked: func(*streams.Commit) bool { return false },
	})
	if err := verdict.Err(); err != nil {
		s.Fatalf("the checker finds:\n%v", err)
	}
	return verdict
}
