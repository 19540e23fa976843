package fanout_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
)

// BenchmarkDelivery is one commit for many who follow its stream: what each costs, from the tail to the pulled event.
func BenchmarkDelivery(b *testing.B) {
	for _, n := range []int{1, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newStage(b, 1)
			s.append(user(1), opened("thread-a"))
			subs := make([]*fanout.Subscription, n)
			var woken atomic.Int64
			var memory [2]runtime.MemStats
			first, err := s.hub.Subscribe(b.Context(), want(), func() {})
			must(b, err)
			defer first.Close()
			runtime.GC()
			runtime.ReadMemStats(&memory[0])
			for i := range subs {
				subs[i], err = s.hub.Subscribe(b.Context(), want(), func() { woken.Add(1) })
				must(b, err)
				defer subs[i].Close()
			}
			runtime.GC()
			runtime.ReadMemStats(&memory[1])
			for b.Loop() {
				woken.Store(0)
				s.append(user(1), domain.Fact{Stream: "thread-a", Event: thread.RunStarted{RunID: "0a8c6b1e-run", Channel: thread.Home}})
				for woken.Load() < int64(n) {
					runtime.Gosched()
				}
				for _, sub := range subs {
					if p := sub.Pull(32 << 10); len(p.Events) != 1 {
						b.Fatalf("%d events", len(p.Events))
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/delivery")
			b.ReportMetric(float64(memory[1].HeapAlloc-memory[0].HeapAlloc)/float64(n), "B/subscription")
		})
	}
}

func want() fanout.Want {
	return fanout.Want{Who: accounts.Principal{Scope: user(1)}, Scope: user(1), Stream: "thread-a"}
}
