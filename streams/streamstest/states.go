// Package streamstest holds the conformance suites of the ports in streams: whatever keeps a writer's
// states or the keys of scopes passes them, in memory or in Postgres.
package streamstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

const (
	ann domain.Scope = "user-ann"
	bob domain.Scope = "user-bob"
)

// States runs the laws of streams.States on stores that open makes, each empty.
func States(t *testing.T, open func(*testing.T) streams.States) {
	for name, law := range map[string]func(*testing.T, streams.States){
		"an empty store is at the start":            emptyAtStart,
		"what was stored is loaded":                 storedIsLoaded,
		"only what was asked is loaded":             onlyWhatWasAsked,
		"a conflict stores nothing":                 conflictStoresNothing,
		"a state row never goes back":               stateNeverBack,
		"another fold replaces a state row":         foldReplaces,
		"an answer stays the first":                 answerStays,
		"erased stays erased":                       erasedStays,
		"partitions have their own checkpoints":     ownCheckpoints,
		"of concurrent stores one wins":             oneWins,
		"rows and checkpoint are of one moment":     oneMoment,
		"many are loaded and stored at once":        many,
		"an ended context is an error, not a guess": endedContext,
	} {
		t.Run(name, func(t *testing.T) { law(t, open(t)) })
	}
}

func checkpoint(next int64) streams.Checkpoint {
	return streams.Checkpoint{Next: next, Acceptance: streams.Acceptance{
		Era: 1, Lead: next, Writer: fmt.Sprintf("writer-%d", next), Closed: next%2 == 1,
		After: streams.CommandPlace{Era: 1, Offset: next - 1},
	}}
}

func state(scope domain.Scope, stream domain.Stream, version uint64) streams.StateRow {
	return streams.StateRow{
		Scope: scope, Stream: stream, Version: version, Hash: []byte{byte(version), 0, 255},
		Fold: 1, State: fmt.Appendf(nil, `{"version":%d,"b":"<é>","a":[1, 2]}`, version),
	}
}

func accepted(scope domain.Scope, id string, position uint64) streams.AnswerRow {
	return streams.AnswerRow{
		Scope: scope, CommandID: id, Fingerprint: []byte{1, 2, 0, 255},
		Heads:    []streams.Head{{Stream: "thread-a", Version: 3}, {Stream: "thread-b", Version: position}},
		Position: position, Era: 2, Partition: 3, Offset: 1 << 40, DecidedAt: "2026-11-30T12:00:00.123456Z",
	}
}

func rejected(scope domain.Scope, id string) streams.AnswerRow {
	row := accepted(scope, id, 9)
	row.Heads, row.Fingerprint = nil, nil
	row.Rejected = &domain.Rejection{Code: "queue_full", Reason: "100 wait <already>", Numbers: map[string]int64{"queued": 100}}
	return row
}

// Ids are UUIDs, since a store may keep them as such.
func id(n int) string {
	return streams.CommandID(ann, fmt.Sprint("request ", n))
}

func load(t *testing.T, s streams.States, partition int32, what streams.Lookup) streams.Snapshot {
	t.Helper()
	got, err := s.Load(t.Context(), partition, what)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return got
}

func store(t *testing.T, s streams.States, f streams.Flush) {
	t.Helper()
	if err := s.Store(t.Context(), f); err != nil {
		t.Fatalf("store: %v", err)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	sorts := cmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.SortSlices(func(a, b streams.StateRow) bool {
			return string(a.Scope)+string(a.Stream) < string(b.Scope)+string(b.Stream)
		}),
		cmpopts.SortSlices(func(a, b streams.ScopeRow) bool { return a.Scope < b.Scope }),
		cmpopts.SortSlices(func(a, b streams.AnswerRow) bool { return string(a.Scope)+a.CommandID < string(b.Scope)+b.CommandID }),
	}
	if diff := cmp.Diff(want, got, sorts); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

var everything = streams.Lookup{
	Streams:  []streams.StreamKey{{Scope: ann, Stream: "thread-a"}, {Scope: ann, Stream: "thread-b"}, {Scope: bob, Stream: "thread-a"}},
	Scopes:   []domain.Scope{ann, bob},
	Commands: []streams.CommandKey{{Scope: ann, ID: id(1)}, {Scope: ann, ID: id(2)}, {Scope: bob, ID: id(1)}},
}

func emptyAtStart(t *testing.T, s streams.States) {
	same(t, "empty store", load(t, s, 0, everything), streams.Snapshot{Checkpoint: streams.Start()})
	same(t, "empty store, nothing asked", load(t, s, 7, streams.Lookup{}), streams.Snapshot{Checkpoint: streams.Start()})
}

func full() streams.Flush {
	return streams.Flush{
		Expected: streams.Start(), Next: checkpoint(5),
		States:  []streams.StateRow{state(ann, "thread-a", 3), state(ann, "thread-b", 1), state(bob, "thread-a", 8)},
		Scopes:  []streams.ScopeRow{{Scope: ann, Position: 4, DecidedAt: "2026-11-30T12:00:00.000001Z"}, {Scope: bob, Position: 8, DecidedAt: "2026-11-30T12:00:00.999999Z", Erased: true}},
		Answers: []streams.AnswerRow{accepted(ann, id(1), 4), rejected(ann, id(2)), accepted(bob, id(1), 8)},
	}
}

func storedIsLoaded(t *testing.T, s streams.States) {
	f := full()
	store(t, s, f)
	same(t, "what was stored", load(t, s, 0, everything), streams.Snapshot{Checkpoint: f.Next, States: f.States, Scopes: f.Scopes, Answers: f.Answers})
}

func onlyWhatWasAsked(t *testing.T, s streams.States) {
	f := full()
	store(t, s, f)
	got := load(t, s, 0, streams.Lookup{
		Streams:  []streams.StreamKey{{Scope: bob, Stream: "thread-a"}, {Scope: bob, Stream: "thread-b"}, {Scope: bob, Stream: "thread-a"}},
		Scopes:   []domain.Scope{bob, "user-nobody"},
		Commands: []streams.CommandKey{{Scope: bob, ID: id(1)}, {Scope: bob, ID: id(2)}},
	})
	same(t, "bob's part", got, streams.Snapshot{Checkpoint: f.Next, States: f.States[2:], Scopes: f.Scopes[1:], Answers: f.Answers[2:]})
}

func conflictStoresNothing(t *testing.T, s streams.States) {
	f := full()
	store(t, s, f)
	want := load(t, s, 0, everything)
	late := streams.Flush{
		Expected: streams.Start(), Next: checkpoint(6), States: []streams.StateRow{state(ann, "thread-a", 9)},
		Scopes: []streams.ScopeRow{{Scope: ann, Position: 9}}, Answers: []streams.AnswerRow{accepted(ann, id(3), 9)},
	}
	for _, expected := range []streams.Checkpoint{streams.Start(), checkpoint(4), checkpoint(6)} {
		late.Expected = expected
		if err := s.Store(t.Context(), late); !errors.Is(err, streams.ErrFlushConflict) {
			t.Fatalf("store from checkpoint %d at 5: %v, want ErrFlushConflict", expected.Next, err)
		}
	}
	same(t, "after conflicts", load(t, s, 0, everything), want)
	if got := load(t, s, 0, streams.Lookup{Commands: []streams.CommandKey{{Scope: ann, ID: id(3)}}}); len(got.Answers) > 0 {
		t.Fatal("a conflicting store left an answer")
	}
}

func stateNeverBack(t *testing.T, s streams.States) {
	store(t, s, full())
	again := state(ann, "thread-b", 1)
	again.State = []byte(`"another"`)
	store(t, s, streams.Flush{Expected: checkpoint(5), Next: checkpoint(6), States: []streams.StateRow{state(ann, "thread-a", 2), again, state(bob, "thread-a", 9)}})
	want := []streams.StateRow{state(ann, "thread-a", 3), state(ann, "thread-b", 1), state(bob, "thread-a", 9)}
	same(t, "rows", load(t, s, 0, everything).States, want)
}

func foldReplaces(t *testing.T, s streams.States) {
	store(t, s, full())
	folded := state(ann, "thread-a", 3)
	folded.Fold, folded.State = 2, []byte(`{"new":true}`)
	store(t, s, streams.Flush{Expected: checkpoint(5), Next: checkpoint(6), States: []streams.StateRow{folded}})
	got := load(t, s, 0, streams.Lookup{Streams: []streams.StreamKey{{Scope: ann, Stream: "thread-a"}}})
	same(t, "row", got.States, []streams.StateRow{folded})
}

func answerStays(t *testing.T, s streams.States) {
	store(t, s, full())
	store(t, s, streams.Flush{Expected: checkpoint(5), Next: checkpoint(6), Answers: []streams.AnswerRow{rejected(ann, id(1)), accepted(ann, id(4), 5)}})
	got := load(t, s, 0, streams.Lookup{Commands: []streams.CommandKey{{Scope: ann, ID: id(1)}, {Scope: ann, ID: id(4)}}})
	same(t, "answers", got.Answers, []streams.AnswerRow{accepted(ann, id(1), 4), accepted(ann, id(4), 5)})
}

func erasedStays(t *testing.T, s streams.States) {
	store(t, s, full())
	after := streams.ScopeRow{Scope: bob, Position: 9, DecidedAt: "2026-11-30T13:00:00.000000Z", Erased: true}
	store(t, s, streams.Flush{Expected: checkpoint(5), Next: checkpoint(6), Scopes: []streams.ScopeRow{after}})
	same(t, "scope", load(t, s, 0, streams.Lookup{Scopes: []domain.Scope{bob}}).Scopes, []streams.ScopeRow{after})
}

func ownCheckpoints(t *testing.T, s streams.States) {
	store(t, s, full())
	store(t, s, streams.Flush{Partition: 1, Expected: streams.Start(), Next: checkpoint(2)})
	for partition, want := range map[int32]streams.Checkpoint{0: checkpoint(5), 1: checkpoint(2), 2: streams.Start()} {
		if got := load(t, s, partition, streams.Lookup{}).Checkpoint; got != want {
			t.Fatalf("checkpoint of partition %d is %+v, want %+v", partition, got, want)
		}
	}
}

func oneWins(t *testing.T, s streams.States) {
	for round := range int64(5) {
		expected := streams.Start()
		if round > 0 {
			expected = checkpoint(round)
		}
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				errs[i] = s.Store(t.Context(), streams.Flush{Expected: expected, Next: checkpoint(round + 1)})
			})
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, streams.ErrFlushConflict) {
				t.Fatalf("a losing store answered %v", err)
			}
		}
		if won != 1 {
			t.Fatalf("%d of 8 concurrent stores won", won)
		}
	}
}

func oneMoment(t *testing.T, s streams.States) {
	const rounds = 40
	key := streams.StreamKey{Scope: ann, Stream: "thread-a"}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		defer stop()
		for n := range int64(rounds) {
			expected := streams.Start()
			if n > 0 {
				expected = checkpoint(n)
			}
			if err := s.Store(t.Context(), streams.Flush{Expected: expected, Next: checkpoint(n + 1), States: []streams.StateRow{state(ann, "thread-a", uint64(n+1))}}); err != nil {
				t.Errorf("store %d: %v", n, err)
				return
			}
		}
	})
	for ctx.Err() == nil {
		got := load(t, s, 0, streams.Lookup{Streams: []streams.StreamKey{key}})
		var version uint64
		if len(got.States) > 0 {
			version = got.States[0].Version
		}
		if int64(version) != got.Checkpoint.Next {
			t.Errorf("a row of version %d beside checkpoint %d", version, got.Checkpoint.Next)
			break
		}
	}
	writing.Wait()
}

func many(t *testing.T, s streams.States) {
	f := streams.Flush{Expected: streams.Start(), Next: checkpoint(1)}
	var what streams.Lookup
	for n := range 1200 {
		stream := domain.NewStream("thread", fmt.Sprint(n))
		f.States = append(f.States, state(ann, stream, uint64(n+1)))
		f.Answers = append(f.Answers, accepted(ann, id(n), uint64(n+1)))
		what.Streams = append(what.Streams, streams.StreamKey{Scope: ann, Stream: stream})
		what.Commands = append(what.Commands, streams.CommandKey{Scope: ann, ID: id(n)})
	}
	store(t, s, f)
	got := load(t, s, 0, what)
	if len(got.States) != len(f.States) || len(got.Answers) != len(f.Answers) {
		t.Fatalf("loaded %d states and %d answers", len(got.States), len(got.Answers))
	}
	stored := map[domain.Stream]streams.StateRow{}
	for _, row := range f.States {
		stored[row.Stream] = row
	}
	for _, row := range got.States {
		same(t, "state", row, stored[row.Stream])
	}
}

func endedContext(t *testing.T, s streams.States) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Load(ctx, 0, everything); err == nil {
		t.Fatal("load with an ended context answered")
	}
	if err := s.Store(ctx, full()); err == nil {
		t.Fatal("store with an ended context answered")
	}
}
