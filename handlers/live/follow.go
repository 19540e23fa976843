package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// followAtOnce is how many bytes of events a follower takes before it tells them.
const followAtOnce = 256 << 10

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
		g.follower(threadKey(scope, threadID), run, from).tell(ctx, func(o Output) bool {
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

// follower makes one story of what a subscription to the run's thread brings.
type follower struct {
	*Gateway

	key    streams.StreamKey
	story  *story
	after  uint64 // the newest version told
	posted uint64 // the version that the message brought the thread to; 0: not known
	heard  [2]int // the newest turn and attempt of which a provisional frame was told
}

func (g *Gateway) follower(key streams.StreamKey, run string, from FollowFrom) *follower {
	return &follower{Gateway: g, key: key, story: newStory(run, from.Channel), after: from.after(), posted: from.Posted}
}

// errUnheard is a listener that wants no more.
var errUnheard = errors.New("live: the listener is gone")

// tell hands out the story until its end, until give says no, or until ctx ends. It waits out every fault.
func (f *follower) tell(ctx context.Context, give func(Output) bool) {
	if !all(f.story.begin(), give) {
		return
	}
	for ctx.Err() == nil && !f.story.ended {
		err := f.once(ctx, give)
		if errors.Is(err, errUnheard) || ctx.Err() != nil {
			return
		}
		if errors.Is(err, streams.ErrScopeErased) {
			all(f.story.end(&Failure{Code: domain.CodeScopeErased, Message: "the account was erased"}), give)
			return
		}
		if err != nil {
			f.Log.WarnContext(ctx, "following a run failed, following it again", "run", f.story.run, "error", err)
			if pause(ctx, time.Second/2) != nil {
				return
			}
		}
	}
}

// once subscribes and tells what comes, until the story or the subscription ends.
func (f *follower) once(ctx context.Context, give func(Output) bool) error {
	wake := make(chan struct{}, 1)
	sub, err := f.Fanout.Subscribe(ctx, fanout.Want{
		Who: accounts.Principal{Scope: f.key.Scope}, Scope: f.key.Scope, Stream: f.key.Stream,
		From: fanout.After(f.after), Form: fanout.Bare, Live: fanout.Recent,
	}, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("live: following %s: %w", f.key.Stream, err)
	}
	defer sub.Close()
	if f.deleted(ctx, sub.Head()) {
		return f.skip(ctx, give)
	}
	for {
		pulled := sub.Pull(followAtOnce)
		for _, e := range pulled.Events {
			if err := f.event(ctx, e, give); err != nil || f.story.ended {
				return err
			}
		}
		for i := range pulled.Live {
			if !f.frame(ctx, &pulled.Live[i], give) {
				return errUnheard
			}
		}
		if pulled.Reset != nil {
			return f.reset(ctx, pulled.Reset, give)
		}
		if pulled.More {
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reset goes on after a subscription that ended.
func (f *follower) reset(ctx context.Context, r *fanout.Reset, give func(Output) bool) error {
	switch r.Reason {
	case fanout.NoAccess:
		return streams.ErrScopeErased
	case fanout.Pruned:
		return f.skip(ctx, give)
	default:
		return fmt.Errorf("live: following %s after %d: %s, its head is %d", f.key.Stream, f.after, r.Reason, r.Head)
	}
}

// event tells the thread's next event. One that was told already is left out.
func (f *follower) event(ctx context.Context, e *fanout.Event, give func(Output) bool) error {
	event, err := e.Decode(f.Schema)
	if errors.Is(err, codec.ErrUnknownType) {
		event, err = nil, nil // of a newer release; nothing that this one tells depends on it
	}
	if err == nil && f.needsContent(event) {
		event, err = e.Open(ctx, f.Schema, f.Keys)
	}
	recorded := e.Recorded()
	if err != nil {
		return fmt.Errorf("live: reading event %s: %w", recorded.ID, err)
	}
	outputs := f.story.committed(e.Seq, event)
	f.after = e.Seq
	for n := range outputs {
		if outputs[n].Kind == OutputEnd {
			outputs[n].Position = streams.PositionOf(recorded).String()
		}
	}
	if len(outputs) > 0 && f.Tracer.On() {
		defer f.delivering(ctx, e.Type, recorded.Trace).End()
	}
	if !all(outputs, give) {
		return errUnheard
	}
	return nil
}

// frame tells a provisional frame. Only the first of an attempt has a span: there may be hundreds.
func (f *follower) frame(ctx context.Context, frame *fanout.Frame, give func(Output) bool) bool {
	outputs := f.story.provisional(streams.LiveFrame{
		RunID: frame.RunID, Turn: frame.Turn, Attempt: frame.Attempt, N: frame.N, Kind: frame.Kind,
		Offset: frame.Offset, Blocks: frame.Blocks, Text: frame.Text, Data: frame.Data,
	})
	if attempt := [2]int{frame.Turn, frame.Attempt}; len(outputs) > 0 && attempt != f.heard && f.Tracer.On() {
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

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
