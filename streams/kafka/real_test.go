//go:build kafka

package kafka_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairnhq/cairn/streams/kafka"
)

// Brokers are killed, stopped, paused and started under load, and for a while two of three are gone: what was
// acknowledged stays, nothing is decided twice, and everything goes on by itself.
func TestKafkaBrokersComeAndGo(t *testing.T) {
	const partitions = 6
	s := newTheatre(t, 3, partitions)
	first, _ := s.writer()
	second, _ := s.writer()
	s.leads(partitions, first, second)
	stop := s.crowd(2)
	again := func(n int) error { return s.cluster.StartBroker(t.Context(), n) }
	for _, step := range []struct {
		name    string
		out, in func(int) error
	}{
		{"kill -9 and start", s.cluster.Kill, again},
		{"stop and start", s.cluster.Stop, again},
		{"stand still for a while", s.cluster.Pause, s.cluster.Resume},
	} {
		s.goesOn()
		s.fresh()
		n := s.leaderOf()
		if err := step.out(n); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		s.goesOn()
		if err := step.in(n); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		s.inSync(3)
		s.goesOn()
		t.Logf("%s: longest without an answer, by partition: %v", step.name, s.pauses())
	}
	s.tooFew(again)
	s.leads(partitions, first, second)
	stop()
	s.judge()
}

// tooFew takes two of three brokers away: nothing can be acknowledged then, and nothing is.
func (s *theatre) tooFew(again func(int) error) {
	s.t.Helper()
	s.fresh()
	gone := []int{2, 3}
	for _, n := range gone {
		if err := s.cluster.Kill(n); err != nil {
			s.t.Fatal(err)
		}
	}
	cut := time.Now()
	s.eventually("nothing is answered any more", 30*time.Second, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for p, at := range s.answered {
			if time.Since(at) < 3*time.Second {
				return fmt.Errorf("partition %d answered %s after the brokers were gone", p, at.Sub(cut))
			}
		}
		return nil
	})
	for _, n := range gone {
		if err := again(n); err != nil {
			s.t.Fatal(err)
		}
	}
	s.inSync(3)
	s.goesOn()
	s.t.Logf("two of three gone: longest without an answer, by partition: %v", s.pauses())
}

// A process joins under load, one leaves, and one is lost without a word: partitions are led by one writer at a time,
// those that do not move go on, and nothing is lost or decided twice.
func TestKafkaProcessesJoinAndLeave(t *testing.T) {
	const partitions = 6
	s := newTheatre(t, 1, partitions)
	first, _ := s.writer()
	s.leads(partitions, first)
	stop := s.crowd(2)
	s.goesOn()
	s.fresh()
	second, leave := s.writer()
	s.leads(partitions, first, second)
	s.goesOn()
	t.Logf("a second writer joined: longest without an answer, by partition: %v", s.pauses())
	s.fresh()
	leave()
	s.leads(partitions, first)
	s.goesOn()
	t.Logf("it left: longest without an answer, by partition: %v", s.pauses())
	stop()
	s.judge()
}

// A topic that was just made is served by every broker when Ensure returns, whoever else makes it at the same time.
func TestKafkaTopicsAreServedOnceEnsured(t *testing.T) {
	s := newTheatre(t, 3, 6)
	for round := range 5 {
		config := s.config
		config.Topics.Prefix = fmt.Sprint("round", round)
		ensured := make(chan error)
		for range 4 {
			go func() { ensured <- config.Ensure(t.Context()) }()
		}
		var faults []error
		for range 4 {
			faults = append(faults, <-ensured)
		}
		if err := errors.Join(faults...); err != nil {
			t.Fatal(err)
		}
		for _, seed := range s.cluster.Seeds() {
			one := config
			one.Seeds = []string{seed}
			tailer, err := kafka.NewTailer(one)
			if err != nil {
				t.Fatal(err)
			}
			for p := range tailer.Partitions() {
				if _, err := tailer.End(t.Context(), p); err != nil {
					t.Errorf("round %d, broker %s: %v", round, seed, err)
				}
			}
			tailer.Close()
		}
	}
}
