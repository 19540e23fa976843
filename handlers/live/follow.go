package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Follow tells a run from the beginning and goes on with what happens, until its end. The channel closes
// after the one End, or without it when ctx ends: whoever asks again is told everything again. Text that was
// committed comes whole; a turn that is streaming comes live if its beginning was not missed, else when it
// commits.
func (g *Gateway) Follow(ctx context.Context, scope domain.Scope, threadID, run string, from FollowFrom) <-chan Output {
	out := make(chan Output)
	entered := g.gate.Go(func() {
		defer close(out)
		ctx, cancel := g.bound(ctx)
		defer cancel()
		w, err := g.hub.watch(ctx, threadKey(scope, threadID), run)
		if err != nil {
			return
		}
		defer w.leave()
		g.follower(w, from).tell(ctx, func(o Output) bool {
			select {
			case out <- o:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
	if !entered {
		close(out)
	}
	return out
}

func threadKey(scope domain.Scope, id string) streams.StreamKey {
	return streams.StreamKey{Scope: scope, Stream: domain.NewStream("thread", id)}
}

// follower joins what is stored, what the log has beyond it, and what arrives, into one story.
type follower struct {
	watch  *watch
	hub    *hub
	events Events
	schema *codec.Schema
	keys   streams.Keys
	tracer tracing.Tracer
	story  *story
	after  uint64 // the newest version told
	posted uint64 // the version that the message brought the thread to; 0: not known
	floor  uint64 // what is stored of the thread is whole from this version on, as far as that was asked
	heard  [2]int // the newest turn and attempt of which a provisional frame was told
}

func (g *Gateway) follower(w *watch, from FollowFrom) *follower {
	return &follower{
		watch: w, hub: g.hub, events: g.Events, schema: g.Schema, keys: g.Keys,
		tracer: g.Tracer, story: newStory(w.run.run, from.Channel), after: from.after(), posted: from.Posted,
	}
}

// tell hands out the story until its end, until give says no, or until ctx ends. It waits out every fault.
func (f *follower) tell(ctx context.Context, give func(Output) bool) {
	if !all(f.story.begin(), give) {
		return
	}
	for again := false; ctx.Err() == nil; again = true {
		if again {
			f.hub.metrics.readAgain.Inc()
			f.watch.renew() // what arrived and was not told is in the log by now
		}
		err := f.once(ctx, give)
		if err == nil || errors.Is(err, errStopped) || ctx.Err() != nil {
			return
		}
		if errors.Is(err, streams.ErrScopeErased) {
			all(f.story.end(&Failure{Code: domain.CodeScopeErased, Message: "the account was erased"}), give)
			return
		}
		if !errors.Is(err, errLost) {
			f.hub.log.WarnContext(ctx, "following a run failed, reading it again", "run", f.watch.run.run, "error", err)
			if pause(ctx, time.Second/2) != nil {
				return
			}
		}
	}
}

var (
	errStopped = errors.New("live: the listener is gone")
	errLost    = errors.New("live: something is missing")
)

// once reads what is stored, then the log up to the watch, then what arrives.
func (f *follower) once(ctx context.Context, give func(Output) bool) error {
	rows, from, err := f.events.CatchUp(ctx, f.watch.key.Scope, f.watch.key.Stream, f.after)
	if err != nil {
		return fmt.Errorf("live: catching up: %w", err)
	}
	for _, r := range rows {
		if err := f.skip(ctx, r.Version, give); err != nil || f.story.ended {
			return err
		}
		if err := f.event(ctx, &item{recorded: r}, give); err != nil || f.story.ended {
			return err
		}
	}
	items, err := f.hub.between(ctx, f.watch, from)
	if err != nil {
		return fmt.Errorf("live: reading the log: %w", err)
	}
	for _, i := range items {
		if err := f.event(ctx, i, give); err != nil || f.story.ended {
			return err
		}
	}
	for !f.story.ended {
		arrivals, lost, err := f.watch.take(ctx)
		if err != nil {
			return err
		}
		if lost {
			return errLost
		}
		for _, a := range arrivals {
			if a.frame != nil {
				if !f.frame(ctx, *a.frame, give) {
					return errStopped
				}
				continue
			}
			if err := f.event(ctx, a.item, give); err != nil || f.story.ended {
				return err
			}
		}
	}
	return nil
}

// event tells the thread's next event. One that was told already is left out; a gap is a reason to read again.
func (f *follower) event(ctx context.Context, i *item, give func(Output) bool) error {
	switch version := i.recorded.Version; {
	case version <= f.after:
		return nil
	case version != f.after+1:
		return fmt.Errorf("live: event %d of %s came where %d was due", version, f.watch.key.Stream, f.after+1)
	}
	event, err := i.decode(f.schema)
	if errors.Is(err, codec.ErrUnknownType) {
		event, err = nil, nil // of a newer release; nothing that this one tells depends on it
	}
	if err == nil && f.needsContent(event) {
		event, err = i.open(ctx, f.schema, f.keys)
	}
	if err != nil {
		return fmt.Errorf("live: reading event %s: %w", i.recorded.ID, err)
	}
	outputs := f.story.committed(i.recorded.Version, event)
	f.after = i.recorded.Version
	for n := range outputs {
		if outputs[n].Kind == OutputEnd {
			outputs[n].Position = streams.PositionOf(i.recorded).String()
		}
	}
	if len(outputs) > 0 && f.tracer.On() {
		defer f.delivering(ctx, i.recorded.Type, i.recorded.Trace).End()
	}
	if !all(outputs, give) {
		return errStopped
	}
	return nil
}

// frame tells a provisional frame. Only the first of an attempt has a span: there may be hundreds.
func (f *follower) frame(ctx context.Context, frame streams.LiveFrame, give func(Output) bool) bool {
	outputs := f.story.provisional(frame)
	if attempt := [2]int{frame.Turn, frame.Attempt}; len(outputs) > 0 && attempt != f.heard && f.tracer.On() {
		f.heard = attempt
		defer f.delivering(ctx, "provisional", frame.Trace).End()
	}
	return all(outputs, give)
}

func (f *follower) needsContent(event any) bool {
	switch e := event.(type) {
	case thread.TurnCompleted:
		return e.RunID == f.story.run
	case thread.ToolStepCompleted:
		return e.RunID == f.story.run
	case thread.ToolCallCompleted:
		return e.RunID == f.story.run
	}
	return false
}

func all(outputs []Output, give func(Output) bool) bool {
	for _, o := range outputs {
		if !give(o) {
			return false
		}
	}
	return true
}
