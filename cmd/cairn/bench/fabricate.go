package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// fabric makes commits as the writer would, without one: the deciders decide, and what they say is sealed, chained, encoded and
// appended under one lead. So a log of a million events is there in half a minute.
type fabric struct {
	config  kafka.Config
	schema  *codec.Schema
	keys    streams.Keys
	client  *kgo.Client
	broker  *kafka.Embedded
	thread  domain.Aggregate
	next    int64 // command offset
	after   streams.CommandPlace
	talkers []*fabricTalk
	turn    int
	events  int
	failed  atomic.Pointer[error]
}

// fabricTalk is a user who talks in one thread after another.
type fabricTalk struct {
	scope    domain.Scope
	key      streams.Key
	position uint64
	id       string
	state    any
	version  uint64
	hash     []byte
}

// fabricWriter is the writer's id under which it all counts.
const fabricWriter = "0123456789abcdef0123456789abcdef"

// newFabric starts an embedded broker in dir with an empty log that it leads.
func newFabric(ctx context.Context, dir string, users int) (*fabric, error) {
	f := &fabric{keys: memory.NewKeys()}
	var err error
	if f.schema, err = codec.New(aggregates.All()...); err != nil {
		return nil, err
	}
	aggregate, ok := f.schema.Aggregate("thread")
	if !ok {
		return nil, errors.New("bench: there is no aggregate thread")
	}
	f.thread = aggregate
	if f.broker, err = kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: filepath.Join(dir, "broker"), Fatal: func(error) {}}); err != nil {
		return nil, err
	}
	f.config = kafka.Config{Seeds: f.broker.Seeds(), LiveSeeds: f.broker.LiveSeeds(), Topics: kafka.EmbeddedTopics()}
	if err := f.begin(ctx, users); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *fabric) begin(ctx context.Context, users int) (err error) {
	if err := f.config.Ensure(ctx); err != nil {
		return err
	}
	if f.client, err = kgo.NewClient(kgo.SeedBrokers(f.config.Seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(1<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()),
		kgo.MaxBufferedRecords(1<<14)); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	value, err := codec.EncodeLead(codec.Lead{Kind: codec.KindLead, Era: 1, Lead: 1, Writer: fabricWriter, At: time.Now().UTC().Format(streams.TimeLayout)})
	if err != nil {
		return err
	}
	mark := streams.Mark{Sort: streams.SortLead, Era: 1, Lead: 1, Writer: fabricWriter}
	if err := f.client.ProduceSync(ctx, &kgo.Record{Topic: f.config.Topics.Log(), Value: value, Headers: kafka.LeadHeaders(mark)}).FirstErr(); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	f.after = streams.NewAcceptance().After
	for range users {
		t := &fabricTalk{scope: domain.User(uuid.NewString())}
		if t.key, err = f.keys.Current(ctx, t.scope); err != nil {
			return err
		}
		f.talkers = append(f.talkers, t)
	}
	return nil
}

func (f *fabric) close() error {
	if f.client != nil {
		f.client.Close()
	}
	return f.broker.Close()
}

// State and Version implement domain.View.
func (t *fabricTalk) State(domain.Stream) any      { return t.state }
func (t *fabricTalk) Version(domain.Stream) uint64 { return t.version }

// exchanges of a thread before its user begins another: about sixty events.
const exchanges = 60

// talk lets the next user say something and get an answer, and hands each commit on. Each third answer calls two tools first,
// and is interrupted by the next message.
func (f *fabric) talk(commit func(streams.Commit) error) error {
	t := f.talkers[f.turn%len(f.talkers)]
	n := f.turn / len(f.talkers)
	f.turn++
	if t.state == nil || t.version > exchanges {
		t.id, t.state, t.version, t.hash = uuid.NewString(), f.thread.Zero(), 0, nil
	}
	on, run := thread.On{Thread: t.id}, uuid.NewString()
	turn := thread.CompleteTurn{
		On: on, RunID: run, Turn: 1, Attempt: 1, Model: "bench", FinishReason: "stop", InputTokens: 900, OutputTokens: 40,
		Content: thread.PlannedTurn{Text: strings.Repeat("It went well: everybody came, and the tent held. ", 4)},
	}
	if n%3 == 2 {
		turn.FinishReason = "tool_calls"
		for range 2 {
			turn.Plans = append(turn.Plans, thread.Plan{Tool: "list_tasks", Executor: thread.OnDevice, Action: "select", Table: "tasks", Repeatable: true})
			turn.Content.Calls = append(turn.Content.Calls, thread.TurnCall{ModelID: "call", Tool: "list_tasks", Arguments: `{"status":"todo"}`})
			turn.Content.Payloads = append(turn.Content.Payloads, thread.Payload{Fields: []byte(`{"where":{"status":"todo"}}`)})
		}
	}
	for _, body := range []domain.Command{
		thread.PostMessage{
			On: on, New: t.version == 0, RunID: run, Channel: thread.Home, OnBusy: thread.Interrupt, DeviceID: "bench",
			Content: thread.Content{Text: "What is left to do for the week of the fair, and who does it?"},
		},
		thread.DecideRoute{On: on, RunID: run, Attempt: 1, Agent: thread.FallbackAgent, Model: "bench"},
		turn,
	} {
		c, err := f.decide(t, body)
		if err == nil {
			err = commit(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fabric) decide(t *fabricTalk, body domain.Command) (streams.Commit, error) {
	facts, err := f.thread.Decide(t, body)
	if err != nil {
		return streams.Commit{}, fmt.Errorf("bench: %T: %w", body, err)
	}
	id := uuid.NewString()
	c := streams.Commit{
		Era: 1, Lead: 1, Writer: fabricWriter, CommandOffset: f.next, After: f.after, Scope: t.scope, CommandID: id,
		Fingerprint: make([]byte, 32), DecidedAt: time.Now().UTC().Format(streams.TimeLayout),
		Actor: codec.EncodeActor(domain.Actor{Kind: domain.ActorUser, ID: "bench"}), CorrelationID: id,
	}
	f.after = streams.CommandPlace{Era: 1, Offset: f.next}
	f.next++
	for i, fact := range facts {
		r, err := f.schema.Record(t.key, t.scope, id, i, fact.Stream, t.version+1, t.position+1, c.DecidedAt, c.Actor, t.hash, fact.Event)
		if err != nil {
			return streams.Commit{}, err
		}
		t.state, t.version, t.position, t.hash = f.thread.Evolve(t.state, fact.Event), r.Version, r.Position, r.Hash
		c.Events = append(c.Events, r)
	}
	f.events += len(c.Events)
	return c, nil
}

// append produces a commit; acked is told of its acknowledgement.
func (f *fabric) append(ctx context.Context, c streams.Commit, acked func(offset int64)) error {
	if failed := f.failed.Load(); failed != nil {
		return *failed
	}
	value, err := codec.EncodeCommit(c)
	if err != nil {
		return err
	}
	position := uint64(0)
	if n := len(c.Events); n > 0 {
		position = c.Events[n-1].Position
	}
	f.client.Produce(ctx, &kgo.Record{
		Topic: f.config.Topics.Log(), Key: []byte(c.Scope), Value: value, Headers: kafka.CommitHeaders(c, position),
	}, func(r *kgo.Record, err error) {
		if err != nil {
			f.failed.CompareAndSwap(nil, &err)
			return
		}
		if acked != nil {
			acked(r.Offset)
		}
	})
	return nil
}

// fill appends until the log has so many events.
func (f *fabric) fill(ctx context.Context, events int) error {
	for f.events < events {
		if err := f.talk(func(c streams.Commit) error { return f.append(ctx, c, nil) }); err != nil {
			return err
		}
	}
	if err := f.client.Flush(ctx); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if failed := f.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}
