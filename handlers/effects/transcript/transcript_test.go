package transcript_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/effectstest"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/memory"
)

// counted counts the rows that are read.
type counted struct {
	transcript.Events
	rows int
}

func (c *counted) Before(ctx context.Context, key streams.StreamKey, version uint64, limit int) ([]streams.Recorded, error) {
	rows, err := c.Events.Before(ctx, key, version, limit)
	c.rows += len(rows)
	return rows, err
}

func TestALongThreadCostsNoMoreThanItsNewestPart(t *testing.T) {
	r := effectstest.New(t, model.Offline(), nil)
	on := thread.On{Thread: "t"}
	var first string
	for i := range 200 {
		run := streams.Derive("a run", strconv.Itoa(i))
		if i == 0 {
			first = run
		}
		post := thread.PostMessage{On: on, New: i == 0, RunID: run, Channel: thread.Chat, Content: thread.Content{Text: "Hm"}}
		if err := errors.Join(r.Ask(post), r.Ask(thread.Cancel{On: on, RunID: run})); err != nil {
			t.Fatal(err)
		}
	}
	last := r.Say("t", thread.Chat, "Hello!").ID
	all := uint64(len(r.Events("t")))
	events := &counted{Events: r.Source.Events}
	source := r.Source
	source.Events = events
	got, err := source.Load(t.Context(), effectstest.Scope, domain.NewStream("thread", "t"), last, all)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != all || got.Whole || events.rows > 700 || events.rows < 400 {
		t.Errorf("version %d of %d, whole %v, %d rows read", got.Version, all, got.Whole, events.rows)
	}
	if run := got.Run(last); run == nil || run.Message.Text != "Hello!" || run.End != transcript.Completed || got.Before(last) == nil {
		t.Errorf("the run is %+v", run)
	}
	if got, err = source.Load(t.Context(), effectstest.Scope, domain.NewStream("thread", "t"), first, 1); err != nil || got.Run(first) == nil || !got.Run(first).First {
		t.Errorf("the first run was not found: %v", err)
	}
}

func TestAReaderWaitsForTheIntent(t *testing.T) {
	r := effectstest.New(t, model.Offline(), nil)
	run := r.Say("t", thread.Chat, "Hello!").ID
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Source.Load(ctx, effectstest.Scope, domain.NewStream("thread", "t"), run, uint64(len(r.Events("t"))+1)); err == nil {
		t.Error("a thread was read that lacks the intent")
	}
}

func TestOverSaysWhetherAnEffectHasItsOutcome(t *testing.T) {
	r := effectstest.New(t, model.Offline(), nil)
	run := r.Say("t", thread.Chat, "Hello!").ID
	stream := domain.NewStream("thread", "t")
	over := func(effect string, after uint64) bool {
		t.Helper()
		is, err := r.Source.Over(t.Context(), effectstest.Scope, stream, effect, after)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	all := uint64(len(r.Events("t")))
	if !over(thread.TurnEffect(run, 1, 1), 1) || over(thread.TurnEffect(run, 1, 1), all) || over("another.turn.1.1", 1) {
		t.Error("an effect of the ended run goes on, or another's has ended")
	}
	if err := r.Source.Keys.(*memory.Keys).Destroy(t.Context(), effectstest.Scope); err != nil {
		t.Fatal(err)
	}
	if !over("another.turn.1.1", all) {
		t.Error("an effect of an erased account goes on")
	}
}
