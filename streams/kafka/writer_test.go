package kafka_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
)

// on runs a test with one writer and one asker in virtual time.
func on(t *testing.T, partitions int32, change func(*kafka.WriterConfig), test func(s *stage, h *host, ask *kafka.Asker)) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, partitions)
		defer s.close()
		h := s.start(change)
		ask, stop := s.asker()
		defer stop()
		leading(h)
		test(s, h, ask)
	})
}

// A command is decided once, its answer names where it ended up, and the same request has the same answer.
func TestACommandIsDecidedOnce(t *testing.T) {
	on(t, 1, nil, func(s *stage, _ *host, ask *kafka.Asker) {
		w := wish("user-a", "1", add{Tally: "x", By: 2, Also: []string{"y"}, Note: note{"secret"}})
		first := mustAsk(s.t, ask, w)
		if first.Position.Position != 2 || len(first.Heads) != 2 || first.Repeated {
			s.t.Fatalf("first answer: %+v", first)
		}
		if again := mustAsk(s.t, ask, w); !again.Repeated || again.Position != first.Position {
			s.t.Fatalf("repeated: %+v, first %+v", again, first)
		}
		w.Request = []byte("another")
		if _, err := ask.Ask(context.Background(), w); code(err) != domain.CodeIDReused {
			s.t.Fatalf("another request under a used id: %v", err)
		}
		no := wish("user-a", "2", add{Tally: "x"})
		for range 2 {
			if _, err := ask.Ask(context.Background(), no); code(err) != "nothing" || !strings.Contains(err.Error(), "add to 2") {
				s.t.Fatalf("refused: %v", err)
			}
		}
		if all := s.check(); len(all.commits) != 2 || all.tallies[streams.StreamKey{Scope: "user-a", Stream: "tally-x"}] != 2 {
			s.t.Fatalf("the log: %+v", all)
		}
	})
}

// send appends a raw command, as somebody does who knows no better.
func (s *stage) send(partition int32, headers []kgo.RecordHeader, value []byte) {
	s.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.config.Seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, s.config.Options...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	r := &kgo.Record{Topic: s.config.Topics.Commands(), Partition: partition, Headers: headers, Value: value}
	if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// read answers the first n records of a topic, of all partitions.
func (s *stage) read(topic string, n int) []*kgo.Record {
	s.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.config.Seeds...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, s.config.Options...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		all = append(all, cl.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			s.t.Fatalf("%s has %d records of %d", topic, len(all), n)
		}
	}
	return all
}

// What can never be decided is rejected, parked as it came and reported, and the partition goes on.
func TestWhatCanNeverWorkIsParkedAndThePartitionGoesOn(t *testing.T) {
	on(t, 2, nil, func(s *stage, h *host, ask *kafka.Asker) {
		scope := domain.Scope("user-a")
		home := s.config.Topics.PartitionOf(scope)
		for _, do := range []string{"panic", "look", "stray", "sour"} {
			w := wish(scope, do, add{Tally: "x", By: 1, Do: do})
			for range 2 {
				if _, err := ask.Ask(context.Background(), w); code(err) != domain.CodeInternal {
					s.t.Fatalf("%s: %v", do, err)
				}
			}
			if answer := mustAsk(s.t, ask, wish(scope, "after "+do, add{Tally: "x", By: 1})); len(answer.Heads) != 1 {
				s.t.Fatalf("after %s: %+v", do, answer)
			}
		}
		noise := make([]byte, 900<<10)
		if _, err := rand.Read(noise); err != nil {
			s.t.Fatal(err)
		}
		large := wish(scope, "large", add{Tally: "x", By: 1, Also: []string{"y"}, Note: note{hex.EncodeToString(noise)}})
		if _, err := ask.Ask(context.Background(), large); code(err) != domain.CodeTooLarge {
			s.t.Fatalf("too large: %v", err)
		}
		s.send(home, kafka.CommandHeaders(scope, streams.CommandID(scope, "garbage")), []byte("{"))
		s.send(home, nil, []byte("no headers"))
		s.send(1-home, kafka.CommandHeaders(scope, streams.CommandID(scope, "elsewhere")), []byte("{}"))
		mustAsk(s.t, ask, wish(scope, "last", add{Tally: "x", By: 1}))

		parked := s.read(s.config.Topics.Parked(), 8)
		if len(parked) != 8 {
			s.t.Fatalf("%d commands are parked", len(parked))
		}
		var alarms int64
		for _, p := range h.Stats() {
			alarms += p.Alarms
		}
		if alarms != 8 {
			s.t.Fatalf("%d alarms", alarms)
		}
		all := s.check()
		if r := all.answers[streams.CommandID(scope, "garbage")].Rejected; r == nil || r.Code != domain.CodeInternal {
			s.t.Fatalf("garbage: %+v", r)
		}
		if all.tallies[streams.StreamKey{Scope: scope, Stream: "tally-x"}] != 5 {
			s.t.Fatalf("tallies: %v", all.tallies)
		}
	})
}

// After a scope was erased every command of it is rejected, whether its key is still there or not.
func TestAnErasedScopeDecidesNothing(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		mustAsk(s.t, ask, wish("user-a", "1", add{Tally: "x", By: 1}))
		mustAsk(s.t, ask, wish("user-a", "2", erase{Who: "a"}))
		if _, err := ask.Ask(context.Background(), wish("user-a", "3", add{Tally: "x", By: 1})); code(err) != domain.CodeScopeErased {
			s.t.Fatalf("with its key: %v", err)
		}
		h.shutdown()
		late, err := release(s.t, 1, 1).EncodeCommand(context.Background(), s.keys, envelope("user-a", "4", add{Tally: "x", By: 1, Note: note{"late"}}))
		if err != nil {
			s.t.Fatal(err)
		}
		if err := s.keys.Destroy(context.Background(), "user-a"); err != nil {
			s.t.Fatal(err)
		}
		s.start(nil)
		s.send(0, kafka.CommandHeaders("user-a", streams.CommandID("user-a", "4")), late)
		mustAsk(s.t, ask, wish("user-b", "1", add{Tally: "x", By: 1}))
		all := s.check()
		if r := all.answers[streams.CommandID("user-a", "4")].Rejected; r == nil || r.Code != domain.CodeScopeErased {
			s.t.Fatalf("without its key: %+v", r)
		}
	})
}

// While the vault or the store is away a partition waits, says so, and goes on by itself; nothing is lost.
func TestAPartitionWaitsForWhatIsAway(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		mustAsk(s.t, ask, wish("user-a", "1", add{Tally: "x", By: 1}))
		for name, cut := range map[string]func(bool){
			"the vault": func(away bool) {
				if away {
					s.keys.Cut()
				} else {
					s.keys.Mend()
				}
			},
			"the stored states": h.storeAway,
		} {
			w := wish("user-a", name, add{Tally: "new " + name[4:7], By: 1})
			w.Body = add{Tally: strings.ReplaceAll(name, " ", "-"), By: 1, Note: note{"n"}}
			value, err := release(s.t, 1, 1).EncodeCommand(context.Background(), s.keys, envelope("user-a", name, w.Body))
			if err != nil {
				s.t.Fatal(err)
			}
			cut(true)
			s.send(0, kafka.CommandHeaders("user-a", w.ID), value)
			elapse(10 * time.Second)
			if p := h.Stats()[0]; p.Waiting != name && !(name == "the stored states" && p.Waiting == "states to be stored") || p.Phase != kafka.Leading {
				s.t.Fatalf("%s is away: %+v", name, p)
			}
			cut(false)
			elapse(5 * time.Second)
			if p := h.Stats()[0]; p.Waiting != "" || p.Leads != 1 {
				s.t.Fatalf("%s is back: %+v", name, p)
			}
			if _, ok := s.check().answers[w.ID]; !ok {
				s.t.Fatalf("%s is back, and the command is not decided", name)
			}
		}
	})
}

// A store that says nothing to a question is asked again, before who asked has lost patience.
func TestAPartitionDoesNotWaitForAQuestionThatWasLost(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		mustAsk(s.t, ask, wish("user-a", "1", add{Tally: "x", By: 1}))
		h.storeSilent(1)
		mustAsk(s.t, ask, wish("user-a", "2", add{Tally: "y", By: 1}))
	})
}

// A restart replays from the stored checkpoint only, and goes on with the same versions.
func TestARestartReplaysFromTheStoredCheckpoint(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		for i := range 100 {
			mustAsk(s.t, ask, wish("user-a", string(rune('a'+i)), add{Tally: "x", By: 1}))
		}
		elapse(3 * time.Second)
		mustAsk(s.t, ask, wish("user-a", "tail", add{Tally: "x", By: 1}))
		h.kill()
		<-h.done
		h = s.start(nil)
		leading(h)
		if p := h.Stats()[0]; p.Replayed > 3 {
			s.t.Fatalf("replayed %d records", p.Replayed)
		}
		if answer := mustAsk(s.t, ask, wish("user-a", "after", add{Tally: "x", By: 1})); answer.Position.Position != 102 {
			s.t.Fatalf("after a restart: %+v", answer)
		}
		s.check()
	})
}

// An id that the writer forgot is looked up: its answer never changes.
func TestAForgottenIDHasTheSameAnswer(t *testing.T) {
	on(t, 1, func(c *kafka.WriterConfig) { c.HeldIDs = 1 }, func(s *stage, _ *host, ask *kafka.Asker) {
		w := wish("user-a", "old", add{Tally: "x", By: 1})
		value, err := release(s.t, 1, 1).EncodeCommand(context.Background(), s.keys, envelope("user-a", "old", w.Body))
		if err != nil {
			s.t.Fatal(err)
		}
		first := mustAsk(s.t, ask, w)
		for i := range 5 {
			mustAsk(s.t, ask, wish("user-a", string(rune('a'+i)), add{Tally: "x", By: 1}))
		}
		elapse(3 * time.Second)
		s.send(0, kafka.CommandHeaders("user-a", w.ID), value) // its look-up is older than what is held
		mustAsk(s.t, ask, wish("user-a", "last", add{Tally: "x", By: 1}))
		if all := s.check(); len(all.commits) != 7 {
			s.t.Fatalf("%d commits", len(all.commits))
		}
		replies := s.read(s.config.Topics.Replies(), 1)
		if h, err := kafka.ReadHeaders(replies[0].Headers); err != nil || h.Answer.Position != first.Position.Position || h.Answer.Offset != first.Position.Offset {
			s.t.Fatalf("reply: %+v, %v", h, err)
		}
	})
}

// A state of another fold is folded again from its events, once they are there.
func TestAStateOfAnotherFoldIsFoldedAgain(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		for i := range 5 {
			mustAsk(s.t, ask, wish("user-a", string(rune('a'+i)), add{Tally: "x", By: 2}))
		}
		h.shutdown()
		past := &history{events: s.check().commits, behind: true}
		h = s.start(func(c *kafka.WriterConfig) { c.Schema, c.History = release(s.t, 1, 2), past })
		leading(h)
		go func() {
			elapse(5 * time.Second)
			past.level()
		}()
		began := time.Now()
		mustAsk(s.t, ask, wish("user-a", "after", add{Tally: "x", By: 2}))
		if time.Since(began) < 5*time.Second {
			s.t.Fatal("it did not wait for the events")
		}
		if _, err := ask.Ask(context.Background(), wish("user-a", "look", add{Tally: "x"})); !strings.Contains(err.Error(), "add to 12") {
			s.t.Fatalf("state after folding again: %v", err)
		}
	})
}

// A history that lost its beginning, or a part, gives no state: the partition waits until it is whole.
func TestAStateIsNotFoldedFromAPartOfItsEvents(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		for i := range 5 {
			mustAsk(s.t, ask, wish("user-a", string(rune('a'+i)), add{Tally: "x", By: 2}))
		}
		h.shutdown()
		whole := s.check().commits
		past := &history{events: whole[2:]}
		h = s.start(func(c *kafka.WriterConfig) { c.Schema, c.History = release(s.t, 1, 2), past })
		leading(h)
		go func() {
			elapse(5 * time.Second)
			past.put(whole)
		}()
		began := time.Now()
		mustAsk(s.t, ask, wish("user-a", "after", add{Tally: "x", By: 2}))
		if time.Since(began) < 5*time.Second {
			s.t.Fatal("it did not wait for the events")
		}
		if _, err := ask.Ask(context.Background(), wish("user-a", "look", add{Tally: "x"})); !strings.Contains(err.Error(), "add to 12") {
			s.t.Fatalf("state after folding again: %v", err)
		}
	})
}

// Should the store be moved by another, or set back, the writer drops what it knows and leads anew.
func TestAWriterTakesOverAnewWhenTheStoreMoved(t *testing.T) {
	for name, move := range map[string]func(*stage, *setBack){
		"by another": func(s *stage, _ *setBack) {
			mustAsk(s.t, s.ask, wish("user-a", "unstored", add{Tally: "b", By: 1}))
			s.storeAll()
		},
		"set back": func(_ *stage, b *setBack) { b.back(); b.back() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 1)
				defer s.close()
				store := &setBack{States: s.states}
				h := s.start(func(c *kafka.WriterConfig) {
					c.States = store
					if name == "set back" { // it must load again to notice at once
						c.CachedStreams, c.HeldIDs = 1, 1
					}
				})
				ask, stop := s.asker()
				defer stop()
				s.ask = ask
				leading(h)
				for i := range 3 {
					mustAsk(t, ask, wish("user-a", string(rune('a'+i)), add{Tally: string(rune('a' + i)), By: 1}))
					elapse(3 * time.Second)
				}
				move(s, store)
				for i := range 3 {
					mustAsk(t, ask, wish("user-a", string(rune('k'+i)), add{Tally: string(rune('a' + i)), By: 1}))
				}
				elapse(3 * time.Second)
				if p := h.Stats()[0]; p.Leads < 2 {
					t.Fatalf("leads %d times: %+v", p.Leads, p)
				}
				if all := s.check(); len(all.commits) < 6 {
					t.Fatalf("%d commits", len(all.commits))
				}
			})
		})
	}
}

// decided_at never runs backwards in a scope, whatever the clock does.
func TestTimeNeverRunsBackwards(t *testing.T) {
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	on(t, 1, func(c *kafka.WriterConfig) {
		c.Now = func() time.Time { clock = clock.Add(-time.Minute); return clock }
	}, func(s *stage, _ *host, ask *kafka.Asker) {
		for i := range 5 {
			mustAsk(s.t, ask, wish("user-a", string(rune('a'+i)), add{Tally: "x", By: 1}))
		}
		s.check()
	})
}

// A writer that reads another's lead stops; of two that both believe themselves in charge one decides at a time.
func TestOneWriterLeadsAtATime(t *testing.T) {
	on(t, 1, nil, func(s *stage, h *host, ask *kafka.Asker) {
		mustAsk(s.t, ask, wish("user-a", "1", add{Tally: "x", By: 1}))
		other := s.start(func(c *kafka.WriterConfig) { c.Group = "another group" })
		leading(other)
		elapse(time.Second)
		if p := h.Stats()[0]; p.Phase != kafka.Paused || !strings.Contains(p.Ended, "another writer leads") {
			s.t.Fatalf("the first: %+v", p)
		}
		for i := range 60 {
			mustAsk(s.t, ask, wish("user-a", string(rune('a'+i)), add{Tally: "x", By: 1}))
			elapse(time.Second)
		}
		if p := h.Stats()[0]; p.Leads != 1 {
			s.t.Fatalf("the first led again although the other appends: %+v", p)
		}
		s.check()
	})
}

// elapse lets virtual time pass, and with it everything that waits for it.
func elapse(d time.Duration) { <-time.After(d) }
