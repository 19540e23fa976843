package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// topics is a broker with its topics, for one test.
func topics(t testing.TB) kafka.Config {
	t.Helper()
	config := kafkatest.Broker(t)
	if err := config.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return config
}

func client(t testing.TB, config kafka.Config, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(options, kgo.SeedBrokers(config.Seeds...), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// run runs f until stop, or the test's end.
func run(t testing.TB, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var once sync.Once
	stop = func() { once.Do(func() { ended(t, cancel, done) }) }
	t.Cleanup(stop)
	return stop
}

// ended waits until a Run that is told to stop has ended.
func ended(t testing.TB, stop context.CancelFunc, done <-chan error) {
	t.Helper()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the publisher ended with %v", err)
	}
}

const penWriter = "pen"

// pen writes the log as a leading writer does.
type pen struct {
	t      testing.TB
	cl     *kgo.Client
	config kafka.Config
	lead   int64
	after  streams.CommandPlace
}

func (p *pen) append(topic string, headers []kgo.RecordHeader, value []byte) {
	p.t.Helper()
	if err := p.cl.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Headers: headers, Value: value}).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pen) takeLead(n int64) {
	p.t.Helper()
	value, err := codec.EncodeLead(codec.Lead{Kind: codec.KindLead, Era: 1, Lead: n, Writer: penWriter, At: "2026-11-30T00:00:00.000000Z"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.append(p.config.Topics.Log(), kafka.LeadHeaders(streams.Mark{Sort: streams.SortLead, Era: 1, Lead: n, Writer: penWriter}), value)
	p.lead = n
}

// commit is the next commit, of command number offset, with an event for each position.
func (p *pen) commit(offset int64, positions ...uint64) streams.Commit {
	const scope = domain.Scope("user-a")
	id := streams.CommandID(scope, fmt.Sprint("command ", offset))
	c := streams.Commit{
		Era: 1, Lead: p.lead, Writer: penWriter, CommandOffset: offset, After: p.after,
		Scope: scope, CommandID: id, DecidedAt: "2026-11-30T00:00:00.000000Z", Actor: []byte(`{"kind":"user"}`),
	}
	for i, position := range positions {
		c.Events = append(c.Events, streams.Recorded{
			ID: streams.EventID(id, i), Scope: scope, Stream: "account-a", Version: position, Position: position,
			Type: "account.tier_changed", Schema: 1, Data: []byte(`{"from":"free","to":"pro"}`), Hash: []byte("x"),
		})
	}
	return c
}

// write appends a commit; one that does not count changes nothing else.
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
	if c.Writer == penWriter {
		p.after = streams.CommandPlace{Era: c.Era, Offset: c.CommandOffset}
	}
}
