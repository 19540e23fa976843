//go:build kafka

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/memory"
	judge "github.com/cairnhq/cairn/streams/streamstest/history"
)

// theatre is topics on real Kafka for one test, with writers, an asker and people who ask without pause.
type theatre struct {
	t       *testing.T
	cluster *kafkatest.Cluster // nil: it is shared
	config  kafka.Config
	states  *memory.States
	keys    *memory.Keys
	ask     *kafka.Asker
	history *judge.Recorder

	mu       sync.Mutex
	answered []time.Time // by partition: the last answer
	longest  []time.Duration
}

// newTheatre starts three brokers of its own, which may be hurt.
func newTheatre(t *testing.T, partitions int32) *theatre {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	// A dead broker is noticed sooner than a deployment would: the test is not about that figure.
	quick := map[string]string{"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
	c, err := kafkatest.Start(ctx, kafkatest.Config{Dir: t.TempDir(), Brokers: 3, Properties: quick})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	s := newTheatreOn(t, kafka.Config{Seeds: c.Seeds(), Topics: kafka.Topics{Partitions: partitions, Replication: 3}})
	s.cluster = c
	return s
}

// newTheatreOn is a theatre on brokers that others use, too.
func newTheatreOn(t *testing.T, config kafka.Config) *theatre {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := &theatre{
		t: t, config: config, states: memory.NewStates(), keys: memory.NewKeys(), history: judge.New(),
		answered: make([]time.Time, config.Topics.N()), longest: make([]time.Duration, config.Topics.N()),
	}
	if os.Getenv("CAIRN_TEST_LOG") != "" {
		s.config.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if err := s.config.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.ask, err = kafka.NewAsker(kafka.AskerConfig{Config: s.config, Schema: release(t, 1, 1), Keys: s.keys, States: s.states}); err != nil {
		t.Fatal(err)
	}
	run(t, s.ask.Run)
	if err := s.ask.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// writer starts one more writer.
func (s *theatre) writer() (w *kafka.Writer, stop func()) {
	s.t.Helper()
	w, err := kafka.NewWriter(kafka.WriterConfig{Config: s.config, Schema: release(s.t, 1, 1), Keys: s.keys, States: s.states})
	if err != nil {
		s.t.Fatal(err)
	}
	return w, run(s.t, func(ctx context.Context) error { return errors.Join(w.Run(ctx), ctx.Err()) })
}

// leads waits until the writers lead so many partitions together, each at least one.
func (s *theatre) leads(n int, writers ...*kafka.Writer) {
	s.t.Helper()
	s.eventually("the partitions are led", time.Minute, func() error {
		sum := 0
		for i, w := range writers {
			mine := 0
			for _, p := range w.Stats() {
				if p.Phase == kafka.Leading {
					mine++
				}
			}
			if mine == 0 {
				return fmt.Errorf("writer %d leads none", i)
			}
			sum += mine
		}
		if sum != n {
			return fmt.Errorf("%d are led", sum)
		}
		return nil
	})
}

func (s *theatre) eventually(what string, within time.Duration, f func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("it did not come true in %s: %s: %v", within, what, err)
		case <-tick.C:
		}
	}
}

// crowd asks until it is told to stop: so many people in each partition, each one command after the other, who repeat
// what they got no answer to, as clients do. Each ends with an answer to all that it asked.
func (s *theatre) crowd(each int) (stop func()) {
	asking, end := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	have := make([]int, s.config.Topics.N())
	for i := 0; slices.Min(have) < each; i++ {
		scope := domain.Scope(fmt.Sprint("user-", i))
		p := s.config.Topics.PartitionOf(scope)
		if have[p] < each {
			have[p]++
			all.Go(func() { s.person(asking, scope, p) })
		}
	}
	s.fresh()
	return func() { end(); all.Wait() }
}

func (s *theatre) person(asking context.Context, scope domain.Scope, partition int32) {
	ask := s.history.Asker(string(scope), s.ask)
	for n := 0; asking.Err() == nil; n++ {
		c := wish(scope, fmt.Sprint(n), add{Tally: "x", By: 1})
		for {
			ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
			_, err := ask.Ask(ctx, c)
			cancel()
			if err == nil {
				s.heard(partition)
				break
			}
			var busy *streams.Busy
			if !errors.Is(err, streams.ErrOutcomeUnknown) && !errors.As(err, &busy) && !errors.Is(err, context.DeadlineExceeded) {
				s.t.Errorf("%s, command %d: %v", scope, n, err)
				return
			}
		}
	}
}

func (s *theatre) heard(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.longest[partition] = max(s.longest[partition], now.Sub(s.answered[partition]))
	s.answered[partition] = now
}

// fresh begins to measure anew.
func (s *theatre) fresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.answered {
		s.answered[p], s.longest[p] = time.Now(), 0
	}
}

// pauses are the longest times without an answer since fresh, by partition.
func (s *theatre) pauses() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.longest)
	for p := range all {
		all[p] = max(all[p], time.Since(s.answered[p])).Round(time.Millisecond)
	}
	return all
}

// goesOn waits until every partition has answered something that was asked from now on.
func (s *theatre) goesOn() {
	s.t.Helper()
	since := time.Now()
	s.eventually("every partition answers", 90*time.Second, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for p, at := range s.answered {
			if at.Before(since) {
				return fmt.Errorf("partition %d has not answered for %s", p, time.Since(at))
			}
		}
		return nil
	})
}

// inSync waits until each partition of the log has so many replicas in sync.
func (s *theatre) inSync(n int) {
	s.t.Helper()
	cl := client(s.t, s.config.Seeds)
	defer cl.Close()
	s.eventually("replicas are in sync", 90*time.Second, func() error {
		topics, err := kadm.NewClient(cl).ListTopics(s.t.Context(), s.config.Topics.Log(), s.config.Topics.Commands())
		if err != nil {
			return err
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if len(p.ISR) < n {
					return fmt.Errorf("partition %d of %s has %v", p.Partition, p.Topic, p.ISR)
				}
			}
		}
		return nil
	})
}

// leaderOf is the broker that leads partition 0 of the log.
func (s *theatre) leaderOf() int {
	s.t.Helper()
	cl := client(s.t, s.config.Seeds)
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(s.t.Context(), s.config.Topics.Log())
	if err != nil {
		s.t.Fatal(err)
	}
	return int(topics[s.config.Topics.Log()].Partitions[0].Leader)
}

// judge reads the log twice and fails on whatever no history may show.
func (s *theatre) judge() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	e := judge.Evidence{History: s.history, Rest: judge.AtRest}
	for range 2 {
		log, err := judge.Read(ctx, s.config)
		if err != nil {
			s.t.Fatal(err)
		}
		e.Logs = append(e.Logs, log)
	}
	v := judge.Check(e)
	s.t.Logf("%+v, %d commits, %d leads, %d uncounted, %d lost, %d repeated", v.Ops, v.Commits, v.Leads, v.Uncounted, v.Lost, v.Repeated)
	if err := v.Err(); err != nil {
		s.t.Error(err)
	}
}
