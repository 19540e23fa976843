package policies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/policies"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/places"
	"github.com/cairnhq/cairn/streams"
)

const user = domain.Scope("user-a")

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// world is a log, a policy on it that a test decides for, and what came of it.
type world struct {
	t      *testing.T
	log    *logtest.Log
	places *places.Places
	begins map[string]int64
	tries  int
	within time.Duration

	mu     sync.Mutex
	react  func(policies.Event) error // nil: it does
	slow   string                     // of this device's events no try ends by itself
	slowed int                        // tries of those
	later  map[string]bool            // commands that were decided as not to be written yet; nil: all can be
	asked  []streams.Command
	faults []error // of the next asks, which are not sent

	finalized bool // see later
	parked    []*message.Message
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, log: logtest.New(2), places: places.New(pgtest.Read(t), 1, nil), begins: map[string]int64{}, tries: 3}
}

// PolicyBegin implements policies.Begins.
func (w *world) PolicyBegin(_ context.Context, policy string, era int, partition int32, next int64) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprint(policy, era, partition)
	if _, ok := w.begins[key]; !ok {
		w.begins[key] = next
	}
	return w.begins[key], nil
}

// Ask implements streams.Asker.
func (w *world) Ask(ctx context.Context, c streams.Command) (streams.Answer, error) {
	if ctx.Err() != nil {
		return streams.Answer{}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) > 0 {
		err := w.faults[0]
		w.faults = w.faults[1:]
		return streams.Answer{}, err
	}
	repeated, not := w.later[c.ID], w.later != nil && !w.finalized
	if not {
		w.later[c.ID] = true
	}
	if repeated || not {
		return streams.Answer{CommandID: c.ID, Repeated: repeated}, domain.Reject(domain.CodeNotYet, "not finalized")
	}
	w.asked = append(w.asked, c)
	return streams.Answer{CommandID: c.ID}, nil
}

// Publish implements message.Publisher: the parked topic.
func (w *world) Publish(_ string, messages ...*message.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = append(w.parked, messages...)
	return nil
}

// Close implements message.Publisher.
func (w *world) Close() error { return nil }

// run runs the policies until stop is called.
func (w *world) run() (stop func()) {
	w.t.Helper()
	runner, err := policies.New(policies.Config{
		Policies: []policies.Policy{{Name: "echo", Types: []string{"device.seen"}, React: func(ctx context.Context, e policies.Event) ([]policies.Wish, error) {
			w.mu.Lock()
			react, slow := w.react, w.slow == e.Stream.ID()
			if slow {
				w.slowed++
			}
			w.mu.Unlock()
			if slow {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if react != nil {
				if err := react(e); err != nil {
					return nil, err
				}
			}
			return []policies.Wish{{Body: thread.ResumeRun{On: thread.On{Thread: "t"}, RunID: "r", DeviceID: e.Stream.ID()}}}, nil
		}}},
		Asker: w, Tailer: w.log, Schema: logtest.Schema(), Places: w.places, Begins: w, Parked: w, ParkedTopic: "parked",
		Tries: w.tries, Within: w.within, FirstPause: time.Millisecond, MaxPause: 5 * time.Millisecond, KeepEvery: 10 * time.Millisecond,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.t.Errorf("run: %v", err)
		}
	})
}

func (w *world) seen(devices ...string) {
	for _, d := range devices {
		w.log.Append(user, domain.Fact{Stream: domain.NewStream("device", d), Event: device.Seen{At: time.Now().UTC().Truncate(time.Second)}})
	}
}

// devices are those that the policy has asked about, in order.
func (w *world) devices() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, c := range w.asked {
		all = append(all, c.Body.(thread.ResumeRun).DeviceID)
	}
	return strings.Join(all, " ")
}

// until waits, but not for ever.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 15*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s did not come: asked %q, parked %d", what, w.devices(), len(w.parked))
		case <-tick.C:
		}
	}
}

// ready waits until the policy has begun everywhere.
func (w *world) ready() {
	w.t.Helper()
	w.until("the beginning", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.begins) == int(w.log.Partitions())
	})
}

// TestAPolicyBeginsAtTheEndAndGoesOnAtItsPlace: what lay in the log before the policy was first seen is not its business;
// after that it misses nothing, over restarts.
func TestAPolicyBeginsAtTheEndAndGoesOnAtItsPlace(t *testing.T) {
	w := newWorld(t)
	w.seen("before")
	stop := w.run()
	w.ready()
	w.seen("a", "b")
	w.until("a and b", func() bool { return w.devices() == "a b" })
	stop()
	w.seen("c")
	stop = w.run()
	defer stop()
	w.seen("d")
	w.until("c and d, once", func() bool { return w.devices() == "a b c d" })
	for _, c := range w.asked {
		if c.Actor != (domain.Actor{Kind: domain.ActorPolicy, ID: "echo"}) || c.CausationID == "" || c.Scope != user {
			t.Errorf("asked as %+v", c)
		}
	}
}

// TestALostPlaceRepeatsUnderTheSameIDs: where the place is gone the policy starts again from where it began, and what it
// asks then has the ids that it had.
func TestALostPlaceRepeatsUnderTheSameIDs(t *testing.T) {
	w := newWorld(t)
	w.seen("before")
	stop := w.run()
	w.ready()
	w.seen("a", "b")
	w.until("a and b", func() bool { return w.devices() == "a b" })
	stop()
	w.places = places.New(pgtest.Read(t), 1, nil) // another database
	defer w.run()()
	w.until("both again", func() bool { return w.devices() == "a b a b" })
	if w.asked[0].ID != w.asked[2].ID || w.asked[1].ID != w.asked[3].ID || w.asked[0].ID == w.asked[1].ID {
		t.Errorf("the ids are %s %s, then %s %s", w.asked[0].ID, w.asked[1].ID, w.asked[2].ID, w.asked[3].ID)
	}
}

// TestWhatSaysNothingOfTheEventIsWaitedFor: an unknown outcome, a busy system, a rejection park nothing, and the order stays.
func TestWhatSaysNothingOfTheEventIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	defer w.run()()
	w.ready()
	w.mu.Lock()
	for range 4 {
		w.faults = append(w.faults, fmt.Errorf("%w: %w", streams.ErrOutcomeUnknown, context.DeadlineExceeded), &streams.Busy{Reason: "full"},
			domain.Reject(domain.CodeNotYet, "not finalized"))
	}
	w.mu.Unlock()
	w.seen("a", "b")
	w.until("a and b", func() bool { return w.devices() == "a b" })
	w.mu.Lock()
	w.faults = []error{domain.Reject(domain.CodeNotFound, "no")}
	w.mu.Unlock()
	w.seen("c", "d") // c is rejected, which is an answer
	w.until("d", func() bool { return w.devices() == "a b d" })
	if len(w.parked) != 0 {
		t.Errorf("%d events are parked", len(w.parked))
	}
}

// TestAnEventThatFailsForGoodIsParkedWithTheReason: after its tries, and those behind it are handled. A panic is a failure.
func TestAnEventThatFailsForGoodIsParkedWithTheReason(t *testing.T) {
	w := newWorld(t)
	tries := map[string]int{}
	w.react = func(e policies.Event) error {
		tries[e.Stream.ID()]++
		switch {
		case e.Stream.ID() == "bad":
			return errors.New("it is bad")
		case e.Stream.ID() == "worse":
			panic("it is worse")
		case e.Stream.ID() == "flaky" && tries["flaky"] < 3:
			return errors.New("not yet")
		}
		return nil
	}
	defer w.run()()
	w.ready()
	w.seen("bad", "flaky", "worse", "good")
	w.until("flaky and good", func() bool { return w.devices() == "flaky good" })
	if tries["bad"] != 3 || tries["worse"] != 3 {
		t.Errorf("tried %v", tries)
	}
	if len(w.parked) != 2 {
		t.Fatalf("%d events are parked", len(w.parked))
	}
	for i, reason := range []string{"it is bad", "it is worse"} {
		m := w.parked[i].Metadata
		if !strings.Contains(m["reason_poisoned"], reason) || m["scope"] != string(user) || m["parked_policy"] != "echo" || m["parked_event"] == "" {
			t.Errorf("parked with %v", m)
		}
	}
}

// TestAnEndParksNothing: an event that is in hand when the process ends comes again, and is not parked.
func TestAnEndParksNothing(t *testing.T) {
	w := newWorld(t)
	w.tries = 1 << 20
	in := make(chan struct{}, 1)
	w.react = func(policies.Event) error {
		select {
		case in <- struct{}{}:
		default:
		}
		return errors.New("it fails, now and at the end")
	}
	stop := w.run()
	w.ready()
	w.seen("a")
	<-in
	stop()
	if len(w.parked) > 0 {
		t.Fatalf("%d events are parked", len(w.parked))
	}
	w.react = nil
	defer w.run()()
	w.until("a", func() bool { return w.devices() == "a" })
}

// TestTwoProcessesShareThePartitions: each event is handled by one of them, and by the other when the first has ended.
func TestTwoProcessesShareThePartitions(t *testing.T) {
	w := newWorld(t)
	first, second := w.run(), w.run()
	defer second()
	w.ready()
	w.seen("a", "b", "c")
	w.until("all", func() bool { return w.devices() == "a b c" })
	first()
	w.seen("d")
	w.until("d", func() bool { return w.devices() == "a b c d" })
}
