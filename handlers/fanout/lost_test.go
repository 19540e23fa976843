package fanout_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/streams"
)

// lost is a log of which no tail can go on from where it was, until somebody asks where the log ends.
type lost struct {
	*trouble

	gone  atomic.Bool
	anew  atomic.Int64 // how often somebody asked
	again func()       // what happens just before the answer
}

var errGone = errors.New("what the tail needs is gone")

func (l *lost) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	if l.gone.Load() {
		return errGone
	}
	return l.trouble.Tail(ctx, partition, from, handle)
}

func (l *lost) Live(ctx context.Context, partition int32) (streams.Checkpoint, error) {
	if l.anew.Add(1) > 1 && l.gone.Load() {
		l.again()
		l.gone.Store(false)
	}
	return l.trouble.Live(ctx, partition)
}

// TestWhatIsCommittedWhileATailIsLostIsDelivered, although the ring begins anew behind it, and although nothing of the
// stream is committed any more that would say that there was something.
func TestWhatIsCommittedWhileATailIsLostIsDelivered(t *testing.T) {
	t.Parallel()
	l := &lost{}
	s := newStage(t, 1, func(c *fanout.Config) {
		l.trouble = c.Tailer.(*trouble)
		c.Tailer = l
	})
	s.append(user(1), opened("thread-a"))
	scope, stream := s.subscribe(fanout.Want{Scope: user(1)}), s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a"})
	s.append(user(1), opened("thread-a"))
	scope.until(t, 1, func() bool { return scope.at == 2 })
	l.again = func() { s.append(user(1), opened("thread-a"), opened("thread-b")) }
	l.gone.Store(true)
	s.tail.breakOff()
	scope.until(t, 1, func() bool { return scope.at == 4 })
	stream.until(t, 1, func() bool { return stream.at == 3 })
	if len(scope.got) != 3 || len(stream.got) != 2 || l.anew.Load() < 2 {
		t.Errorf("%d and %d events came, and the end of the log was asked for %d times", len(scope.got), len(stream.got), l.anew.Load())
	}
}

// TestWhatWasErasedIsNotLookedForWithoutEnd: what the ring forgot of an erased scope is read from the log, where nothing
// stored has it yet.
func TestWhatWasErasedIsNotLookedForWithoutEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	first := s.subscribe(fanout.Want{Scope: user(1)})
	s.append(user(1), said("thread-a", "r", "secret"))
	s.append(user(1), domain.Fact{Stream: "account-1", Event: account.Erased{}})
	must(t, s.keys.Destroy(t.Context(), user(1)))
	first.until(t, 1<<20, func() bool { return first.end != nil })
	asked := s.stored.pages.Load()
	late := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(0)})
	late.until(t, 1<<20, func() bool { return late.end != nil })
	if n := s.stored.pages.Load() - asked; late.end.Reason != fanout.NoAccess || len(late.got) > 0 || n > 3 {
		t.Errorf("it ended with %+v after %d events, and %d pages", late.end, len(late.got), n)
	}
}

// broken is a log of which the first read from its beginning breaks off.
type broken struct {
	*trouble

	broke atomic.Bool
}

func (l *broken) Tail(ctx context.Context, partition int32, from streams.Checkpoint, handle func(context.Context, streams.Batch) error) error {
	if from.Next == 0 && l.broke.CompareAndSwap(false, true) {
		return errMoved
	}
	return l.trouble.Tail(ctx, partition, from, handle)
}

// TestASubscriptionIsHadAlthoughAPartitionMoves while it is found out where its stream stands.
func TestASubscriptionIsHadAlthoughAPartitionMoves(t *testing.T) {
	t.Parallel()
	l := &broken{}
	s := newStage(t, 1, func(c *fanout.Config) {
		l.trouble = c.Tailer.(*trouble)
		c.Tailer = l
	})
	s.append(user(1), opened("thread-a"))
	r := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(0)})
	if r.until(t, 1, func() bool { return r.at == 1 }); !l.broke.Load() || len(r.got) != 1 {
		t.Errorf("%d events came, and the read broke off: %t", len(r.got), l.broke.Load())
	}
}
