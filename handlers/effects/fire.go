package effects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/device"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/tools"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/timers"
	"github.com/cairnhq/cairn/streams"
)

const (
	batch    = 100                    // timers and abandoned effects handled at once
	together = 16                     // commands sent at once
	soonest  = 100 * time.Millisecond // between two looks where something could not be sent
)

// fire tells streams that their timers are due.
func (r *Runner) fire(ctx context.Context) {
	for {
		changed := r.Waiter.Changed(timers.Name)
		pause := r.Tick
		next, ok, err := r.Timers.NextDue(ctx)
		switch {
		case err != nil:
			r.complain(ctx, "timers can't be read", err)
		case ok && next > 0:
			pause = min(pause, next)
		case ok:
			due, err := r.Timers.Due(ctx, batch)
			if err != nil {
				r.complain(ctx, "timers can't be read", err)
			} else if len(due) > 0 && r.fireAll(ctx, due) {
				continue
			}
			pause = min(pause, soonest)
		}
		if !r.wait(ctx, changed, nil, pause) {
			return
		}
	}
}

// fireAll answers whether all of them were answered for.
func (r *Runner) fireAll(ctx context.Context, due []timers.Timer) bool {
	var mu sync.Mutex
	var fired []timers.Timer
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for _, t := range due {
		group.Go(func() error {
			if r.fireOne(grouped, t) {
				mu.Lock()
				fired = append(fired, t)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // they never fail
	if len(fired) > 0 {
		r.metrics.fired.Add(float64(len(fired)))
		if err := r.Timers.Fired(ctx, fired...); err != nil {
			r.complain(ctx, "fired timers can't be noted", err)
		}
	}
	return len(fired) == len(due)
}

func (r *Runner) fireOne(ctx context.Context, t timers.Timer) bool {
	var command domain.Command
	switch t.Stream.Kind() {
	case "thread":
		command = thread.FireTimer{On: thread.On{Thread: t.Stream.ID()}, Timer: t.ID}
	case "device":
		command = device.FireTimer{Device: t.Stream.ID(), Timer: t.ID}
	default:
		r.Log.WarnContext(ctx, "a timer of a stream that knows none", "stream", t.Stream, "timer", t.ID)
		return true
	}
	// The same timer has the same command, whichever worker fires it; set again, it is due at another time.
	request := fmt.Sprintf("timer|%s|%s|%d", t.Stream, t.ID, t.Due.UnixMicro())
	return r.tell(ctx, streams.Command{
		Scope: t.Scope, ID: streams.OwnID(t.Scope, request), Actor: domain.Actor{Kind: domain.ActorTimer},
		Body: command,
	})
}

// mourn ends what was begun by a worker that died and must not be done twice, and removes old claims. It is
// woken by the clock alone: a worker is dead 10 s after its last sign of life, and no event says so.
func (r *Runner) mourn(ctx context.Context) {
	for swept := time.Now(); ; {
		lost, err := r.Effects.Abandoned(ctx, batch)
		if err != nil {
			r.complain(ctx, "abandoned effects can't be read", err)
		}
		for _, e := range lost {
			r.metrics.abandoned.Inc()
			r.unknown(under(ctx, e), e)
		}
		if time.Since(swept) > time.Minute {
			swept = time.Now()
			if _, err := r.Effects.Sweep(ctx); err != nil {
				r.complain(ctx, "old claims can't be removed", err)
			}
		}
		if !r.wait(ctx, nil, nil, r.Tick) {
			return
		}
	}
}

// unknown says that nobody knows whether an effect was done, in words that tell the model, or who asked, to look first.
func (r *Runner) unknown(ctx context.Context, e openeffects.Effect) {
	command := streams.Command{
		Scope: e.Scope, ID: streams.Derive(e.EventID, "abandoned"), CausationID: e.EventID, Actor: domain.Actor{Kind: domain.ActorWorker, ID: r.id},
	}
	call, step, ok := thread.ParseStepID(e.ID)
	switch kind := e.Stream.Kind(); {
	case kind == "thread" && ok:
		command.Body = thread.FailStep{
			On: thread.On{Thread: e.Stream.ID()}, CallID: call, Step: step, Reason: thread.OutcomeUnknown,
			Result: thread.Result{Text: tools.Unsure("this")},
		}
	case kind == "device":
		command.Body = device.LoseRequest{Device: e.Stream.ID(), RequestID: e.ID, Result: device.Result{Text: tools.Unsure("this")}}
	default:
		r.Log.WarnContext(ctx, "an abandoned effect that nothing waits for", "effect", e.ID, "stream", e.Stream)
		return
	}
	r.tell(ctx, command)
}

// tell sends a command once and answers whether it was decided.
func (r *Runner) tell(ctx context.Context, c streams.Command) bool {
	_, err := r.Asker.Ask(ctx, c)
	var rejected *domain.Rejection
	switch {
	case err == nil:
		return true
	case errors.As(err, &rejected):
		r.Log.DebugContext(ctx, "a command was refused", "code", rejected.Code, "reason", rejected.Reason)
		return true
	}
	r.complain(ctx, "a command can't be sent and is tried again", err)
	return false
}

func (r *Runner) complain(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.Log.WarnContext(ctx, what, "error", err)
	}
}
