//go:build kafka

package kafka_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// Brokers are killed, stopped, paused and started under load, and for a while two of three are gone: what was
// acknowledged stays, nothing is decided twice, and everything goes on by itself. One of these by turns, drawn by
// CAIRN_SEED; CAIRN_BROKER_FAULTS=all goes through all of them.
func TestKafkaBrokersComeAndGo(t *testing.T) {
	const partitions = 6
	seed, err := strconv.ParseUint(os.Getenv("CAIRN_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("CAIRN_SEED=%d", seed)
	s := newTheatre(t, partitions)
	again := func(n int) error { return s.cluster.StartBroker(t.Context(), n) }
	steps := []func(){
		func() { s.without("kill -9 and start", s.cluster.Kill, again) },
		func() { s.without("stop and start", s.cluster.Stop, again) },
		func() { s.without("stand still for a while", s.cluster.Pause, s.cluster.Resume) },
		func() { s.tooFew(again) },
	}
	if os.Getenv("CAIRN_BROKER_FAULTS") != "all" {
		n := seed % uint64(len(steps))
		steps = steps[n : n+1]
	}
	first, _ := s.writer()
	second, _ := s.writer()
	s.leads(partitions, first, second)
	stop := s.crowd(2)
	for _, step := range steps {
		s.goesOn()
		step()
	}
	s.leads(partitions, first, second)
	stop()
	s.judge()
}

// without takes the broker away that leads partition 0 of the log, and brings it back.
func (s *theatre) without(step string, out, in func(int) error) {
	s.t.Helper()
	s.fresh()
	n := s.leaderOf()
	if err := out(n); err != nil {
		s.t.Fatalf("%s: %v", step, err)
	}
	s.goesOn()
	if err := in(n); err != nil {
		s.t.Fatalf("%s: %v", step, err)
	}
	s.inSync(3)
	s.goesOn()
	s.t.Logf("%s: longest without an answer, by partition: %v", step, s.pauses())
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
func TestProcessesJoinAndLeaveUnderLoad(t *testing.T) {
	const partitions = 6
	s := newTheatreOn(t, kafkatest.Broker(t, kafkatest.Partitions(partitions)))
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
func TestTopicsAreServedOnceEnsured(t *testing.T) {
	for round := range 3 {
		config := kafkatest.Broker(t, kafkatest.Partitions(6))
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
		for _, seed := range config.Seeds {
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
