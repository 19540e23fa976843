package kafka_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams/kafka"
)

// TestACommandIsParkedWhoeverDies: a writer rejects a command that can't be decided, the answer is out, and it dies
// before it could park the command. The next one parks it. One that was parked just before its writer died, whose states
// were not stored yet, is not parked twice.
func TestACommandIsParkedWhoeverDies(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		shut := s.shutParked()
		topic := s.config.Topics.Parked()
		client := adminOf(s)
		defer client.Close()
		admin := kadm.NewClient(client)
		scope := domain.Scope("user-a")
		fail := func(request string) {
			s.t.Helper()
			if _, err := ask.Ask(context.Background(), wish(scope, request, add{Tally: "x", By: 1, Do: "panic"})); code(err) != domain.CodeInternal {
				s.t.Fatalf("%s: %v", request, err)
			}
		}
		parked := func() (items, records int64) {
			s.t.Helper()
			found, err := s.config.ReadParked(context.Background())
			if err != nil {
				s.t.Fatal(err)
			}
			ends, err := admin.ListEndOffsets(context.Background(), topic)
			if err != nil {
				s.t.Fatal(err)
			}
			end, _ := ends.Lookup(topic, 0)
			return int64(len(found)), end.Offset
		}
		fail("first")
		mustAsk(s.t, ask, wish(scope, "behind it", add{Tally: "x", By: 1}))
		<-time.After(5 * time.Second) // states would be stored by now
		h.kill()
		shut.Store(false)
		next := s.start(nil)
		leading(next)
		mustAsk(s.t, ask, wish(scope, "after it", add{Tally: "x", By: 1}))
		if items, _ := parked(); items != 1 {
			s.t.Fatalf("%d commands are parked after the writer died, not 1", items)
		}
		<-time.After(3 * time.Second) // stored

		next.storeAway(true)
		fail("second")
		for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
			if items, _ := parked(); items == 2 {
				tick.Stop()
				break
			}
		}
		next.kill()
		leading(s.start(nil))
		mustAsk(s.t, ask, wish(scope, "last", add{Tally: "x", By: 1}))
		if items, records := parked(); items != 2 || records != 2 {
			s.t.Fatalf("%d commands are parked in %d records, not 2 in 2", items, records)
		}
		s.check()
	})
}

// shutParked lets nothing into the parked topic until it is told to.
func (s *stage) shutParked() *atomic.Bool {
	s.t.Helper()
	client := adminOf(s)
	defer client.Close()
	topic := s.config.Topics.Parked()
	listed, err := kadm.NewClient(client).ListTopics(context.Background(), topic)
	if err != nil {
		s.t.Fatal(err)
	}
	id := [16]byte(listed[topic].ID)
	shut := &atomic.Bool{}
	shut.Store(true)
	s.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		for _, to := range req.(*kmsg.ProduceRequest).Topics {
			if shut.Load() && (to.Topic == topic || to.TopicID == id) {
				return nil, errors.New("the parked topic is shut"), true
			}
		}
		return nil, nil, false
	})
	return shut
}

func adminOf(s *stage) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.config.Seeds...)}, s.config.Options...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}
