package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections/runs"
)

// storyEnd is the id of a story's last event: who has it has everything.
const storyEnd = "end"

// FollowRun tells a run as it comes, and goes on where a listener lost it.
func (s *server) FollowRun(ctx context.Context, r contract.FollowRunRequestObject) (contract.FollowRunResponseObject, error) {
	if err := nameable(r.Run); err != nil {
		return nil, err
	}
	if or(r.Params.LastEventID, "") == storyEnd {
		return contract.FollowRun204Response{}, nil
	}
	short, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	if err := s.await(short, r.Params.MinPosition, modelRuns); err != nil {
		return nil, err
	}
	run, err := s.Runs.Get(short, callOf(ctx).scope(), r.Run)
	if err != nil {
		return nil, err
	}
	return story{ctx: ctx, s: s, run: run, told: keptBy(or(r.Params.LastEventID, "")), again: r.Params.LastEventID != nil}, nil
}

// story is a run told as Server-Sent Events. The id of an event counts what of the answer is committed: who comes again
// with it is told to drop what it has beyond that, and then what follows.
type story struct {
	ctx   context.Context
	s     *server
	run   runs.Run
	told  live.Keep // what the listener has for good
	again bool      // it was here before

	at live.Keep // what was told of the run's answer, in this telling of it
}

// VisitFollowRunResponse tells it.
func (t story) VisitFollowRunResponse(w http.ResponseWriter) error {
	who := callOf(t.ctx).who()
	wake := make(chan struct{}, 1)
	// Of the thread nothing is wanted here but to hear that access to it has ended.
	access, err := t.s.subscribe(t.ctx, fanout.Want{Who: who, Scope: who.Scope, Stream: domain.NewStream("thread", t.run.Thread), Form: fanout.Bare}, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer access.Close()
	l, err := t.s.listen(t.ctx, w, t.s.retry())
	if err == nil && t.again {
		err = t.send(l, live.Output{Kind: live.OutputRetry, Keep: t.told, Committed: &t.told})
	}
	if err != nil {
		l.end(l.why(err))
		return nil // nobody is listening any more
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	outputs := t.s.Gateway.Follow(ctx, who.Scope, t.run.Thread, t.run.ID, live.FollowFrom{Posted: t.run.MessageVersion, Channel: t.run.Channel})
	for {
		select {
		case o, ok := <-outputs:
			if !ok {
				l.end(l.over(endDrained))
				return nil
			}
			err = nil
			for _, o := range t.rest(o) {
				if err = t.send(l, o); err != nil {
					break
				}
			}
			if err == nil && o.Kind == live.OutputEnd {
				l.end(endWhole)
				return nil
			}
		case <-wake:
			if r := access.Pull(pullAtOnce).Reset; r != nil && r.Reason == fanout.NoAccess {
				_ = l.send(reset(nil, r)) // it is over, heard or not
				l.end(endAccess)
				return nil
			}
		case <-l.ping.C:
			err = l.send([]byte(heartbeat))
		case <-t.s.Stopping:
			_ = l.reconnect() // it is over, heard or not
			l.end(endDrained)
			return nil
		}
		if err != nil {
			l.end(l.why(err))
			return nil
		}
	}
}

func (t *story) send(l *listener, o live.Output) error {
	b, err := storyEvent(o, "run_id", t.run.ID, t.run.Thread, t.run.ID)
	if err != nil {
		return err
	}
	switch {
	case o.Kind == live.OutputEnd:
		b = append([]byte("id: "+storyEnd+"\n"), b...)
	case o.Committed != nil:
		b = append(fmt.Appendf(nil, "id: %d.%d\n", o.Committed.Text, o.Committed.Blocks), b...)
	}
	return l.send(b)
}

// rest is what of an output the listener has not.
func (t *story) rest(o live.Output) []live.Output {
	before := t.at
	switch o.Kind {
	case live.OutputStart, live.OutputDomain:
		if t.again {
			return nil
		}
	case live.OutputText:
		t.at.Text += len(o.Text)
		if t.at.Text <= t.told.Text {
			return nil
		}
		o.Text = o.Text[max(0, t.told.Text-before.Text):]
	case live.OutputBlock:
		if t.at.Blocks++; t.at.Blocks <= t.told.Blocks {
			return nil
		}
	case live.OutputRetry:
		t.at = o.Keep
		// What it has for good is committed, whatever of it was told here provisionally.
		o.Keep = live.Keep{Text: max(o.Keep.Text, t.told.Text), Blocks: max(o.Keep.Blocks, t.told.Blocks)}
	case live.OutputEnd:
	}
	return []live.Output{o}
}

// keptBy is what a listener has that names an id; its shape is checked.
func keptBy(id string) live.Keep {
	text, blocks, _ := strings.Cut(id, ".")
	var k live.Keep
	k.Text, _ = strconv.Atoi(text)
	k.Blocks, _ = strconv.Atoi(blocks)
	return k
}
