package fanout_test

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// TestTheRingAsksNobody: who comes back to where the ring reaches costs no read of the database.
func TestTheRingAsksNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	r := s.subscribe(fanout.Want{Scope: user(1)})
	for range 300 {
		s.append(user(1), said("thread-a", "r", "text"))
	}
	r.until(t, 1<<20, func() bool { return r.at == 300 })
	asked := s.stored.pages.Load()
	for after := range uint64(300) {
		again := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(after), AfterHash: hashAt(s, after)})
		again.until(t, 1<<20, func() bool { return again.at == 300 })
		again.sub.Close()
	}
	stream := s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a", From: fanout.After(0)})
	stream.until(t, 1<<20, func() bool { return stream.at == 300 })
	if n := s.stored.pages.Load() - asked; n != 0 {
		t.Errorf("the database was asked %d times", n)
	}
}

func hashAt(s *stage, position uint64) []byte {
	if position == 0 {
		return nil
	}
	return s.all(streams.StreamKey{Scope: user(1)})[position-1].Hash
}

// TestCatchUpIsShared: of many who come together each page is read about once.
func TestCatchUpIsShared(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	for range 2000 {
		s.append(user(1), domain.Fact{Stream: "thread-a", Event: thread.RunStarted{RunID: "r"}})
	}
	s.projected(user(1))
	var readers []*reader
	for i := range 200 {
		readers = append(readers, s.subscribe(fanout.Want{Scope: user(1), Stream: "thread-a", From: fanout.After(uint64(i % 100))}))
	}
	for _, r := range readers {
		r.pull(1) // all of them ask before the first is answered
	}
	for i, r := range readers {
		r.until(t, 1<<20, func() bool { return r.at == 2000 })
		if len(r.got) != 2000-i%100 {
			t.Errorf("%d events came", len(r.got))
		}
	}
	if n := s.stored.pages.Load(); n > 100 {
		t.Errorf("200 subscribers had the database asked for %d pages, where 8 have it all", n)
	}
}

// TestAPartitionIsFollowedWhileItIsNeeded, and some time longer.
func TestAPartitionIsFollowedWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	s := newStage(t, 4, func(c *fanout.Config) { c.Linger = 10 * time.Millisecond })
	if n := s.tail.begun.Load(); n != 0 {
		t.Fatalf("%d tails began before anybody came", n)
	}
	r := s.subscribe(fanout.Want{Scope: user(1)})
	s.append(user(1), opened("thread-a"))
	r.until(t, 1, func() bool { return len(r.got) == 1 })
	if n := s.tail.begun.Load(); n != 1 {
		t.Errorf("%d tails began for one subscriber", n)
	}
	r.sub.Close()
	wait(t, func() bool { return s.tail.running.Load() == 0 })
	s.append(user(1), opened("thread-a"))
	again := s.subscribe(fanout.Want{Scope: user(1), From: fanout.After(1)})
	again.until(t, 1, func() bool { return len(again.got) == 1 })
	if again.got[0].Position != 2 {
		t.Errorf("position %d came", again.got[0].Position)
	}
}

// TestWhatIsDeliveredCanBeVerified: the frame's members are those of the wire; what is stored has the hash, and the text
// the digest.
func TestWhatIsDeliveredCanBeVerified(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	r := s.subscribe(fanout.Want{Scope: user(1), Form: fanout.Stored})
	s.append(user(1), opened("thread-a"), said("thread-a", "run-1", "\"quoted\" \n \\ Привет \x00 <&>"))
	r.until(t, 1, func() bool { return len(r.got) == 2 })
	prev := codec.Genesis("thread-a")
	for _, e := range r.got {
		var f struct {
			Stream, ID, Hash, Salt, At string
			Seq, Position              uint64
			Type                       string `json:"event_type"`
			Schema                     int
			Digest                     string `json:"seal_digest"`
			Data                       struct {
				Run     string          `json:"run_id"`
				Content *thread.Content `json:"content"`
			}
			Stored struct {
				Data, Text, Actor, At string
			}
		}
		must(t, json.Unmarshal([]byte("{"+string(e.Stored)+"}"), &f))
		digest, err := hex.DecodeString(f.Digest)
		must(t, err)
		salt, err := hex.DecodeString(f.Salt)
		must(t, err)
		prev = codec.Chain(prev, streams.Recorded{Stream: domain.Stream(f.Stream), Version: f.Seq, ID: f.ID, Type: f.Type, Schema: f.Schema,
			At: f.Stored.At, Actor: []byte(f.Stored.Actor), Data: []byte(f.Stored.Data), SealDigest: digest})
		if hex.EncodeToString(prev) != f.Hash {
			t.Errorf("event %d has not the hash of what is stored: %s", f.Seq, e.Stored)
		}
		if e.Type != "thread.message_posted" {
			continue
		}
		if !codec.Verify([]byte(f.Stored.Text), salt, digest) {
			t.Errorf("the text has not its digest: %s", e.Stored)
		}
		if f.Data.Run != "run-1" || f.Data.Content == nil || f.Data.Content.Text != "\"quoted\" \n \\ Привет \x00 <&>" {
			t.Errorf("data is %+v", f.Data)
		}
		if !json.Valid([]byte("{" + string(e.JSON) + "}")) {
			t.Errorf("malformed: %s", e.JSON)
		}
	}
}

// TestAVaultThatIsAwayIsWaitedFor: nothing is left out, others go on, and nobody is made to wait in Pull.
func TestAVaultThatIsAwayIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1)
	r := s.subscribe(fanout.Want{Scope: user(1)})
	s.append(user(1), opened("thread-a"), said("thread-a", "r", "text"))
	s.keys.Cut()
	r.until(t, 1<<20, func() bool { return r.at == 1 })
	if r.pull(1 << 20); r.at != 1 || r.end != nil {
		t.Errorf("without its key it is at %d, %+v", r.at, r.end)
	}
	s.keys.Mend()
	r.until(t, 1<<20, func() bool { return r.at == 2 })
}

// TestAgents: who filters by agent has the events of its runs, from the one on that names it, in the same way live, from
// what is stored, and from the log where that stands still.
func TestAgents(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, func(c *fanout.Config) { c.Ring = 8 << 10 })
	tell := func(run, agent string) {
		s.append(user(1), domain.Fact{Stream: "thread-a", Event: thread.RunStarted{RunID: run}})
		s.append(user(1), domain.Fact{Stream: "thread-a", Event: thread.RouteDecided{RunID: run, Agent: agent}})
		s.append(user(1), domain.Fact{Stream: "thread-a", Event: thread.RunCompleted{RunID: run}})
	}
	now := s.subscribe(fanout.Want{Scope: user(1), Filter: fanout.Filter{AgentID: "notes"}, From: fanout.After(0)})
	for i := range 30 {
		tell(string(rune('a'+i))+"-run", []string{"notes", "tasks"}[i%2])
		if i == 10 {
			s.projected(user(1))
		}
	}
	s.append(user(1), opened("thread-a"))
	read := func(r *reader) (seen []uint64) {
		r.until(t, 3000, func() bool { return r.at == 91 })
		for _, e := range r.got {
			seen = append(seen, e.Position)
		}
		return seen
	}
	var want []uint64
	for i := uint64(0); i < 30; i += 2 {
		want = append(want, 3*i+2, 3*i+3)
	}
	if got := read(now); !slices.Equal(got, want) {
		t.Errorf("live: %v", got)
	}
	s.start(func(c *fanout.Config) { c.Ring = 8 << 10 })
	if got := read(s.subscribe(fanout.Want{Scope: user(1), Filter: fanout.Filter{AgentID: "notes"}, From: fanout.After(0)})); !slices.Equal(got, want) {
		t.Errorf("stored: %v", got)
	}
	// From the middle of a run, of which nothing that says who answers is met on the way.
	s.start(func(c *fanout.Config) { c.Ring = 8 << 10 })
	if got := read(s.subscribe(fanout.Want{Scope: user(1), Filter: fanout.Filter{AgentID: "notes"}, From: fanout.After(86)})); !slices.Equal(got, []uint64{87}) {
		if !slices.Equal(got, want[len(want)-1:]) {
			t.Errorf("from the middle of a run: %v", got)
		}
	}
	both := s.subscribe(fanout.Want{Scope: user(1), Filter: fanout.Filter{AgentID: "tasks", Types: []string{"thread.run_completed"}}, From: fanout.After(0)})
	if got := read(both); len(got) != 15 || got[0] != 6 {
		t.Errorf("of an agent and a type: %v", got)
	}
}
