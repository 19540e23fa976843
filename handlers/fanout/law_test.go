package fanout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/streams"
)

// TestEverySubscriptionHasEveryEventOnceAndInOrder: whenever it begins, at whatever cursor, however slow it is, whether its
// events come from the ring, from what is stored or from the log, while projectors stand still, tails break off, and
// partitions are left and followed again.
func TestEverySubscriptionHasEveryEventOnceAndInOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, how := range map[string]struct{ projecting, breaking, small bool }{
		"all is well":                       {projecting: true},
		"the ring is small":                 {projecting: true, small: true},
		"projectors never run":              {small: true},
		"tails break off":                   {projecting: true, breaking: true, small: true},
		"nothing but the log, and it moves": {breaking: true, small: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, 2, func(c *fanout.Config) {
				c.Linger = time.Millisecond
				if how.small {
					c.Ring = 32 << 10
				}
			})
			ctx := t.Context()
			var readers, writers sync.WaitGroup
			var done, written atomic.Bool
			writers.Go(func() {
				write(s, rand.New(rand.NewPCG(seed, 1)), 800)
				written.Store(true)
			})
			if how.projecting {
				writers.Go(func() {
					for i := 0; !done.Load() && ctx.Err() == nil; i++ {
						s.projectFor(time.Duration(20+i%3*40) * time.Millisecond)
					}
				})
			}
			if how.breaking {
				writers.Go(func() {
					ticker := time.NewTicker(150 * time.Millisecond)
					defer ticker.Stop()
					for !done.Load() {
						s.tail.breakOff()
						<-ticker.C
					}
				})
			}
			for i := range 40 {
				readers.Go(func() {
					follow(t, s, rand.New(rand.NewPCG(seed, uint64(i+2))), &written)
				})
			}
			readers.Wait()
			done.Store(true)
			writers.Wait()
		})
	}
}

const writtenStreams = 3

// write appends commits to some scopes. The last one of every stream is a mark.
func write(s *stage, r *rand.Rand, commits int) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for i := range commits {
		scope := user(r.IntN(3))
		var facts []domain.Fact
		for range 1 + r.IntN(3) {
			stream := domain.Stream(fmt.Sprintf("thread-%d", r.IntN(writtenStreams)))
			if r.IntN(2) == 0 {
				facts = append(facts, said(stream, "run", fmt.Sprintf("text %d", i)))
			} else {
				facts = append(facts, domain.Fact{Stream: stream, Event: thread.RunStarted{RunID: fmt.Sprint(i), Channel: thread.Home}})
			}
		}
		s.append(scope, facts...)
		if i%7 == 0 {
			<-ticker.C
		}
	}
	for u := range 3 {
		for n := range writtenStreams {
			s.append(user(u), domain.Fact{Stream: domain.Stream(fmt.Sprintf("thread-%d", n)), Event: thread.RunCompleted{RunID: "last"}})
		}
	}
}

func (s *stage) projectFor(d time.Duration) {
	stop := s.project()
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	stop()
}

// follow subscribes at some moment, from somewhere, reads now fast and now slowly, leaves and comes again, and holds what it
// got against the log.
func follow(t *testing.T, s *stage, r *rand.Rand, written *atomic.Bool) {
	key := streams.StreamKey{Scope: user(r.IntN(3))}
	if r.IntN(2) == 0 {
		key.Stream = domain.Stream(fmt.Sprintf("thread-%d", r.IntN(writtenStreams)))
	}
	var filter fanout.Filter
	if key.Stream == "" && r.IntN(2) == 0 {
		filter.Types = []string{"thread.run_started", "thread.run_completed"}
	}
	form := fanout.Form(r.IntN(2))
	pause(time.Duration(r.IntN(300)) * time.Millisecond)
	at := func(e *fanout.Event) uint64 {
		if key.Stream == "" {
			return e.Position
		}
		return e.Seq
	}
	from := fanout.Now()
	if r.IntN(3) > 0 {
		from = fanout.After(0)
	}
	var got []*fanout.Event
	var began, cursor uint64
	first := true
	for over := false; !over; {
		var after []byte
		if n := len(got); n > 0 && !first && at(got[n-1]) == cursor {
			after = got[n-1].Hash
		}
		reader, err := s.try(fanout.Want{Scope: key.Scope, Stream: key.Stream, Filter: filter, From: from, AfterHash: after, Form: form})
		if err == fanout.ErrNotFound { //nolint:errorlint // it is answered as it is
			pause(5 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		if first {
			if from == fanout.Now() {
				began = reader.sub.Head()
			}
			first = false
		}
		late := time.NewTimer(60 * time.Second)
		for stay := r.IntN(60); stay > 0 && !over; stay-- {
			more := reader.pull(1 + r.IntN(4000))
			for _, e := range reader.got {
				over = over || last(key, e)
			}
			if reader.end != nil {
				t.Errorf("a subscription to %v after %d was ended: %+v", key, cursor, reader.end)
				return
			}
			if r.IntN(12) == 0 {
				pause(time.Duration(r.IntN(30)) * time.Millisecond)
			}
			if more || over {
				continue
			}
			short := time.NewTimer(time.Duration(50+r.IntN(100)) * time.Millisecond)
			select {
			case <-reader.wake:
			case <-short.C:
			case <-late.C:
				t.Errorf("nothing came of %v after %d", key, cursor)
				return
			}
			short.Stop()
		}
		late.Stop()
		reader.sub.Close()
		got = append(got, reader.got...)
		cursor = max(cursor, reader.at, began)
		from = fanout.After(cursor)
		if written.Load() && cursor == s.end(key) {
			break
		}
	}
	compare(t, s, key, filter, began, got, form)
}

// end is the newest cursor.
func (s *stage) end(key streams.StreamKey) uint64 {
	all := s.all(key)
	if key.Stream == "" {
		return all[len(all)-1].Position
	}
	return all[len(all)-1].Version
}

// last reports whether nothing comes after an event: the marks are three, one a stream.
func last(key streams.StreamKey, e *fanout.Event) bool {
	if e.Type != "thread.run_completed" {
		return false
	}
	return key.Stream != "" || e.Stream == domain.Stream(fmt.Sprintf("thread-%d", writtenStreams-1))
}

func compare(t *testing.T, s *stage, key streams.StreamKey, f fanout.Filter, began uint64, got []*fanout.Event, form fanout.Form) {
	t.Helper()
	n := 0
	for _, want := range s.all(key) {
		at := want.Position
		if key.Stream != "" {
			at = want.Version
		}
		if at <= began || len(f.Types) > 0 && !slices.Contains(f.Types, want.Type) {
			continue
		}
		if n >= len(got) {
			t.Errorf("%v after %d: %d events came, and not %d of %s", key, began, len(got), want.Version, want.Stream)
			return
		}
		if e := got[n]; e.Stream != want.Stream || e.Seq != want.Version || e.Position != want.Position || string(e.Hash) != string(want.Hash) {
			t.Errorf("%v after %d: event %d is %d of %s, and should be %d of %s", key, began, n, e.Seq, e.Stream, want.Version, want.Stream)
			return
		}
		if len(got[n].JSON) == 0 || form == fanout.Stored && len(got[n].Stored) == 0 {
			t.Errorf("event %d of %v was not prepared", n, key)
			return
		}
		n++
	}
	if n != len(got) {
		t.Errorf("%v after %d: %d events came, and there are %d", key, began, len(got), n)
	}
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
