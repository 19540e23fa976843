package bench

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// talk is a thread that somebody talks in.
type talk struct {
	scope   domain.Scope
	thread  string
	version uint64
	run     string // the newest
}

func newTalk(scope domain.Scope) *talk { return &talk{scope: scope, thread: uuid.NewString()} }

func (t *talk) on() thread.On { return thread.On{Thread: t.thread} }

// ask sends a command, again while nobody knows what became of it.
func (t *talk) ask(ctx context.Context, asker streams.Asker, body domain.Command) error {
	c := streams.Command{
		Scope: t.scope, ID: streams.CommandID(t.scope, uuid.NewString()), Minted: true, Body: body,
		Actor: domain.Actor{Kind: domain.ActorUser, ID: "bench"},
	}
	answer, err := asker.Ask(ctx, c)
	for errors.Is(err, streams.ErrOutcomeUnknown) && ctx.Err() == nil {
		c.Minted = false
		answer, err = asker.Ask(ctx, c)
	}
	for _, head := range answer.Heads {
		t.version = max(t.version, head.Version)
	}
	return err
}

func (t *talk) rename(ctx context.Context, asker streams.Asker) error {
	return t.ask(ctx, asker, thread.Rename{On: t.on(), Title: thread.Title{Text: "The week of the fair"}})
}

// calls is how many tools a turn calls.
const calls = thread.MaxCalls

// exchange is a message, and a turn that calls tools. The next message interrupts it.
func (t *talk) exchange(ctx context.Context, asker streams.Asker) error {
	t.run = uuid.NewString()
	turn := thread.CompleteTurn{
		On: t.on(), RunID: t.run, Turn: 1, Attempt: 1, Model: "bench", FinishReason: "tool_calls", InputTokens: 900, OutputTokens: 40,
		Content: thread.PlannedTurn{Text: "I look at the tasks of that week, one after the other."},
	}
	for range calls {
		turn.Plans = append(turn.Plans, thread.Plan{Tool: "list_tasks", Executor: thread.OnDevice, Action: "select", Table: "tasks", Repeatable: true})
		turn.Content.Calls = append(turn.Content.Calls, thread.TurnCall{ModelID: "call", Tool: "list_tasks", Arguments: `{"status":"todo"}`})
		turn.Content.Payloads = append(turn.Content.Payloads, thread.Payload{Fields: json.RawMessage(`{"where":{"status":"todo"}}`)})
	}
	for _, c := range []domain.Command{
		thread.PostMessage{
			On: t.on(), New: t.version == 0, RunID: t.run, Channel: thread.Home, OnBusy: thread.Interrupt, DeviceID: "bench",
			Content: thread.Content{Text: "What is left to do for the week of the fair, and who does it?"},
		},
		thread.DecideRoute{On: t.on(), RunID: t.run, Attempt: 1, Agent: thread.FallbackAgent, Model: "bench"},
		turn,
	} {
		if err := t.ask(ctx, asker, c); err != nil {
			return err
		}
	}
	return nil
}

// talkUntil goes on until the thread has n events or more is false, and leaves nothing open.
func (t *talk) talkUntil(ctx context.Context, asker streams.Asker, n uint64, more func(added uint64) bool) error {
	for t.version < n {
		before := t.version
		if err := t.exchange(ctx, asker); err != nil {
			return err
		}
		if !more(t.version - before) {
			break
		}
	}
	return t.ask(ctx, asker, thread.Cancel{On: t.on(), RunID: t.run})
}

// Users who talk at once while the log is filled, and how long their threads get.
const (
	talkers  = 64
	ordinary = 1000
)

// fill lets many users talk at once until the log has its events; one of them talks in one thread only.
func (g *growth) fill(ctx context.Context, asker streams.Asker) error {
	var events atomic.Int64
	deadline := time.Now().Add(g.Fill)
	more := func(added uint64) bool {
		return events.Add(int64(added)) < int64(g.Events) && time.Now().Before(deadline)
	}
	g.long = newTalk(domain.User(uuid.NewString()))
	group, grouped := errgroup.WithContext(ctx)
	group.Go(func() error {
		return g.long.talkUntil(grouped, asker, uint64(g.Long), func(added uint64) bool {
			events.Add(int64(added))
			return time.Now().Before(deadline)
		})
	})
	for range talkers - 1 {
		scope := domain.User(uuid.NewString())
		group.Go(func() error {
			for more(0) {
				if err := newTalk(scope).talkUntil(grouped, asker, ordinary, more); err != nil {
					return err
				}
			}
			return nil
		})
	}
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				g.say("%d events", events.Load())
			}
		}
	}()
	err := group.Wait()
	close(done)
	g.events = int(events.Load())
	return err
}

// measure is an ask's p50 in milliseconds.
func (t *talk) measure(ctx context.Context, asker streams.Asker, n int) (float64, error) {
	all := make([]time.Duration, n)
	for i := range all {
		began := time.Now()
		if err := t.rename(ctx, asker); err != nil {
			return 0, err
		}
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	return quantile(all, 0.5), nil
}

// compare measures asks on the long thread, and on short ones, in turns.
func (g *growth) compare(ctx context.Context, asker streams.Asker) error {
	const asks = 10 // of a short thread, which must stay short
	var long, short []float64
	for range g.Rounds {
		var longs, shorts []float64
		for range 20 {
			t := newTalk(domain.User(uuid.NewString()))
			if err := t.ask(ctx, asker, thread.Open{On: t.on()}); err != nil {
				return err
			}
			for t.version < 10 {
				if err := t.rename(ctx, asker); err != nil {
					return err
				}
			}
			for _, one := range []struct {
				talk *talk
				into *[]float64
			}{{t, &shorts}, {g.long, &longs}} {
				p50, err := one.talk.measure(ctx, asker, asks)
				if err != nil {
					return err
				}
				*one.into = append(*one.into, p50)
			}
		}
		long, short = append(long, Median(longs)), append(short, Median(shorts))
	}
	g.quiet = Median(long)
	f := NewFigure("ask on the long thread, p50", "ms", long, short, "on a thread of 10 events").Aim(AtMost, 1.25)
	g.say("an ask takes %.2f ms on the long thread, %.2f ms on short ones", f.Value, f.Limit)
	g.add(f)
	return nil
}
