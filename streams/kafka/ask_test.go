package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/account"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

func TestAnAskIsAnsweredByItsCountedCommitOnly(t *testing.T) {
	a := newAsking(t, nil)
	p := newPen(t, a.config)
	p.takeLead(1, penWriter)
	c := command("user-a", "1", account.Pro)
	done := ask(t.Context(), a, c)
	e, offset := a.sent(t)
	// What must not count: another writer's, another lead's, one that skips a command, one without a mark.
	for _, change := range []func(*streams.Commit){
		func(c *streams.Commit) { c.Writer = "zombie" },
		func(c *streams.Commit) { c.Lead = 2 },
		func(c *streams.Commit) { c.After.Offset = 77 },
		func(c *streams.Commit) { c.Era = 0 },
	} {
		uncounted := p.commit(c, offset, e.Fingerprint, 99)
		change(&uncounted)
		p.write(uncounted)
	}
	p.append(a.config.Topics.Log(), kafka.CommandHeaders(c.Scope, c.ID), []byte("junk"))
	p.write(p.commit(c, offset, e.Fingerprint, 1, 2))
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	want := streams.Position{Scope: "user-a", Position: 2, Era: 1, Offset: 6}
	if r.answer.Position != want || r.answer.Repeated || len(r.answer.Heads) != 1 || r.answer.Heads[0] != (streams.Head{Stream: "account-a", Version: 2}) {
		t.Fatalf("answered %+v", r.answer)
	}
	if r.answer.DecidedAt.IsZero() || r.answer.CommandID != c.ID {
		t.Fatalf("answered %+v", r.answer)
	}
}

func TestARejectionIsAnError(t *testing.T) {
	a := newAsking(t, nil)
	p := newPen(t, a.config)
	p.takeLead(1, penWriter)
	c := command("user-a", "1", account.Pro)
	done := ask(t.Context(), a, c)
	e, offset := a.sent(t)
	commit := p.commit(c, offset, e.Fingerprint)
	commit.Rejected = &domain.Rejection{Code: domain.CodeNotFound, Reason: "no such account", Numbers: map[string]int64{"n": 3}}
	p.write(commit)
	if r := <-done; !rejectedWith(r.err, domain.CodeNotFound) {
		t.Fatalf("answered %v", r.err)
	}
}

func TestARequestUnderAUsedIDIsRefused(t *testing.T) {
	a := newAsking(t, nil)
	p := newPen(t, a.config)
	p.takeLead(1, penWriter)
	c := command("user-a", "1", account.Pro)
	other := command("user-a", "1", account.Team)
	first := ask(t.Context(), a, c)
	e, offset := a.sent(t)
	same, another := ask(t.Context(), a, c), ask(t.Context(), a, other) // while the first is in flight
	p.write(p.commit(c, offset, e.Fingerprint, 1))
	if r := <-first; r.err != nil {
		t.Fatal(r.err)
	}
	// Both either met the first in flight, or were sent; then what a writer does with a repeat happens here.
	row := streams.AnswerRow{Scope: c.Scope, CommandID: c.ID, Position: 1, Era: 1, Offset: 1, DecidedAt: "2026-11-30T00:00:00.000000Z"}
	ctx, cancel := context.WithCancel(t.Context())
	var replies sync.WaitGroup
	replies.Go(func() {
		for {
			f := a.commands.PollRecords(ctx, 1)
			if ctx.Err() != nil {
				return
			}
			repeat, err := a.schema.DecodeCommand(ctx, a.keys, f.Records()[0].Value)
			if err != nil {
				t.Error(err)
				return
			}
			reply := row
			reply.Fingerprint = repeat.Fingerprint
			if string(repeat.Fingerprint) != string(e.Fingerprint) {
				reply.Rejected = &domain.Rejection{Code: domain.CodeIDReused, Reason: "used"}
			}
			p.append(a.config.Topics.Replies(), kafka.ReplyHeaders(reply), nil)
		}
	})
	if r := <-same; r.err != nil || !r.answer.Repeated || r.answer.Position.Position != 1 {
		t.Fatalf("the same request was answered %+v", r)
	}
	if r := <-another; !rejectedWith(r.err, domain.CodeIDReused) {
		t.Fatalf("another request was answered %v", r.err)
	}
	// Later, when neither is in flight.
	if r := <-ask(t.Context(), a, c); r.err != nil || !r.answer.Repeated || r.answer.Position.Position != 1 {
		t.Fatalf("the same request was answered %+v", r)
	}
	if r := <-ask(t.Context(), a, other); !rejectedWith(r.err, domain.CodeIDReused) {
		t.Fatalf("another request was answered %v", r.err)
	}
	cancel()
	replies.Wait()
}

func TestAnIDDecidedLongAgoIsLookedUpAndNotSent(t *testing.T) {
	a := newAsking(t, nil)
	c := command("user-a", "1", account.Pro)
	index, err := a.keys.Index(t.Context(), c.Scope)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := a.schema.Plain(c.Body)
	if err != nil {
		t.Fatal(err)
	}
	old := streams.AnswerRow{
		Scope: c.Scope, CommandID: c.ID, Fingerprint: codec.Fingerprint(index, plain), Position: 41, Era: 1, Offset: 12,
		Heads: []streams.Head{{Stream: "account-a", Version: 7}}, DecidedAt: "2025-11-30T00:00:00.000000Z",
	}
	next := streams.Checkpoint{Next: 13, Acceptance: streams.Acceptance{Era: 1, Lead: 3, Writer: "w", After: streams.CommandPlace{Era: 1, Offset: 9}}}
	if err := a.states.Store(t.Context(), streams.Flush{Expected: streams.Start(), Next: next, Answers: []streams.AnswerRow{old}}); err != nil {
		t.Fatal(err)
	}
	r := <-ask(t.Context(), a, c)
	if r.err != nil || !r.answer.Repeated || r.answer.Position.Position != 41 || r.answer.Heads[0].Version != 7 {
		t.Fatalf("answered %+v", r)
	}
	if r := <-ask(t.Context(), a, command("user-a", "1", account.Team)); !rejectedWith(r.err, domain.CodeIDReused) {
		t.Fatalf("another request was answered %v", r.err)
	}
	// A new id is sent, and says for which checkpoint it was not there.
	ctx, cancel := context.WithCancel(t.Context())
	done := ask(ctx, a, command("user-a", "2", account.Pro))
	e, _ := a.sent(t)
	if e.ID != streams.CommandID("user-a", "2") || e.Known != next.Acceptance.After {
		t.Fatalf("sent %+v", e)
	}
	cancel()
	<-done
}

func TestACallerWhoLeavesKnowsWhetherItWasSent(t *testing.T) {
	gate := make(chan struct{})
	gated := &gatedStates{States: memory.NewStates(), gate: gate}
	a := newAsking(t, func(c *kafka.AskerConfig) { c.States = gated })
	p := newPen(t, a.config)
	p.takeLead(1, penWriter)
	gated.shut()
	c := command("user-a", "1", account.Pro)
	ctx, cancel := context.WithCancel(t.Context())
	leaves := ask(ctx, a, c)
	gated.reached(t)
	stays := ask(t.Context(), a, c)
	cancel()
	if r := <-leaves; !errors.Is(r.err, context.Canceled) || errors.Is(r.err, streams.ErrOutcomeUnknown) {
		t.Fatalf("who left before it was sent was answered %v", r.err)
	}
	close(gate)
	e, offset := a.sent(t) // the one who stays sent it
	ctx, cancel = context.WithCancel(t.Context())
	joined := ask(ctx, a, c)
	cancel()
	if r := <-joined; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("who left was answered %v", r.err)
	}
	p.write(p.commit(c, offset, e.Fingerprint, 1))
	if r := <-stays; r.err != nil {
		t.Fatalf("who stayed was answered %v", r.err)
	}
	// Alone, after it was sent.
	ctx, cancel = context.WithCancel(t.Context())
	alone := ask(ctx, a, command("user-a", "2", account.Pro))
	a.sent(t)
	cancel()
	if r := <-alone; !errors.Is(r.err, context.Canceled) || !errors.Is(r.err, streams.ErrOutcomeUnknown) {
		t.Fatalf("who left after it was sent was answered %v", r.err)
	}
}

// gatedStates hold look-ups back while shut.
type gatedStates struct {
	streams.States
	gate    chan struct{}
	mu      sync.Mutex
	closed  bool
	arrived chan struct{}
}

func (g *gatedStates) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.arrived = true, make(chan struct{}, 100)
}

func (g *gatedStates) reached(t testing.TB) {
	select {
	case <-g.arrived:
	case <-time.After(10 * time.Second):
		t.Fatal("no look-up came")
	}
}

func (g *gatedStates) Load(ctx context.Context, partition int32, what streams.Lookup) (streams.Snapshot, error) {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed {
		g.arrived <- struct{}{}
		select {
		case <-g.gate:
		case <-ctx.Done():
			return streams.Snapshot{}, ctx.Err()
		}
	}
	return g.States.Load(ctx, partition, what)
}

func TestAnAnswerThatDoesNotComeIsUnknown(t *testing.T) {
	a := newAsking(t, func(c *kafka.AskerConfig) { c.Wait = 2 * time.Second })
	c := command("user-a", "1", account.Pro)
	if r := <-ask(t.Context(), a, c); !errors.Is(r.err, streams.ErrOutcomeUnknown) {
		t.Fatalf("answered %v", r.err)
	}
	// The client repeats it under the same id, and hears what became of the first.
	p := newPen(t, a.config)
	p.takeLead(1, penWriter)
	e, offset := a.sent(t)
	done := ask(t.Context(), a, c)
	a.sent(t)
	p.write(p.commit(c, offset, e.Fingerprint, 1))
	if r := <-done; r.err != nil || r.answer.Position.Position != 1 || r.answer.CommandID != c.ID {
		t.Fatalf("the repeat was answered %+v", r)
	}
}

func TestWhoWaitsWhenTheAskerStopsIsTold(t *testing.T) {
	config := topics(t)
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	asker, err := kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: memory.NewKeys(), States: memory.NewStates()})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, asker.Run)
	a := &asking{Asker: asker, config: config, schema: schema, keys: memory.NewKeys()}
	if err := a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.commands = client(t, config.Seeds, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{config.Topics.Commands(): {0: kgo.NewOffset().At(0)}}))
	done := ask(t.Context(), a, command("user-a", "1", account.Pro))
	if err := a.commands.PollRecords(t.Context(), 1).Err0(); err != nil {
		t.Fatal(err)
	}
	stop()
	if r := <-done; !errors.Is(r.err, streams.ErrOutcomeUnknown) {
		t.Fatalf("answered %v", r.err)
	}
	if r := <-ask(t.Context(), a, command("user-a", "2", account.Pro)); r.err == nil || errors.Is(r.err, streams.ErrOutcomeUnknown) {
		t.Fatalf("an ask after the end was answered %v", r.err)
	}
}

func TestWhatMayNotBeAskedIsNotSent(t *testing.T) {
	busy := &streams.Busy{Reason: "behind", RetryAfter: time.Second}
	a := newAsking(t, func(c *kafka.AskerConfig) {
		c.Admit = func(context.Context, int32) error { return busy }
	})
	p := newPen(t, a.config)
	p.takeLead(1, penWriter)
	if r := <-ask(t.Context(), a, command("user-a", "1", account.Pro)); !errors.Is(r.err, busy) {
		t.Fatalf("answered %v", r.err)
	}
	for _, bad := range []func(*streams.Command){
		func(c *streams.Command) { c.Scope = "nobody" },
		func(c *streams.Command) { c.ID = "1" },
		func(c *streams.Command) { c.Body = nil },
	} {
		c := command("user-a", "2", account.Pro)
		bad(&c)
		if r := <-ask(t.Context(), a, c); r.err == nil {
			t.Fatalf("%+v was accepted", c)
		}
	}
	a.keys.Cut()
	if r := <-ask(t.Context(), a, command("user-a", "3", account.Pro)); !errors.As(r.err, new(*streams.Busy)) {
		t.Fatalf("without the vault: %v", r.err)
	}
	a.keys.Mend()
	if err := a.keys.Destroy(t.Context(), "user-gone"); err != nil {
		t.Fatal(err)
	}
	if r := <-ask(t.Context(), a, command("user-gone", "1", account.Pro)); !rejectedWith(r.err, domain.CodeScopeErased) {
		t.Fatalf("after erasure: %v", r.err)
	}
	// An outcome is recorded all the same, and is the first thing that was sent.
	c := command("user-a", "4", account.Pro)
	c.Actor.Kind = domain.ActorWorker
	done := ask(t.Context(), a, c)
	e, offset := a.sent(t)
	p.write(p.commit(c, offset, e.Fingerprint, 1))
	if r := <-done; r.err != nil || offset != 0 {
		t.Fatalf("an outcome was answered %v at %d", r.err, offset)
	}
}

func TestManyAskAtOnce(t *testing.T) {
	a := newAsking(t, nil)
	p := newPen(t, a.config)
	p.takeLead(1, penWriter)
	const n = 500
	results := make([]<-chan result, n)
	for i := range n {
		results[i] = ask(t.Context(), a, command("user-a", fmt.Sprint(i), account.Pro))
	}
	for i := range uint64(n) {
		e, offset := a.sent(t)
		p.write(p.commit(streams.Command{Scope: e.Scope, ID: e.ID}, offset, e.Fingerprint, i+1))
	}
	seen := map[uint64]bool{}
	for i, r := range results {
		got := <-r
		if got.err != nil || got.answer.CommandID != streams.CommandID("user-a", fmt.Sprint(i)) {
			t.Fatalf("ask %d was answered %+v", i, got)
		}
		seen[got.answer.Position.Position] = true
	}
	if len(seen) != n {
		t.Fatalf("%d different answers to %d asks", len(seen), n)
	}
}
