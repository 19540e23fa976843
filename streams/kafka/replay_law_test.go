package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// TestReplayFromAnyCheckpointEqualsLive: whatever a writer finds stored, an older copy included, however small its caches are and
// however the log comes to it in pieces, what it knows after replaying the rest is what the writer knew that decided it.
func TestReplayFromAnyCheckpointEqualsLive(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replayLaw(t, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

func replayLaw(t *testing.T, r *rand.Rand) {
	s := newStage(t, 1)
	defer s.close()
	store := &setBack{States: s.states}
	s.shared = store
	live := s.start(nil)
	leading(live)
	ask, stop := s.asker()
	defer stop()
	var what streams.Lookup
	for i := range 40 {
		scope := domain.Scope("user-" + string("abc"[r.IntN(3)]))
		c := wish(scope, fmt.Sprint(i), add{Tally: string("xyz"[r.IntN(3)]), By: r.IntN(4), Note: note{"n"}})
		if r.IntN(4) == 0 {
			c.Body = add{Tally: "x", By: 1, Also: []string{"y"}}
		}
		if _, err := ask.Ask(context.Background(), c); err != nil && code(err) != "nothing" {
			t.Fatal(err)
		}
		what.Commands = append(what.Commands, streams.CommandKey{Scope: scope, ID: c.ID})
		if r.IntN(5) == 0 {
			elapse(2 * time.Second) // in which it stores what it knows
		}
	}
	for _, scope := range []domain.Scope{"user-a", "user-b", "user-c"} {
		what.Scopes = append(what.Scopes, scope)
		for _, name := range "xyz" {
			what.Streams = append(what.Streams, streams.StreamKey{Scope: scope, Stream: domain.NewStream("tally", string(name))})
		}
	}
	live.shutdown()
	want, err := store.Load(context.Background(), 0, what)
	if err != nil {
		t.Fatal(err)
	}
	stored := len(store.flushes)
	if stored < 3 {
		t.Fatalf("%d flushes: nothing to go back to", stored)
	}
	for kept := range stored {
		if err := store.PutBack(context.Background(), store.flushes[:kept]); err != nil {
			t.Fatal(err)
		}
		h := s.start(func(c *kafka.WriterConfig) {
			c.CachedStreams, c.HeldIDs, c.MaxUnflushed = 1+r.IntN(4), 1+r.IntN(20), 4+r.IntN(40)
		})
		leading(h)
		h.shutdown()
		got, err := store.Load(context.Background(), 0, what)
		if err != nil {
			t.Fatal(err)
		}
		got.Checkpoint = want.Checkpoint // it holds a lead more each time
		if diff := cmp.Diff(want, got, byKey...); diff != "" {
			t.Fatalf("replayed on %d of %d flushes (-live +replayed):\n%s", kept, stored, diff)
		}
	}
	s.check()
}

var byKey = cmp.Options{
	cmpopts.EquateEmpty(), cmp.Comparer(bytes.Equal),
	cmpopts.SortSlices(func(a, b streams.StateRow) bool {
		return string(a.Scope+"/")+string(a.Stream) < string(b.Scope+"/")+string(b.Stream)
	}),
	cmpopts.SortSlices(func(a, b streams.ScopeRow) bool { return a.Scope < b.Scope }),
	cmpopts.SortSlices(func(a, b streams.AnswerRow) bool { return a.CommandID < b.CommandID }),
}
