package rest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// Subscriber hands out what is committed (fanout.Hub).
type Subscriber interface {
	Subscribe(ctx context.Context, w fanout.Want, notify func()) (*fanout.Subscription, error)
}

// ListStreamEvents lists the events of one stream after one of them, content opened, or tells them as they come.
func (s *server) ListStreamEvents(ctx context.Context, r contract.ListStreamEventsRequestObject) (contract.ListStreamEventsResponseObject, error) {
	stream := domain.Stream(r.Stream)
	if !stream.Valid() {
		return nil, projections.ErrNotFound
	}
	if accepts(callOf(ctx).request(), eventStream) {
		return s.feed(ctx, fanout.Want{Stream: stream, Live: fanout.Live}, cursors{r.Params.After, r.Params.LastEventID, r.Params.AfterHash, r.Params.Stored}), nil
	}
	if err := onlyOfStreams(map[string]bool{"after_hash": r.Params.AfterHash != nil, "stored": or(r.Params.Stored, false)}); err != nil {
		return nil, err
	}
	if err := s.await(ctx, r.Params.MinPosition, modelEvents); err != nil {
		return nil, err
	}
	key, after := streams.StreamKey{Scope: callOf(ctx).scope(), Stream: stream}, or(r.Params.After, 0)
	found, err := s.Events.Page(ctx, key, after, or(r.Params.Limit, defaultLimit))
	switch {
	case err != nil:
		return nil, err
	case found.Head == 0 && found.Floor == 0:
		return nil, projections.ErrNotFound
	case after > found.Head:
		return nil, beyond(after, found.Head)
	case len(found.Rows) > 0 && found.Rows[0].Version != after+1:
		return nil, &events.Reset{After: after, Oldest: found.Rows[0].Version - 1, Head: found.Head, Pruned: true}
	}
	answer, err := s.pageOf(ctx, found.Rows, after, found.Head)
	if n := len(found.Rows); n > 0 {
		answer.After = found.Rows[n-1].Version
	}
	return reply{http.StatusOK, answer}, err
}

// onlyOfStreams refuses what would say nothing of a page.
func onlyOfStreams(asked map[string]bool) error {
	var faults []wrong
	for name, is := range asked {
		if is {
			faults = append(faults, wrong{Pointer: name, Detail: "is only for streams: Accept: text/event-stream"})
		}
	}
	if len(faults) > 0 {
		return invalid(sorted(faults)...)
	}
	return nil
}

func beyond(after, head uint64) error {
	return invalid(wrong{Pointer: "after", Detail: fmt.Sprintf("%d does not exist yet; the newest is %d", after, head)})
}

// cursors are the parameters that say where a stream begins, and how it is told.
type cursors struct {
	after, last *uint64
	hash        *string
	stored      *bool
}

// feed is what a scope or a stream is told by, from where its caller is.
func (s *server) feed(ctx context.Context, want fanout.Want, c cursors) feed {
	want.Who = callOf(ctx).who()
	want.Scope = want.Who.Scope
	if c.last != nil {
		want.From = fanout.After(*c.last) // an EventSource that connects again asks for the same address
	} else if c.after != nil {
		want.From = fanout.After(*c.after)
		want.AfterHash, _ = hex.DecodeString(or(c.hash, "")) // its shape is checked
	}
	if or(c.stored, false) {
		want.Form = fanout.Stored
	}
	return feed{ctx, s, want}
}

// feed is committed events as Server-Sent Events, each with its cursor as id. What is told is what a subscription on a
// socket is told.
type feed struct {
	ctx  context.Context
	s    *server
	want fanout.Want
}

// The operations that answer with one.

func (f feed) VisitListEventsResponse(w http.ResponseWriter) error       { return f.follow(w) }
func (f feed) VisitListStreamEventsResponse(w http.ResponseWriter) error { return f.follow(w) }

// subscribe waits no longer than a read does.
func (s *server) subscribe(ctx context.Context, want fanout.Want, notify func()) (*fanout.Subscription, error) {
	short, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	sub, err := s.Fanout.Subscribe(short, want, notify)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, &problem{Code: "unavailable", Detail: "the log and the read models do not answer", retryAfter: 2 * time.Second}
	}
	return sub, err
}

// pullAtOnce is how many bytes of events are written together.
const pullAtOnce = 64 << 10

func (f feed) follow(w http.ResponseWriter) error {
	wake := make(chan struct{}, 1)
	sub, err := f.s.subscribe(f.ctx, f.want, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer sub.Close()
	l, err := f.s.listen(f.ctx, w, fmt.Appendf(f.s.retry(), "event: subscribed\ndata: {\"type\":\"subscribed\",\"head\":%d}\n\n", sub.Head()))
	if err != nil {
		l.end(l.why(err))
		return nil // nobody is listening any more
	}
	l.end(f.tell(l, sub, wake))
	return nil
}

// tell hands over what there is, and waits for more, until it ends; it answers why.
func (f feed) tell(l *listener, sub *fanout.Subscription, wake <-chan struct{}) string {
	told := uint64(0)
	for {
		p := sub.Pull(pullAtOnce)
		b, id := f.pieces(p)
		told = max(told, id)
		if p.Reset != nil {
			b = reset(b, p.Reset)
		}
		if len(b) > 0 {
			if err := l.send(b); err != nil {
				return l.why(err)
			}
		}
		switch {
		case p.Reset != nil && p.Reset.Reason == fanout.NoAccess:
			return endAccess
		case p.Reset != nil:
			return endReset
		case p.More && l.ctx.Err() == nil && !l.stopping():
			continue
		}
		var err error
		select {
		case <-wake:
		case <-l.ping.C:
			// A filter leaves events out: the cursor has moved over them.
			if p.Cursor > told {
				told, err = p.Cursor, l.send(moved(p.Cursor))
			} else {
				err = l.send([]byte(heartbeat))
			}
		case <-l.s.Stopping:
			if err = l.reconnect(); err == nil {
				return endDrained
			}
		case <-l.ctx.Done():
			return endGone
		}
		if err != nil {
			return l.why(err)
		}
	}
}

// pieces are what was pulled as events of the stream, and the last one's id.
func (f feed) pieces(p fanout.Pulled) (b []byte, id uint64) {
	for _, e := range p.Events {
		if id = e.Position; f.want.Stream != "" {
			id = e.Seq
		}
		json := e.JSON
		if f.want.Form == fanout.Stored {
			json = e.Stored
		}
		b = append(strconv.AppendUint(append(b, "id: "...), id, 10), '\n')
		b = appendData(b, `{"type":"event",`, json, "}")
	}
	for i := range p.Live {
		b = appendData(append(b, "event: live\n"...), `{"type":"live",`, p.Live[i].AppendJSON(nil), "}")
	}
	return b, id
}

// moved is what moves the cursor where there is no event.
func moved(cursor uint64) []byte {
	return fmt.Appendf(nil, "id: %d\nevent: events\ndata: {\"type\":\"events\",\"cursor\":%d,\"events\":[]}\n\n", cursor, cursor)
}

// reset is the end of a stream that can't go on. Its id is the head: who comes again, having loaded what it follows, goes
// on from there.
func reset(b []byte, r *fanout.Reset) []byte {
	if r.Reason != fanout.NoAccess {
		b = append(strconv.AppendUint(append(b, "id: "...), r.Head, 10), '\n')
	}
	return appendData(append(b, "event: reset\n"...), `{"type":"reset",`, r.AppendJSON(nil), "}")
}

// typesOf are the types that a filter names.
func typesOf(text *string) []string {
	if text == nil {
		return nil
	}
	return strings.Split(*text, ",")
}
