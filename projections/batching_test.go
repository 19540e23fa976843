package projections_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/streams"
)

// TestBatchingNeverMatters: however a log is cut, the tables are equal. The events make no sense on
// purpose; a fold must not care.
func TestBatchingNeverMatters(t *testing.T) {
	pool := pgtest.Read(t)
	if err := projections.Ensure(t.Context(), pool, models(pool), 1); err != nil { // a fresh database has the first revisions
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		log := logtest.New(1)
		for range rapid.IntRange(1, 16).Draw(r, "commits") {
			log.SetTime(time.Unix(1_800_000_000+rapid.Int64Range(0, 1000).Draw(r, "time"), 0))
			drawCommit(r, log)
		}
		commits := log.Commits(0)
		whole := project(r, pool, commits, func(int) bool { return false })
		single := project(r, pool, commits, func(int) bool { return true })
		if diff := cmp.Diff(whole, single); diff != "" {
			r.Fatalf("one batch and single commits differ (-whole +single):\n%s", diff)
		}
		cuts := rapid.SliceOfN(rapid.Bool(), len(commits), len(commits)).Draw(r, "cuts")
		some := project(r, pool, commits, func(i int) bool { return cuts[i] })
		if diff := cmp.Diff(whole, some); diff != "" {
			r.Fatalf("one batch and some cuts differ (-whole +cut):\n%s", diff)
		}
	})
}

// project fills empty tables from commits (in a transaction that is rolled back), with a batch ending after every commit where cut says so.
func project(r *rapid.T, pool *pgxpool.Pool, commits []streams.Commit, cut func(int) bool) string {
	ctx := context.Background()
	tx, err := pool.Begin(ctx)
	if err != nil {
		r.Fatal(err)
	}
	defer tx.Rollback(ctx)
	schema, first := logtest.Schema(), 0
	for i := range commits {
		if i < len(commits)-1 && !cut(i) {
			continue
		}
		batch := projections.NewBatch(schema, projections.Generation{}, 0, commits[first:i+1])
		for _, p := range models(pool) {
			g, err := projections.LiveGeneration(ctx, tx, p.Name())
			if err != nil {
				r.Fatal(err)
			}
			if err := p.Apply(ctx, tx, batch.For(g)); err != nil {
				r.Fatalf("%s: %v", p.Name(), err)
			}
		}
		if err := batch.Flush(ctx, tx); err != nil {
			r.Fatal(err)
		}
		first = i + 1
	}
	return dump(ctx, r, tx, tables...)
}

func drawCommit(r *rapid.T, log *logtest.Log) {
	scope := domain.Scope(rapid.SampledFrom([]string{"user-a", "user-b"}).Draw(r, "scope"))
	stream := domain.Stream(rapid.SampledFrom([]string{"thread-1", "thread-2"}).Draw(r, "stream"))
	var facts []domain.Fact
	for range rapid.IntRange(0, 4).Draw(r, "events") {
		if rapid.IntRange(0, 9).Draw(r, "other") == 0 {
			facts = append(facts, rapid.SampledFrom([]domain.Fact{
				{Stream: "device-d", Event: device.Introduced{Protocol: rapid.IntRange(2, 3).Draw(r, "protocol"), Timezone: "Europe/\x00Rome"}},
				{Stream: "account-a", Event: account.Erased{}},
				{Stream: "device-d", Event: drawRequest(r)}, {Stream: "device-d", Event: drawRequest(r)}, {Stream: "device-d", Event: drawRequest(r)},
				{Stream: "account-a", Event: account.Registered{Tier: account.Free}},
			}).Draw(r, "fact"))
			continue
		}
		facts = append(facts, domain.Fact{Stream: stream, Event: drawEvent(r)})
	}
	log.Append(scope, facts...)
}

func drawRequest(r *rapid.T) any {
	id := rapid.SampledFrom([]string{"q1", "q\x002"}).Draw(r, "request")
	ask := device.Request{
		RequestID: id, DeviceID: "d", Action: "insert", Table: "notes", Wait: time.Duration(rapid.IntRange(1, 3).Draw(r, "wait")) * time.Second,
		Repeatable: rapid.Bool().Draw(r, "again"),
	}
	return rapid.SampledFrom([]any{
		device.DataRequested{Request: ask}, device.MutationRequested{Request: ask}, device.RequestOffered{RequestID: id, Started: true},
		device.DataAnswered{RequestID: id}, device.DataFailed{RequestID: id, Reason: device.Offline}, device.MutationCompleted{RequestID: id},
		device.MutationFailed{RequestID: id, Reason: device.TimedOut}, device.LateAnswerRecorded{RequestID: id},
	}).Draw(r, "of a request")
}

func drawEvent(r *rapid.T) any {
	run := rapid.SampledFrom([]string{"r1", "r2", "r\x003"}).Draw(r, "run")
	n := rapid.IntRange(1, 2).Draw(r, "n")
	call := thread.CallID(run, 1, n-1)
	step := thread.Step{
		CallID: call, RunID: run, Number: n, Tool: "t", Executor: rapid.SampledFrom([]thread.Executor{thread.OnDevice, thread.OnServer, thread.AtOnce}).Draw(r, "executor"),
		DeviceID: "d", Repeatable: rapid.Bool().Draw(r, "repeatable"), Background: rapid.Bool().Draw(r, "background"),
	}
	flag, after := rapid.Bool().Draw(r, "flag"), time.Duration(rapid.IntRange(0, 3).Draw(r, "after"))*time.Second
	mutations := []thread.Mutation{{Table: "tasks", Action: "insert", ID: fmt.Sprint(n)}}
	return rapid.SampledFrom([]any{
		thread.Opened{}, thread.Titled{},
		thread.MessagePosted{RunID: run, Channel: thread.Home, Queued: flag, DeviceID: "d"},
		thread.RunStarted{RunID: run, Channel: thread.Home, DeviceID: "d", MessageVersion: uint64(n)},
		thread.RouteRequested{RunID: run, Attempt: n}, thread.RouteDecided{RunID: run, Attempt: n, Agent: "a", Fallback: flag},
		thread.RouteFailed{RunID: run, Attempt: n, Class: thread.Unavailable, RetryAfter: after},
		thread.TurnRequested{RunID: run, Turn: n, Attempt: n, Agent: "a", NoTools: flag},
		thread.TurnCompleted{RunID: run, Turn: n, Attempt: n, Model: "m\x00", InputTokens: n, Calls: n, Warnings: []string{"w"}, Metadata: map[string]string{"a": "b", "c": "d"}},
		thread.TurnFailed{RunID: run, Turn: n, Attempt: n, Class: thread.Truncated, RetryAfter: after},
		thread.ToolCallRequested{Step: step, Turn: 1, Index: n - 1}, thread.ToolStepRequested{Step: step},
		thread.ToolCallOffered{CallID: call, RunID: run, Step: n, DeviceID: "d", Started: flag},
		thread.ToolStepCompleted{CallID: call, RunID: run, Step: n, Mutations: mutations},
		thread.ToolCallCompleted{CallID: call, RunID: run, Step: n, Mutations: mutations, NotIndexed: flag},
		thread.ToolCallFailed{CallID: call, RunID: run, Step: n, Reason: thread.TimedOut},
		thread.LateResultRecorded{CallID: call, Step: n, DeviceID: "d", Mutations: mutations},
		thread.IndexingFailed{CallID: call, RunID: run, Step: n, RetryAfter: after}, thread.IndexingEnded{CallID: call, Step: n, OK: flag},
		thread.RunCompleted{RunID: run, Turns: n}, thread.RunFailed{RunID: run, Code: thread.Refused, Reason: "no"}, thread.RunCancelled{RunID: run, By: "user"},
	}).Draw(r, "event")
}
