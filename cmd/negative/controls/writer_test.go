package controls_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
)

// A writer that another has overtaken, and does not know it yet, decides and appends, and the broker takes it. Nobody may
// hear of it: it does not count, and the one that leads now, of another release, decides otherwise.
func TestAnAnswerWaitsForWhatCounts(t *testing.T) {
	on(t, func(s *stage) {
		blind := make(chan struct{}) // closed: the overtaken writer reads the log again
		var look sync.Once
		defer func() { look.Do(func() { close(blind) }) }()
		holding := s.hold("overtaken", blind)
		overtaken, stop := s.writer(func(c *kafka.WriterConfig) {
			c.Options = append(c.Options[:1:1], kgo.Rack("overtaken"), kgo.DisableFetchSessions())
		})
		defer stop()
		elapse(5 * time.Second)
		s.send(wish("first", "x"))
		elapse(5 * time.Second)
		if p := overtaken.Stats(); len(p) != 1 || p[0].Decided != 1 {
			s.Fatalf("the first writer: %+v", p)
		}
		close(holding)
		elapse(10 * time.Second) // what it asked the broker for before was answered

		_, stopNext := s.writer(func(c *kafka.WriterConfig) { c.Group, c.Schema = "another group", release(s, 2) })
		defer stopNext()
		elapse(5 * time.Second)
		again := wish("second", "x")
		again.Known = streams.CommandPlace{Era: 1} // it was looked up: the writer need not ask its store, which would tell it
		s.send(again)
		s.send(again) // as a client does that waits too long
		elapse(5 * time.Second)
		look.Do(func() { close(blind) })
		elapse(30 * time.Second)
		s.heard()
		if v := s.judge(); v.Uncounted == 0 || v.Leads < 2 || v.Ops.Accepted == 0 {
			s.Fatalf("nothing happened:\n%s", v.Table())
		}
	})
}

// hold keeps the log from who fetches from a rack, from the moment the channel that it answers is closed until end is.
func (s *stage) hold(rack string, end <-chan struct{}) (begin chan struct{}) {
	s.Helper()
	topics, err := kadm.NewClient(s.hand).ListTopics(s.Context(), s.config.Topics.Log())
	if err != nil {
		s.Fatal(err)
	}
	id := topics[s.config.Topics.Log()].ID
	begin = make(chan struct{})
	s.cluster.ControlKey(int16(kmsg.Fetch), func(q kmsg.Request) (kmsg.Response, error, bool) {
		f := q.(*kmsg.FetchRequest)
		if f.Rack != rack || len(f.Topics) != 1 || f.Topics[0].TopicID != id {
			return nil, nil, false
		}
		select {
		case <-begin:
			s.cluster.SleepControl(func() { <-end })
		default:
		}
		return nil, nil, false
	})
	return begin
}

// Whatever is sent again under its id is decided once, however late it comes.
func TestACommandIsDecidedOnce(t *testing.T) {
	on(t, func(s *stage) {
		_, stop := s.writer(asItIs)
		defer stop()
		for range 3 {
			s.send(wish("once", "x"))
			elapse(5 * time.Second)
		}
		s.heard()
		if v := s.judge(); v.Commits != 1 || v.Ops.Accepted != 2 {
			s.Fatalf("sent three times:\n%s", v.Table())
		}
	})
}

// Copies of a command that come at once are decided once: one in flight is known although nothing of it was read back.
func TestCopiesThatComeAtOnceAreDecidedOnce(t *testing.T) {
	on(t, func(s *stage) {
		for range 3 {
			s.send(wish("once", "x"))
		}
		_, stop := s.writer(asItIs)
		defer stop()
		elapse(10 * time.Second)
		s.heard()
		if v := s.judge(); v.Commits != 1 || v.Ops.Accepted != 2 {
			s.Fatalf("sent three times at once:\n%s", v.Table())
		}
	})
}

// A store that was put back to what it was, as a database is from a copy, is not believed: the writer takes over anew.
func TestAStoreThatWentBackIsNotBelieved(t *testing.T) {
	on(t, func(s *stage) {
		back := &setBack{States: s.states}
		w, stop := s.writer(func(c *kafka.WriterConfig) { c.States, c.CachedStreams = back, 1 })
		defer stop()
		for _, to := range []string{"a", "b", "c"} {
			s.send(wish(to, to))
			elapse(5 * time.Second)
		}
		back.undo(s, 2)
		s.send(wish("again", "b")) // which it must load, since it keeps one
		elapse(30 * time.Second)
		if v := s.judge(); v.Commits != 4 || w.Stats()[0].Leads < 2 {
			s.Fatalf("%+v\n%s", w.Stats(), v.Table())
		}
	})
}

// setBack remembers what was stored, so that it can be undone.
type setBack struct {
	*memory.States
	mu      sync.Mutex
	flushes []streams.Flush
}

// Store implements streams.States.
func (b *setBack) Store(ctx context.Context, f streams.Flush) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.States.Store(ctx, f)
	if err == nil {
		b.flushes = append(b.flushes, f)
	}
	return err
}

func (b *setBack) undo(t testing.TB, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushes = b.flushes[:len(b.flushes)-n]
	if err := b.PutBack(t.Context(), b.flushes); err != nil {
		t.Fatal(err)
	}
}
