package feed_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/feed"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
)

// fencings are both ways; what they have in common is tested with each.
func fencings(t *testing.T, law func(*testing.T, func(*kafka.PublisherConfig))) {
	t.Run("transactions", func(t *testing.T) { law(t, nil) })
	t.Run("alone", func(t *testing.T) { law(t, func(c *kafka.PublisherConfig) { c.Fencing = kafka.Alone }) })
}

func TestTheFeedsCarryEveryEventOnceInOrder(t *testing.T) {
	t.Parallel()
	fencings(t, func(t *testing.T, change func(*kafka.PublisherConfig)) {
		p := newPress(t, topics(t), 1)
		p.print(50)
		for range 2 { // stopped and begun again, with something new, and with nothing new
			for _, n := range []int{0, 20} {
				publisher := p.publisher(change)
				stop := run(t, publisher.Run)
				p.level(publisher)
				p.print(n)
				p.level(publisher)
				stop()
				p.check()
			}
		}
	})
}

func TestAFeedRecordIsACloudEventWithoutContent(t *testing.T) {
	t.Parallel()
	p := newPress(t, topics(t), 2)
	p.print(30)
	publisher := p.publisher(nil)
	run(t, publisher.Run)
	p.level(publisher)
	sealed := 0
	for _, name := range feed.Names() {
		for _, r := range p.carried(name) {
			for _, want := range [][2]string{
				{"ce_specversion", "1.0"}, {"ce_source", "/scopes/user-a"}, {"ce_partitionkey", "user-a"}, {"content-type", "application/json"},
				{"ce_time", "2026-11-30T00:00:00.000000Z"}, {"ce_schemaversion", "1"}, {"ce_actor", "user"}, {"ce_logera", "1"},
			} {
				if got := header(r, want[0]); got != want[1] {
					t.Errorf("%s is %q, want %q", want[0], got, want[1])
				}
			}
			if string(r.Key) != "user-a" || len(r.Value) == 0 {
				t.Errorf("key %q, value %q", r.Key, r.Value)
			}
			typ := header(r, "ce_type")
			if want := "https://raw.githubusercontent.com/cairnhq/cairn/main/streams/schemas/" + strings.TrimSuffix(typ, ".v1") + "/v1.json"; header(r, "ce_dataschema") != want {
				t.Errorf("%s has the schema %q", typ, header(r, "ce_dataschema"))
			}
			if typ == "thread.run_completed.v1" && (header(r, "ce_run") != "r-1" || header(r, "ce_subject") != "thread-t") {
				t.Errorf("run %q, subject %q", header(r, "ce_run"), header(r, "ce_subject"))
			}
			if typ == "thread.titled.v1" {
				sealed++
				if header(r, "ce_sealedbytes") != "13" || header(r, "ce_sealdigest") != base64.StdEncoding.EncodeToString([]byte("digest")) {
					t.Errorf("a sealed event says %+v", r.Headers)
				}
			}
			all := append([]byte(nil), r.Value...)
			for _, h := range r.Headers {
				all = append(append(all, h.Key...), h.Value...)
			}
			if bytes.Contains(all, []byte(secret)) || bytes.Contains(all, []byte(base64.StdEncoding.EncodeToString([]byte(secret)))) {
				t.Errorf("%s carries sealed bytes", typ)
			}
		}
	}
	if sealed == 0 {
		t.Fatal("no sealed event was published")
	}
}

var errCut = errors.New("cut off")

// scissors cut a process off for good when it has written so many times: before the write, or after it, so that what
// was asked is done and the answer is lost.
type scissors struct {
	mu    sync.Mutex
	left  int
	after bool
	cut   chan struct{}
	conns []net.Conn
}

func (s *scissors) dial(ctx context.Context, network, address string) (net.Conn, error) {
	select {
	case <-s.cut:
		return nil, errCut
	default:
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	return &scissored{Conn: c, scissors: s}, nil
}

// count answers whether this write is made, and whether anything follows it.
func (s *scissors) count() (written, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < 0 {
		return false, true
	}
	if s.left--; s.left >= 0 {
		return true, false
	}
	close(s.cut)
	return s.after, true
}

func (s *scissors) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

type scissored struct {
	net.Conn
	scissors *scissors
}

func (c *scissored) Write(b []byte) (int, error) {
	written, last := c.scissors.count()
	if last {
		if written {
			if _, err := c.Conn.Write(b); err != nil {
				return 0, err
			}
		}
		c.scissors.hang()
		return 0, errCut
	}
	return c.Conn.Write(b)
}

// TestAKilledPublisherLeavesNoGapAndNoDouble kills a publisher at each of its writes to the brokers, before the write and
// after it, and lets the next one go on. With transactions: without them the broker dies with the publisher.
func TestAKilledPublisherLeavesNoGapAndNoDouble(t *testing.T) {
	t.Parallel()
	step := 3 // before every second of the writes tried, after the others
	if kafkatest.Seeds(t) != nil {
		step = 9 // each needs two new members of a group there, which takes seconds
	}
	p := newPress(t, topics(t), 3)
	p.print(20)
	points := 0
	for at := 4; ; at += step {
		s := &scissors{left: at, after: at%2 == 0, cut: make(chan struct{})}
		killed := p.publisher(func(c *kafka.PublisherConfig) {
			c.Options = append(append([]kgo.Opt(nil), c.Options...), kgo.Dialer(s.dial))
			c.Within = 2 * time.Second
			c.Group = fmt.Sprint(p.config.Topics.Log(), ".killed.", at) // which it does not leave, as a killed process does not
			c.TransactionalID = p.config.Topics.Log() + ".feeds"
		})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- killed.Run(ctx) }()
		end, finished := p.end(p.config.Topics.Log()), false
		eventually(t, "it is killed, or level", func() bool {
			select {
			case <-s.cut:
				return true
			default:
			}
			stats := killed.Stats()
			finished = len(stats) == 1 && stats[0].Next >= end
			return finished
		})
		s.mu.Lock()
		if s.left >= 0 { // it was level before its time came
			s.left = -1
			close(s.cut)
		}
		s.mu.Unlock()
		s.hang()
		ended(t, stop, done)
		next := p.publisher(func(c *kafka.PublisherConfig) {
			c.Group = fmt.Sprint(p.config.Topics.Log(), ".next.", at)
			c.TransactionalID = p.config.Topics.Log() + ".feeds"
		})
		stopNext := run(t, next.Run)
		p.level(next)
		stopNext()
		p.check()
		points++
		if finished {
			break
		}
		p.print(6) // something for the next one to be killed over
	}
	t.Logf("%d kill points", points)
	if points < 4 {
		t.Fatalf("only %d kill points", points)
	}
}

// TestAZombiePublisherAddsNothing lets two publishers that both believe to have the partition publish at once.
func TestAZombiePublisherAddsNothing(t *testing.T) {
	t.Parallel()
	p := newPress(t, topics(t), 4)
	// Groups of their own give each the partition; the transactional id is the partition's.
	both := []*kafka.Publisher{}
	for _, group := range []string{".one", ".other"} {
		both = append(both, p.publisher(func(c *kafka.PublisherConfig) {
			c.Group = p.config.Topics.Log() + group
			c.GiveWay = 50 * time.Millisecond
			c.TransactionalID = p.config.Topics.Log() + ".feeds"
		}))
	}
	for _, publisher := range both {
		run(t, publisher.Run)
	}
	for range 20 {
		p.print(10)
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
	}
	end := p.end(p.config.Topics.Log())
	defer func() { t.Logf("%+v %+v", both[0].Stats(), both[1].Stats()) }()
	eventually(t, "one of them is level", func() bool {
		for _, publisher := range both {
			if s := publisher.Stats(); len(s) == 1 && s[0].Next >= end && s[0].Waiting == "" {
				return true
			}
		}
		return false
	})
	p.check()
}

func TestAFeedOfAnotherLogIsNotContinued(t *testing.T) {
	t.Parallel()
	p := newPress(t, topics(t), 5)
	p.print(10)
	stop := func() func() {
		publisher := p.publisher(nil)
		stop := run(t, publisher.Run)
		p.level(publisher)
		return stop
	}()
	stop()
	// The feeds go on from an event that the log does not have.
	other := p.commit(p.offset, p.position+1)
	e, err := feed.New(streams.Recorded{
		ID: other.Events[0].ID, Scope: "user-a", Stream: "account-a", Type: "account.erased", Schema: 1, Actor: other.Actor, Version: 1, Position: 1,
		Place: streams.Place{Offset: 3},
	}, []byte("{}"), 1)
	if err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: p.config.Topics.Feed("accounts"), Key: []byte("user-a"), Value: e.Data}
	for _, a := range e.Attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + a.Name, Value: []byte(a.Value)})
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: kafka.HeaderResume, Value: []byte("2 1 1 0 -1 " + penWriter)})
	if err := p.cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	publisher := p.publisher(nil)
	run(t, publisher.Run)
	eventually(t, "it says so", func() bool {
		s := publisher.Stats()
		return len(s) == 1 && strings.Contains(s[0].Waiting, "another log")
	})
}

func TestAPublisherRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	p := newPress(t, topics(t), 6)
	commit := p.commit(0, 1)
	commit.Events[0].Type = "account.from_the_future"
	p.write(commit)
	publisher := p.publisher(nil)
	run(t, publisher.Run)
	eventually(t, "it says so", func() bool {
		s := publisher.Stats()
		return len(s) == 1 && strings.Contains(s[0].Waiting, "account.from_the_future")
	})
	if n := p.end(p.config.Topics.Feed("accounts")); n != 0 {
		t.Errorf("the feed has %d records", n)
	}
	if _, err := kafka.NewPublisher(kafka.PublisherConfig{}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a publisher without anything: %v", err)
	}
}
