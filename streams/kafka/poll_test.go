package kafka_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A broker that answers some fetches with an error it can't explain, and an election of the replies' leader, end no asker:
// it goes on, and answers.
func TestABrokerInTroubleEndsNoAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStageOf(t, 2, 1)
		defer s.close()
		leading(s.start(nil))
		ask, stop := s.asker() // fails the test where its Run ends by itself
		defer stop()
		again := wish("user-a", "first", add{Tally: "x", By: 1})
		mustAsk(t, ask, again)
		mustAsk(t, ask, again) // a reply
		s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: 20})
		elapse(10 * time.Second)
		for node := range int32(2) {
			if err := s.cluster.MoveTopicPartition(s.config.Topics.Replies(), 0, node); err != nil {
				t.Fatal(err)
			}
			elapse(5 * time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, w := range []string{"first", "second"} {
			if _, err := ask.Ask(ctx, wish("user-a", w, add{Tally: "x", By: 1})); err != nil {
				t.Fatalf("%s: %v", w, err)
			}
		}
	})
}
