package fanout_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

func opened(stream domain.Stream) domain.Fact {
	return domain.Fact{Stream: stream, Event: thread.Opened{}}
}

// TestNobodyFollowsWhatIsNotTheirs, nor learns whether it is there.
func TestNobodyFollowsWhatIsNotTheirs(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	s.append(user(1), opened("thread-a"))
	for name, w := range map[string]fanout.Want{
		"somebody else's scope":  {Who: accounts.Principal{Scope: user(2)}, Scope: user(1)},
		"somebody else's thread": {Who: accounts.Principal{Scope: user(2)}, Scope: user(1), Stream: "thread-a"},
		"one's own scope, in it": {Scope: user(2), Stream: "thread-a"},
		"no such thread":         {Scope: user(1), Stream: "thread-b"},
		"no stream's name":       {Scope: user(1), Stream: "Thread a"},
	} {
		if _, err := s.try(w); !errors.Is(err, fanout.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResets: exactly where a cursor can't be gone on from, with the place from which one can.
func TestResets(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, func(c *fanout.Config) { c.Most = 20 })
	for range 10 {
		s.append(user(1), opened("thread-a"), said("thread-b", "r", "x"))
	}
	s.projected(user(1))
	all := s.all(streams.StreamKey{Scope: user(1), Stream: "thread-a"})
	hash := func(seq int) []byte { return all[seq-1].Hash }
	for name, c := range map[string]struct {
		want   fanout.Want
		reason fanout.Reason
		head   uint64
	}{
		"beyond the head":          {fanout.Want{Stream: "thread-a", From: fanout.After(11)}, fanout.BeyondHead, 10},
		"another hash":             {fanout.Want{Stream: "thread-a", From: fanout.After(5), AfterHash: hash(4)}, fanout.OtherHash, 10},
		"another hash at the head": {fanout.Want{Stream: "thread-a", From: fanout.After(10), AfterHash: hash(4)}, fanout.OtherHash, 10},
		"another beginning":        {fanout.Want{Stream: "thread-a", From: fanout.After(0), AfterHash: hash(4)}, fanout.OtherHash, 10},
		"the right hash":           {fanout.Want{Stream: "thread-a", From: fanout.After(5), AfterHash: hash(5)}, "", 10},
		"the right hash, the head": {fanout.Want{Stream: "thread-a", From: fanout.After(10), AfterHash: hash(10)}, "", 10},
		"the head":                 {fanout.Want{Stream: "thread-a", From: fanout.After(10)}, "", 10},
		"as old as allowed":        {fanout.Want{From: fanout.After(0)}, "", 20},
	} {
		c.want.Scope = user(1)
		r := s.subscribe(c.want)
		if r.sub.Head() != c.head {
			t.Errorf("%s: its head is %d", name, r.sub.Head())
		}
		r.until(t, 1<<20, func() bool { return r.end != nil || r.at == c.head })
		switch {
		case c.reason == "" && r.end != nil, c.reason != "" && (r.end == nil || r.end.Reason != c.reason || len(r.got) > 0):
			t.Errorf("%s: ended with %+v, and %d events", name, r.end, len(r.got))
		case c.reason != "" && (r.end.Head != c.head || !bytes.Equal(r.end.HeadHash, hash(10))):
			t.Errorf("%s: %+v", name, r.end)
		}
	}
	level := s.subscribe(fanout.Want{Scope: user(1)})
	s.append(user(1), opened("thread-a"))
	level.until(t, 1, func() bool { return level.at == 21 })
	r := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(0)})
	if r.pull(1 << 20); r.end == nil || r.end.Reason != fanout.TooOld || r.end.Head != 21 {
		t.Errorf("too old: %+v", r.end)
	}
}

// TestWhatWasPrunedIsAReset, and what was not is told as ever; a new hub remembers nothing of it.
func TestWhatWasPrunedIsAReset(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	for range 10 {
		s.append(user(1), opened("thread-a"))
	}
	hash := func(seq uint64) []byte { return s.all(streams.StreamKey{Scope: user(1)})[seq-1].Hash }
	s.pruned(user(1))
	for _, w := range []fanout.Want{{Scope: user(1)}, {Scope: user(1), Stream: "thread-a"}} {
		for after, pruned := range map[uint64]bool{0: true, 4: true, 5: false, 7: false} {
			if w.From, w.AfterHash = fanout.After(after), nil; after > 4 {
				w.AfterHash = hash(after) // also of the last that was pruned
			}
			r := s.subscribe(w)
			r.until(t, 1<<20, func() bool { return r.end != nil || r.at == 10 })
			if (r.end != nil) != pruned || pruned && (r.end.Reason != fanout.Pruned || r.end.Head != 10 || len(r.got) > 0) || !pruned && len(r.got) != int(10-after) {
				t.Errorf("%v: %d events, ended with %+v", w, len(r.got), r.end)
			}
		}
	}
}

// pruned deletes the first five of the ten events that are stored of a scope, all of one stream.
func (s *stage) pruned(scope domain.Scope) {
	s.t.Helper()
	s.projected(scope)
	_, err := s.pool.Exec(s.t.Context(), `WITH gone AS (DELETE FROM events_1 WHERE position < 6 RETURNING 1)
		INSERT INTO event_floors SELECT 1, $1, 'thread-a', 6, now() UNION ALL SELECT 1, $1, '', 5, now()`, string(scope))
	must(s.t, err)
}

// held is what is stored, and nobody is given a page of it until let is closed.
type held struct {
	fanout.Events

	let  chan struct{}
	asks chan struct{}
}

func (h *held) Page(ctx context.Context, key streams.StreamKey, after uint64, limit int) (events.Page, error) {
	if limit > 0 {
		h.asks <- struct{}{}
		<-h.let
	}
	return h.Events.Page(ctx, key, after, limit)
}

// TestAResetIsOfWhoseCursorItIs: who shares a read with somebody whose next event was pruned goes on.
func TestAResetIsOfWhoseCursorItIs(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	for range 10 {
		s.append(user(1), opened("thread-a"))
	}
	s.pruned(user(1))
	h := &held{Events: s.stored, let: make(chan struct{}), asks: make(chan struct{}, 10)}
	s.start(func(c *fanout.Config) { c.Events = h })
	old := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(3)})
	young := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(6)})
	old.pull(1)
	<-h.asks
	young.pull(1)
	close(h.let)
	old.until(t, 1, func() bool { return old.end != nil })
	young.until(t, 1<<20, func() bool { return young.end != nil || young.at == 10 })
	if old.end.Reason != fanout.Pruned || young.end != nil || len(young.got) != 4 {
		t.Errorf("one ended with %+v, the other with %+v after %d events", old.end, young.end, len(young.got))
	}
}

// TestAnErasedScopeIsNotFollowedAnyMore: nothing more comes, from memory neither.
func TestAnErasedScopeIsNotFollowedAnyMore(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	s.append(user(1), said("thread-a", "r", "secret"))
	s.append(user(2), opened("thread-b"))
	scope, stream := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(0)}), s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a"})
	other := s.subscribe(fanout.Want{Scope: user(2)})
	scope.until(t, 1<<20, func() bool { return scope.at == 1 })
	s.append(user(1), domain.Fact{Stream: "account-1", Event: account.Erased{}})
	must(t, s.keys.Destroy(t.Context(), user(1)))
	s.append(user(2), opened("thread-b"))
	for name, r := range map[string]*reader{"scope": scope, "stream": stream} {
		r.until(t, 1<<20, func() bool { return r.end != nil })
		if r.end.Reason != fanout.NoAccess || r.end.HeadHash != nil || len(r.got) > 1 {
			t.Errorf("%s: %+v, %d events", name, r.end, len(r.got))
		}
		if r.pull(1 << 20); r.at > 1 {
			t.Errorf("%s goes on to %d", name, r.at)
		}
	}
	other.until(t, 1<<20, func() bool { return len(other.got) == 1 })
	late := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(0)})
	late.until(t, 1<<20, func() bool { return late.end != nil })
	if late.end.Reason != fanout.NoAccess || len(late.got) > 0 {
		t.Errorf("who comes later is told %+v and %d events", late.end, len(late.got))
	}
}

// TestRevoke ends what somebody follows, and nobody else's.
func TestRevoke(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	s.append(user(1), opened("thread-a"))
	ended := s.subscribe(fanout.Want{Who: accounts.Principal{UserID: "x", Scope: user(1)}, Scope: user(1)})
	other := s.subscribe(fanout.Want{Who: accounts.Principal{UserID: "y", Scope: user(1)}, Scope: user(1)})
	s.hub.Revoke(func(p accounts.Principal) bool { return p.UserID == "x" })
	s.append(user(1), opened("thread-a"))
	ended.until(t, 1, func() bool { return ended.end != nil })
	other.until(t, 1, func() bool { return len(other.got) == 1 })
	if ended.end.Reason != fanout.NoAccess || len(ended.got) > 0 || other.end != nil {
		t.Errorf("ended %+v with %d events; other %+v", ended.end, len(ended.got), other.end)
	}
}
