package fanout_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/streams"
)

// heap is what is in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestNothingProvisionalIsKeptOfWhatIsCommitted, however long its stream is followed. It counts memory, and so runs alone.
func TestNothingProvisionalIsKeptOfWhatIsCommitted(t *testing.T) {
	const threads, each = 32, 512 << 10
	s := newStage(t, 1)
	say := <-s.live.to
	name := func(i int) domain.Stream { return domain.Stream(fmt.Sprintf("thread-%d", i)) }
	var followers []*reader
	for i := range threads {
		s.append(user(1), opened(name(i)))
		followers = append(followers, s.subscribe(fanout.Want{Scope: user(1), Stream: name(i), Live: fanout.Live}))
	}
	before := heap()
	for i := range threads {
		f := text("r", 1, 1, 0, strings.Repeat("x", each))
		f.Stream = name(i)
		say(f)
		if followers[i].pull(1 << 20); len(followers[i].live) != 1 {
			t.Fatalf("%d frames came", len(followers[i].live))
		}
		followers[i].live = nil
	}
	if n := heap() - before; n < threads*each/2 {
		t.Fatalf("the frames of runs that go on take %d bytes", n)
	}
	for i, r := range followers {
		s.append(user(1), domain.Fact{Stream: name(i), Event: thread.RunCompleted{RunID: "r"}})
		r.until(t, 1<<20, func() bool { return r.at == 2 })
	}
	if n := heap() - before; n > threads*each/4 {
		t.Errorf("%d bytes are kept after the runs have ended", n)
	}
	runtime.KeepAlive(followers)
}

// TestARingIsNoLargerThanItMayBe, also where content takes far more room when it is opened than as it is stored.
func TestARingIsNoLargerThanItMayBe(t *testing.T) {
	const events, each = 64, 512 << 10
	s := newStage(t, 1, func(c *fanout.Config) { c.Ring = 4 << 20 })
	r := s.subscribe(fanout.Want{Scope: user(1), Form: fanout.Stored})
	s.append(user(1), opened("thread-a"))
	before := heap()
	for i := range uint64(events) {
		s.append(user(1), said("thread-a", "r", strings.Repeat("x", each)))
		r.until(t, 1<<20, func() bool { return r.at == i+2 })
		if r.end != nil || len(r.got) == 0 {
			t.Fatalf("after %d events: %+v", i, r.end)
		}
		r.got = nil
	}
	if n := heap() - before; n > events*each/2 {
		t.Errorf("a ring of 4 MiB takes %d bytes", n)
	}
	runtime.KeepAlive(s)
}

// far are keys of which none is in memory, and none comes until let is closed.
type far struct {
	streams.Keys

	once  sync.Once
	asked chan struct{}
	let   chan struct{}
}

func (k *far) Version(ctx context.Context, scope domain.Scope, version int) (streams.Key, error) {
	select {
	case <-k.let: // now it is in memory
	default:
		if ctx.Err() != nil {
			return streams.Key{}, ctx.Err()
		}
		k.once.Do(func() { close(k.asked) })
		<-k.let
	}
	return k.Keys.Version(ctx, scope, version)
}

// TestNobodyWaitsInPullForAKey, nor for somebody else who waits for it.
func TestNobodyWaitsInPullForAKey(t *testing.T) {
	t.Parallel()
	k := &far{asked: make(chan struct{}), let: make(chan struct{})}
	let := sync.OnceFunc(func() { close(k.let) })
	defer let()
	s := newStage(t, 1, func(c *fanout.Config) {
		k.Keys = c.Keys
		c.Keys = k
	})
	s.append(user(1), opened("thread-a"))
	stream, scope := s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a"}), s.subscribe(fanout.Want{Scope: user(1)})
	s.append(user(1), said("thread-a", "r", "text"))
	wait(t, func() bool {
		stream.pull(1)
		select {
		case <-k.asked:
			return true
		default:
			return false
		}
	})
	pulled := make(chan struct{})
	go func() {
		defer close(pulled)
		scope.until(t, 1, func() bool { return scope.at >= 1 })
		scope.pull(1)
	}()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	select {
	case <-pulled:
	case <-late.C:
		t.Error("a pull waits for a key that another waits for")
	}
	let()
	<-pulled
	scope.until(t, 1, func() bool { return scope.at == 2 })
	stream.until(t, 1, func() bool { return stream.at == 2 })
}
