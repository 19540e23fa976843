package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/aggregates"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/kafkatest"
	"github.com/cairnhq/cairn/streams/memory"
)

// turning is one process: a writer and two askers, as two API processes would have.
type turning struct {
	config kafka.Config
	schema *codec.Schema
	askers [2]*kafka.Asker
	stop   func()
}

func turn(t testing.TB, config kafka.Config, keys streams.Keys, states streams.States) *turning {
	t.Helper()
	schema, err := codec.New(aggregates.All()...)
	if err != nil {
		t.Fatal(err)
	}
	r := &turning{config: config, schema: schema}
	writer, err := kafka.NewWriter(kafka.WriterConfig{Config: config, Schema: schema, Keys: keys, States: states})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := writer.Run(ctx); err != nil {
			t.Errorf("the writer ended with %v", err)
		}
	})
	var stops []func()
	for i := range r.askers {
		if r.askers[i], err = kafka.NewAsker(kafka.AskerConfig{Config: config, Schema: schema, Keys: keys, States: states}); err != nil {
			t.Fatal(err)
		}
		stops = append(stops, run(t, r.askers[i].Run))
	}
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			for _, stop := range stops {
				stop()
			}
			cancel()
			all.Wait()
		})
	}
	t.Cleanup(r.stop)
	return r
}

// rename is the n-th command of a thread, the first of which opens it.
func rename(scope domain.Scope, id string, n int) streams.Command {
	c := streams.Command{
		Scope: scope, ID: streams.CommandID(scope, fmt.Sprint(id, n)), Actor: domain.Actor{Kind: domain.ActorUser, ID: "u"},
		Body: thread.Rename{On: thread.On{Thread: id}, Title: thread.Title{Text: fmt.Sprintf("secret title %d", n)}},
	}
	if n == 0 {
		c.Body = thread.Open{On: thread.On{Thread: id}}
	}
	return c
}

// Every ask is answered once and its event is in the log once, in order; a repeat gets the same answer, wherever and
// whenever it is asked; another request under the id is refused; and all that holds across a restart.
func TestTheRingTurns(t *testing.T) {
	dir, keys, states := t.TempDir(), memory.NewKeys(), memory.NewStates()
	cluster := kafkatest.Seeds(t) != nil
	var config kafka.Config
	if cluster {
		config = topics(t)
	}
	const users, each = 8, 12
	ids := make([]string, users)
	for u := range ids {
		ids[u] = uuid.NewString()
	}
	answers := make([][]streams.Answer, users)
	for round := range 3 {
		var broker *kafka.Embedded
		if !cluster { // which starts anew, too
			broker, config = start(t, kafka.EmbeddedConfig{Dir: dir})
		}
		r := turn(t, config, keys, states)
		var all sync.WaitGroup
		for u := range users {
			all.Go(func() {
				scope := domain.User(ids[u])
				for n := round * each; n < (round+1)*each; n++ {
					c := rename(scope, ids[u], n)
					// Both processes are asked the same at once, as when a client reconnects elsewhere.
					second := make(chan streams.Answer, 1)
					all.Go(func() {
						b, err := r.askers[1].Ask(t.Context(), c)
						if err != nil {
							t.Errorf("user %d, %d, the other process: %v", u, n, err)
						}
						second <- b
					})
					a, err := r.askers[0].Ask(t.Context(), c)
					if err != nil {
						t.Errorf("user %d, %d: %v", u, n, err)
						return
					}
					if b := <-second; b.Position != a.Position || fmt.Sprint(b.Heads) != fmt.Sprint(a.Heads) || !b.DecidedAt.Equal(a.DecidedAt) {
						t.Errorf("user %d, %d: answered %+v and %+v", u, n, a, b)
					}
					if a.Position.Position != uint64(n+1) || a.Heads[0].Version != uint64(n+1) {
						t.Errorf("user %d, %d: answered %+v", u, n, a)
					}
					answers[u] = append(answers[u], a)
				}
				for n, old := range answers[u] { // from long ago, and from before a restart
					c := rename(scope, ids[u], n)
					again, err := r.askers[n%2].Ask(t.Context(), c)
					if err != nil || !again.Repeated || again.Position != old.Position || !again.DecidedAt.Equal(old.DecidedAt) {
						t.Errorf("user %d, %d: repeated %+v (%v), was %+v", u, n, again, err, old)
					}
					c.Body = thread.Rename{On: thread.On{Thread: ids[u]}, Title: thread.Title{Text: "something else"}}
					if _, err := r.askers[(n+1)%2].Ask(t.Context(), c); !rejectedWith(err, domain.CodeIDReused) {
						t.Errorf("user %d, %d: another request: %v", u, n, err)
					}
				}
			})
		}
		all.Wait()
		if !t.Failed() {
			readWhole(t, r, users, (round+1)*each)
		}
		r.stop()
		if !cluster {
			if err := broker.Close(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// readWhole reads the log from its beginning: the tailer checks positions, this checks versions, counts and content.
func readWhole(t *testing.T, r *turning, users, each int) {
	t.Helper()
	tailer, err := kafka.NewTailer(r.config)
	if err != nil {
		t.Fatal(err)
	}
	defer tailer.Close()
	end, err := tailer.End(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[domain.Stream]uint64{}
	seen := map[string]bool{}
	enough := errors.New("enough")
	err = tailer.Tail(t.Context(), 0, streams.Start(), func(_ context.Context, b streams.Batch) error {
		for _, c := range b.Commits {
			if seen[c.CommandID] {
				t.Errorf("command %s has two commits", c.CommandID)
			}
			seen[c.CommandID] = true
			for _, e := range c.Events {
				if versions[e.Stream]++; versions[e.Stream] != e.Version {
					t.Errorf("version %d of %s follows %d", e.Version, e.Stream, versions[e.Stream]-1)
				}
			}
		}
		if b.Next.Next >= end {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if len(seen) != users*each || len(versions) != users {
		t.Fatalf("%d commits of %d streams, want %d of %d", len(seen), len(versions), users*each, users)
	}
}
