package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// pen writes on the log by hand, as a writer would or as none may.
type pen struct {
	t      testing.TB
	cl     *kgo.Client
	config kafka.Config
	after  streams.CommandPlace
	lead   int64
}

const penWriter = "pen"

func newPen(t testing.TB, config kafka.Config) *pen {
	return &pen{t: t, cl: client(t, config.Seeds), config: config, after: streams.NewAcceptance().After}
}

func (p *pen) append(topic string, headers []kgo.RecordHeader, value []byte) int64 {
	p.t.Helper()
	r := &kgo.Record{Topic: topic, Headers: headers, Value: value}
	cl := p.cl
	if topic == p.config.Topics.Replies() {
		cl = client(p.t, p.config.LiveSeeds)
	}
	if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
	return r.Offset
}

func (p *pen) takeLead(n int64, writer string) {
	p.t.Helper()
	value, err := codec.EncodeLead(codec.Lead{Kind: codec.KindLead, Era: 1, Lead: n, Writer: writer, At: "2026-11-30T00:00:00.000000Z"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.append(p.config.Topics.Log(), kafka.LeadHeaders(streams.Mark{Sort: streams.SortLead, Era: 1, Lead: n, Writer: writer}), value)
	p.lead = n
}

// commit is the next commit of the current lead, with one event for each position.
func (p *pen) commit(c streams.Command, offset int64, fingerprint []byte, positions ...uint64) streams.Commit {
	commit := streams.Commit{
		Era: 1, Lead: p.lead, Writer: penWriter, CommandOffset: offset, After: p.after,
		Scope: c.Scope, CommandID: c.ID, Fingerprint: fingerprint, DecidedAt: "2026-11-30T00:00:00.000000Z", Actor: []byte(`{"kind":"user"}`),
	}
	for i, position := range positions {
		commit.Events = append(commit.Events, streams.Recorded{
			ID: streams.EventID(c.ID, i), Scope: c.Scope, Stream: "account-a", Version: position, Position: position,
			Type: "account.tier_changed", Schema: 1, Data: []byte(`{"from":"free","to":"pro"}`), Hash: []byte("x"),
		})
	}
	return commit
}

func (p *pen) write(c streams.Commit) {
	p.t.Helper()
	var position uint64
	if n := len(c.Events); n > 0 {
		position = c.Events[n-1].Position
	}
	value, err := codec.EncodeCommit(c)
	if err != nil {
		p.t.Fatal(err)
	}
	p.append(p.config.Topics.Log(), kafka.CommitHeaders(c, position), value)
	if c.Writer == penWriter && c.Era == 1 && c.Lead == p.lead && c.After == p.after {
		p.after = streams.CommandPlace{Era: c.Era, Offset: c.CommandOffset}
	}
}

// asking is an asker on a broker in memory, with the commands that it sent.
type asking struct {
	*kafka.Asker
	config   kafka.Config
	schema   *codec.Schema
	keys     *memory.Keys
	states   streams.States
	commands *kgo.Client
}

func newAsking(t testing.TB, change func(*kafka.AskerConfig)) *asking {
	t.Helper()
	_, config := start(t, kafka.EmbeddedConfig{})
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	a := &asking{config: config, schema: schema, keys: memory.NewKeys(), states: memory.NewStates()}
	c := kafka.AskerConfig{Config: config, Schema: schema, Keys: a.keys, States: a.states}
	if change != nil {
		change(&c)
	}
	a.states = c.States
	if a.Asker, err = kafka.NewAsker(c); err != nil {
		t.Fatal(err)
	}
	a.commands = client(t, config.Seeds, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{config.Topics.Commands(): {0: kgo.NewOffset().At(0)}}))
	run(t, a.Asker.Run)
	if err := a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// run runs something until the test ends, and waits for it.
func run(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// sent waits for the next command on the topic.
func (a *asking) sent(t testing.TB) (codec.Envelope, int64) {
	t.Helper()
	f := a.commands.PollRecords(t.Context(), 1)
	if err := f.Err0(); err != nil {
		t.Fatal(err)
	}
	r := f.Records()[0]
	e, err := a.schema.DecodeCommand(t.Context(), a.keys, r.Value)
	if err != nil {
		t.Fatal(err)
	}
	return e, r.Offset
}

func command(scope domain.Scope, request string, to account.Tier) streams.Command {
	return streams.Command{
		Scope: scope, ID: streams.CommandID(scope, request), Actor: domain.Actor{Kind: domain.ActorUser},
		Body: account.ChangeTier{On: account.On{Account: "a"}, To: to},
	}
}

type result struct {
	answer streams.Answer
	err    error
}

func ask(ctx context.Context, a *asking, c streams.Command) <-chan result {
	done := make(chan result, 1)
	go func() {
		answer, err := a.Ask(ctx, c)
		done <- result{answer, err}
	}()
	return done
}

func rejectedWith(err error, code string) bool {
	var r *domain.Rejection
	return errors.As(err, &r) && r.Code == code
}

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
	a := newAsking(t, func(c *kafka.AskerConfig) { c.Wait = 200 * time.Millisecond })
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
	if r := <-done; r.err != nil || !r.answer.Repeated {
		t.Fatalf("the repeat was answered %+v", r)
	}
}

func TestWhoWaitsWhenTheAskerStopsIsTold(t *testing.T) {
	_, config := start(t, kafka.EmbeddedConfig{})
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

func TestATailGivesWhatCountsAndMovesOverTheRest(t *testing.T) {
	_, config := start(t, kafka.EmbeddedConfig{})
	p := newPen(t, config)
	tailer, err := kafka.NewTailer(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tailer.Close)
	c := command("user-a", "1", account.Pro)
	p.append(config.Topics.Log(), nil, []byte("junk"))
	p.takeLead(1, penWriter)
	p.write(p.commit(c, 0, nil, 1))
	early := p.commit(c, 9, nil, 2)
	early.After.Offset = 8
	p.write(early)
	p.takeLead(1, "late")
	p.lead = 1
	p.write(p.commit(c, 1, nil, 2, 3))
	p.takeLead(2, "next") // counts: what follows from the pen does not
	p.lead = 1
	p.write(p.commit(c, 2, nil, 4))
	var all []streams.Commit
	var ends []streams.Checkpoint
	tail := func(from streams.Checkpoint, until int64) streams.Checkpoint {
		t.Helper()
		at := from
		stop := errors.New("enough")
		err := tailer.Tail(t.Context(), 0, from, func(_ context.Context, b streams.Batch) error {
			if b.From != at {
				t.Fatalf("a batch from %+v after %+v", b.From, at)
			}
			at = b.Next
			all = append(all, b.Commits...)
			ends = append(ends, at)
			if at.Next >= until {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		return at
	}
	end := tail(streams.Start(), 8)
	if len(all) != 2 || all[0].Place.Offset != 2 || all[1].Place.Offset != 5 || all[1].Events[1].Place.Index != 1 {
		t.Fatalf("got %+v", all)
	}
	want := streams.Checkpoint{Next: 8, Acceptance: streams.Acceptance{Era: 1, Lead: 2, Writer: "next", After: streams.CommandPlace{Era: 1, Offset: 1}}}
	if end != want {
		t.Fatalf("ended at %+v, want %+v", end, want)
	}
	// Live says the same, also to somebody who has seen nothing.
	fresh, err := kafka.NewTailer(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fresh.Close)
	for _, who := range []*kafka.Tailer{tailer, fresh} {
		if live, err := who.Live(t.Context(), 0); err != nil || live != want {
			t.Fatalf("live is %+v (%v), want %+v", live, err, want)
		}
	}
	// Beyond the end there is nothing to tail from.
	err = tailer.Tail(t.Context(), 0, streams.Checkpoint{Next: 100}, func(context.Context, streams.Batch) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "reading partition 0") {
		t.Fatalf("beyond the end: %v", err)
	}
}

func TestATailStopsAtWhatNoWriterMayWrite(t *testing.T) {
	for name, wrong := range map[string]func(p *pen, c streams.Command){
		"a gap in a commit":     func(p *pen, c streams.Command) { p.write(p.commit(c, 1, nil, 3, 5)) },
		"a gap between commits": func(p *pen, c streams.Command) { p.write(p.commit(c, 1, nil, 4)) },
		"a position again":      func(p *pen, c streams.Command) { p.write(p.commit(c, 1, nil, 2)) },
		"a scope that begins late": func(p *pen, c streams.Command) {
			c.Scope = "user-b"
			p.write(p.commit(c, 1, nil, 2))
		},
		"another body": func(p *pen, c streams.Command) {
			value, err := codec.EncodeCommit(p.commit(c, 7, nil, 3))
			if err != nil {
				p.t.Fatal(err)
			}
			p.append(p.config.Topics.Log(), kafka.CommitHeaders(p.commit(c, 1, nil, 3), 3), value)
		},
		"bytes": func(p *pen, c streams.Command) {
			p.append(p.config.Topics.Log(), kafka.CommitHeaders(p.commit(c, 1, nil, 3), 3), []byte("{"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, config := start(t, kafka.EmbeddedConfig{})
			p := newPen(t, config)
			p.takeLead(1, penWriter)
			c := command("user-a", "1", account.Pro)
			p.write(p.commit(c, 0, nil, 1, 2))
			wrong(p, c)
			tailer, err := kafka.NewTailer(config, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(tailer.Close)
			err = tailer.Tail(t.Context(), 0, streams.Start(), func(context.Context, streams.Batch) error { return nil })
			var defect *kafka.Defect
			if !errors.As(err, &defect) || defect.Offset != 2 {
				t.Fatalf("ended with %v", err)
			}
			// Once an operator has voided it, it counts without events.
			config.Voided = func(context.Context, int32) (map[int64]bool, error) { return map[int64]bool{2: true}, nil }
			if name == "another body" || name == "bytes" {
				return
			}
			again, err := kafka.NewTailer(config, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(again.Close)
			enough := errors.New("enough")
			err = again.Tail(t.Context(), 0, streams.Start(), func(_ context.Context, b streams.Batch) error {
				if b.Next.Next < 3 {
					return nil
				}
				if last := b.Commits[len(b.Commits)-1]; len(last.Events) != 0 || b.Next.Acceptance.After.Offset != 1 {
					t.Errorf("a voided commit is %+v", last)
				}
				return enough
			})
			if !errors.Is(err, enough) {
				t.Fatal(err)
			}
		})
	}
}

func TestLiveFramesArriveOpenedAndTravelSealed(t *testing.T) {
	_, config := start(t, kafka.EmbeddedConfig{})
	keys := memory.NewKeys()
	live, err := kafka.NewLive(config, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	got := make(chan streams.LiveFrame, 1000)
	run(t, func(ctx context.Context) error {
		return live.Follow(ctx, func(f streams.LiveFrame) { got <- f })
	})
	frame := func(n int) streams.LiveFrame {
		return streams.LiveFrame{
			Scope: "user-a", Stream: "thread-t", RunID: "r", Turn: 1, Attempt: 2, N: n, Kind: "text", Offset: 3, Blocks: 1,
			Text: fmt.Sprintf("secret <%d>", n), Data: []byte(`{"secret":1}`),
		}
	}
	// Follow begins at the end that it finds, so frames go out until the first arrives.
	n := 0
	for began := false; !began; {
		n++
		if err := live.Publish(t.Context(), frame(n)); err != nil {
			t.Fatal(err)
		}
		select {
		case f := <-got:
			if fmt.Sprint(f) != fmt.Sprint(frame(f.N)) {
				t.Fatalf("got %+v, want %+v", f, frame(f.N))
			}
			n = f.N
			began = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	for i := range 100 {
		if err := live.Publish(t.Context(), frame(10000+i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 100; {
		if f := <-got; f.N >= 10000 {
			if fmt.Sprint(f) != fmt.Sprint(frame(10000+i)) {
				t.Fatalf("got %+v, want %+v", f, frame(10000+i))
			}
			i++
		}
	}
	for _, raw := range read(t, config.LiveSeeds, config.Topics.Live(), 100) {
		if strings.Contains(raw, "secret") {
			t.Fatalf("content travels in clear: %s", raw)
		}
	}
	// Without a key there is no frame.
	if err := keys.Destroy(t.Context(), "user-a"); err != nil {
		t.Fatal(err)
	}
	if err := live.Publish(t.Context(), frame(1)); !errors.Is(err, streams.ErrScopeErased) {
		t.Fatalf("after erasure: %v", err)
	}
}
