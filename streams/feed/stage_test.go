package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/kafka"
)

// press writes commits whose events belong to several feeds, and remembers what each feed must carry.
type press struct {
	pen
	random   *rand.Rand
	offset   int64
	position uint64
	seen     uint64              // the last position that read found
	want     map[string][]string // event ids by feed
}

func newPress(t testing.TB, config kafka.Config, seed uint64) *press {
	t.Helper()
	p := newReader(t, config)
	p.random = rand.New(rand.NewPCG(seed, 0))
	p.takeLead(1)
	return p
}

// newReader is a press that has printed nothing.
func newReader(t testing.TB, config kafka.Config) *press {
	t.Helper()
	return &press{pen: pen{t: t, cl: client(t, config), config: config, after: streams.NewAcceptance().After}, want: map[string][]string{}}
}

const secret = "a sealed word"

// print appends n commits of up to four events; some are rejections, and between them lies what does not count.
func (p *press) print(n int) {
	p.t.Helper()
	for range n {
		var positions []uint64
		for range p.random.IntN(5) {
			p.position++
			positions = append(positions, p.position)
		}
		commit := p.commit(p.offset, positions...)
		for i := range commit.Events {
			p.vary(&commit.Events[i])
		}
		if len(positions) == 0 {
			commit.Rejected = &domain.Rejection{Code: "no", Reason: "no"}
		}
		if p.random.IntN(4) == 0 {
			stray := commit
			stray.Writer = "zombie"
			p.write(stray)
		}
		p.write(commit)
		p.offset++
	}
}

func (p *press) vary(e *streams.Recorded) {
	switch p.random.IntN(3) {
	case 0:
		e.Stream, e.Type, e.Data = "thread-t", "thread.run_completed", []byte(`{"run_id":"r-1","turns":1}`)
	case 1:
		e.Stream, e.Type, e.Data = "thread-t", "thread.titled", []byte(`{}`)
		e.Sealed, e.Key, e.SealDigest = []byte(secret), 1, []byte("digest")
	}
	name, err := feed.Of(e.Stream)
	if err != nil {
		p.t.Fatal(err)
	}
	p.want[name] = append(p.want[name], e.ID)
}

// publisher makes one; change may be nil.
func (p *press) publisher(change func(*kafka.PublisherConfig)) *kafka.Publisher {
	p.t.Helper()
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		p.t.Fatal(err)
	}
	c := kafka.PublisherConfig{Config: p.config, Schema: schema, Every: time.Millisecond, SessionTimeout: 6 * time.Second}
	if change != nil {
		change(&c)
	}
	publisher, err := kafka.NewPublisher(c)
	if err != nil {
		p.t.Fatal(err)
	}
	return publisher
}

// level waits until a publisher has published what the log has.
func (p *press) level(publisher *kafka.Publisher) {
	p.t.Helper()
	end := p.end(p.config.Topics.Log())
	eventually(p.t, "the publisher is level", func() bool {
		stats := publisher.Stats()
		return len(stats) == 1 && stats[0].Next >= end
	})
}

func (p *press) end(topic string) int64 {
	p.t.Helper()
	ends, err := kadm.NewClient(p.cl).ListEndOffsets(context.Background(), topic)
	if err != nil {
		p.t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	return end.Offset
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("waited too long until %s", what)
		case <-tick.C:
		}
	}
}

// carried is what a consumer that reads what is committed finds on a feed.
func (p *press) carried(name string) []*kgo.Record {
	p.t.Helper()
	topic := p.config.Topics.Feed(name)
	end := p.end(topic)
	if end == 0 {
		return nil
	}
	cl := client(p.t, p.config, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	defer cl.Close()
	var records []*kgo.Record
	for next := int64(0); next < end; {
		f := cl.PollFetches(p.t.Context())
		if err := f.Err0(); err != nil {
			p.t.Fatal(err)
		}
		for _, r := range f.Records() {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		}
	}
	return records
}

// check compares every feed with what it must carry: all of it, once, in order.
func (p *press) check() {
	p.t.Helper()
	for _, name := range feed.Names() {
		var got []string
		for _, r := range p.carried(name) {
			got = append(got, header(r, "ce_id"))
		}
		if strings.Join(got, " ") != strings.Join(p.want[name], " ") {
			p.t.Fatalf("the feed %s carries %d events, want %d: %s", name, len(got), len(p.want[name]), difference(got, p.want[name]))
		}
	}
}

// difference is the first one.
func difference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("number %d is %s, want %s", i, got[i], want[i])
		}
	}
	return "one of them ends early"
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
