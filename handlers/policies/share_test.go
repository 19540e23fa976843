package policies_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/policies"
	"github.com/cairnhq/cairn/projections/logtest"
)

// TestNothingIsLostWhenProcessesJoinAndLeaveUnderLoad: partitions go from one to another with events in hand, and each event
// is handled at least once.
func TestNothingIsLostWhenProcessesJoinAndLeaveUnderLoad(t *testing.T) {
	w := newWorld(t)
	w.log = logtest.New(6)
	w.react = func(policies.Event) error { // so that some are in hand when their partition goes
		<-time.NewTimer(30 * time.Millisecond).C
		return nil
	}
	first := w.run()
	defer first()
	w.ready()
	want := map[string]bool{}
	load := func() {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range 150 {
			name := fmt.Sprint("d", len(want))
			want[name] = true
			w.log.Append(domain.Scope(fmt.Sprint("user-", len(want)%20)), domain.Fact{
				Stream: domain.NewStream("device", name), Event: device.Seen{At: time.Now().UTC().Truncate(time.Second)},
			})
			<-tick.C
		}
	}
	load()
	defer w.run()()
	load()
	defer w.run()()
	load()
	first()
	load()
	w.until("all", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		got := map[string]bool{}
		for _, c := range w.asked {
			got[c.Body.(thread.ResumeRun).DeviceID] = true
		}
		return len(got) == len(want)
	})
	if len(w.parked) > 0 {
		t.Errorf("%d events are parked", len(w.parked))
	}
	t.Logf("%d events, %d asked", len(want), len(w.asked))
}
