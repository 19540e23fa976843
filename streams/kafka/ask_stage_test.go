package kafka_test

import (
	"context"
	"errors"
	"sync"
	"testing"

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
	config := topics(t)
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
