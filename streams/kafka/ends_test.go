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

// A log that is being elected is not taken for an empty one: who asks how much was appended waits, and is told an error
// where it lasts. Only a log that nobody made is empty without its word.
func TestALogThatDoesNotSayItsEndIsNotEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStageOf(t, 2, 2)
		defer s.close()
		appended := func() (int64, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return s.config.Appended(ctx)
		}
		other := s.config
		other.Topics.Prefix = "nobody"
		if n, err := other.Appended(t.Context()); n != 0 || err != nil {
			t.Errorf("no log: %d, %v", n, err)
		}
		leading(s.start(nil))
		n, err := appended()
		if n != 2 || err != nil { // the two leads
			t.Fatalf("a log: %d, %v", n, err)
		}
		s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.LeaderNotAvailable, Count: 20})
		if again, err := appended(); again != n || err != nil {
			t.Errorf("after an election: %d, %v", again, err)
		}
		s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.LeaderNotAvailable, Count: -1})
		if again, err := appended(); err == nil {
			t.Errorf("no leader: %d, without an error", again)
		}
	})
}
