package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
	"github.com/cairnhq/cairn/streams/tracing"
)

// send looks the id up and sends the command, or finishes it with why not.
func (a *Asker) send(ctx context.Context, w *asked, c streams.Command) {
	select {
	case <-a.begun:
	case <-a.ended:
		a.refuse(w, errEnded)
		return
	case <-ctx.Done():
		a.refuse(w, impatient(ctx))
		return
	}
	partition := a.config.Topics.PartitionOf(c.Scope)
	found := looked{known: a.place(partition)}
	if !c.Minted {
		var err error
		if found, err = a.look(ctx, w, partition); err != nil {
			a.refuse(w, err)
			return
		}
	}
	if found.row != nil {
		a.finish(w, ending{row: found.row, original: true, repeated: true})
		return
	}
	if a.config.Admit != nil && refusable(c.Actor) {
		if err := a.config.Admit(ctx, partition); err != nil {
			a.refuse(w, err)
			return
		}
	}
	value, err := a.config.writes(a.config.Schema).EncodeCommand(ctx, a.config.Keys, codec.Envelope{
		Scope: c.Scope, ID: c.ID, Actor: c.Actor, CorrelationID: cmp.Or(c.CorrelationID, c.ID), CausationID: c.CausationID,
		Fingerprint: w.fingerprint, Known: found.known, Body: c.Body,
	})
	if err != nil {
		a.refuse(w, keyError(c.Scope, err))
		return
	}
	if !a.sending(w, a.lanes[partition]) {
		return
	}
	o := &outgoing{
		record: &kgo.Record{
			Topic: a.config.Topics.Commands(), Partition: partition,
			Key: []byte(c.Scope), Value: value, Headers: traced(CommandHeaders(c.Scope, c.ID), tracing.Parent(ctx)),
		},
		promise: func(r *kgo.Record, err error) { a.produced(w, r, err) },
	}
	select {
	case a.lanes[partition].queue <- o:
	case <-ctx.Done():
		a.unsend(w)
		a.refuse(w, impatient(ctx))
	case <-a.ended:
		a.unsend(w)
		a.refuse(w, errEnded)
	}
}

// refuse finishes an id that was not sent. If only its first caller left, the others try for themselves.
func (a *Asker) refuse(w *asked, err error) {
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	a.finish(w, ending{err: err})
}

// sending marks the id as sent, unless it has ended: somebody else's command under it was decided meanwhile.
func (a *Asker) sending(w *asked, l *lane) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inFlight[w.key] != w {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = l
	l.underWay.Add(1)
	return true
}

// unsend takes sending back: the lane never got the command.
func (a *Asker) unsend(w *asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inFlight[w.key] == w {
		w.lane().underWay.Add(-1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = nil
}

// produced hears what became of the command's record. One that was not acknowledged may stand in the topic all the same.
func (a *Asker) produced(w *asked, r *kgo.Record, err error) {
	switch {
	case err == nil:
		w.mu.Lock()
		w.offset = r.Offset
		w.mu.Unlock()
	case errors.Is(err, kerr.MessageTooLarge):
		a.finish(w, ending{err: domain.Reject(domain.CodeTooLarge, "the command is larger than the log takes")})
	default:
		a.finish(w, ending{err: fmt.Errorf("%w: %w", streams.ErrOutcomeUnknown, err)})
	}
}

// refusable are commands that somebody can send again later. What the world has done already is always recorded.
func refusable(actor domain.Actor) bool {
	switch actor.Kind {
	case domain.ActorWorker, domain.ActorTimer, domain.ActorDevice:
		return false
	default:
		return true
	}
}
