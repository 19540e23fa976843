package live

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/fanout"
)

// subscribeFrame is what a client asks to follow.
type subscribeFrame struct {
	ID        string  `json:"id"`
	Stream    *string `json:"stream"`
	Scope     *string `json:"scope"`
	After     *uint64 `json:"after"`
	AfterHash string  `json:"after_hash"`
	Stored    bool    `json:"stored"`
	Filter    *struct {
		AgentID string   `json:"agent_id"`
		Types   []string `json:"types"`
	} `json:"filter"`
}

// The limits of a filter.
const (
	typesAtMost = 64
	idAtMost    = 200
)

// subscribedFrame says that what follows are a subscription's events.
type subscribedFrame struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	Head uint64 `json:"head"`
}

// subscribe takes a subscribe frame. What it asks for may have to be looked up: that happens beside the reader.
func (s *session) subscribe(frame []byte) error {
	var f subscribeFrame
	if err := json.Unmarshal(frame, &f); err != nil {
		return errors.New("the fields of subscribe are not of their types")
	}
	want, err := s.wanted(f)
	if err != nil {
		s.fail(unfollowed(err, f.ID))
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	sub := &subscription{
		id: f.ID, member: append(append([]byte(`"subscription":`), encode(f.ID)...), ','),
		form: want.Form, batch: s.said().Batch, stream: want.Stream != "", cancel: cancel,
	}
	if f.After != nil {
		sub.told = *f.After
	}
	if err := s.outbox.begin(sub); err != nil {
		cancel()
		s.fail(unfollowed(err, f.ID))
		return nil
	}
	if !s.gate.Go(func() { s.follow(ctx, sub, want) }) {
		cancel()
	}
	return nil
}

// wanted is what a client asks for, or why it can't be.
func (s *session) wanted(f subscribeFrame) (fanout.Want, error) {
	want := fanout.Want{Who: s.who, Scope: s.scope, Live: fanout.Live}
	refuse := func(code, format string, args ...any) (fanout.Want, error) {
		return want, &refusal{code: code, words: fmt.Sprintf(format, args...)}
	}
	if f.ID == "" || len(f.ID) > idAtMost || strings.ContainsRune(f.ID, 0) {
		return refuse(domain.CodeInvalid, "a subscription needs an id of 1 to %d bytes, and no NUL", idAtMost)
	}
	if (f.Stream == nil) == (f.Scope == nil) {
		return refuse(domain.CodeInvalid, "subscribe needs either a stream or a scope")
	}
	if f.Stream != nil {
		if want.Stream = domain.Stream(*f.Stream); !want.Stream.Valid() {
			return refuse(domain.CodeNotFound, "there is no such stream")
		}
	} else {
		want.Live = fanout.Committed
		if want.Scope = domain.Scope(*f.Scope); !want.Scope.Valid() {
			return refuse(domain.CodeNotFound, "there is no such scope")
		}
	}
	if f.AfterHash != "" {
		hash, err := hex.DecodeString(f.AfterHash)
		if err != nil || len(hash) != 32 {
			return refuse(domain.CodeInvalid, "after_hash must have 64 hexadecimal digits")
		}
		if f.After == nil {
			return refuse(domain.CodeInvalid, "after_hash needs after: it is the hash of the event there")
		}
		want.AfterHash = hash
	}
	if f.After != nil {
		want.From = fanout.After(*f.After)
	}
	if f.Stored {
		want.Form = fanout.Stored
	}
	if f.Filter == nil {
		return want, nil
	}
	if f.Stream != nil {
		return refuse(domain.CodeInvalid, "a filter needs a scope: a stream is followed whole")
	}
	if len(f.Filter.Types) > typesAtMost || len(f.Filter.AgentID) > idAtMost {
		return refuse(domain.CodeInvalid, "a filter may have %d types, and an agent_id of %d bytes", typesAtMost, idAtMost)
	}
	for _, name := range f.Filter.Types {
		if !s.gateway.Schema.Knows(name) {
			return refuse(domain.CodeInvalid, "no event has the type %.60q", name)
		}
	}
	want.Filter = fanout.Filter{AgentID: f.Filter.AgentID, Types: f.Filter.Types}
	return want, nil
}

// follow asks for a subscription and has the writer pull from it.
func (s *session) follow(ctx context.Context, sub *subscription, want fanout.Want) {
	feed, err := s.gateway.Fanout.Subscribe(ctx, want, func() { s.work(s.outbox.ready(sub)) })
	if err != nil {
		if ctx.Err() != nil {
			return // it was ended meanwhile, and the client was told
		}
		if errors.Is(err, fanout.ErrNotFound) {
			err = &refusal{code: domain.CodeNotFound, words: "there is no such stream or scope, or it is somebody else's"}
		} else {
			s.gateway.Log.Warn("a subscription can't be had now", "scope", want.Scope, "stream", want.Stream, "error", err)
		}
		s.unfollow(sub.id, encode(unfollowed(err, sub.id)))
		return
	}
	if want.From == fanout.Now() {
		sub.told = feed.Head()
	}
	sub.cursor.Store(sub.told)
	ok, fast, start := s.outbox.follow(sub, feed, encode(subscribedFrame{Type: "subscribed", ID: sub.id, Head: feed.Head()}))
	if !ok {
		feed.Close()
		return
	}
	s.queued(fast, start)
}

// unsubscribe ends a subscription. Nothing of it comes after the frame that says so.
func (s *session) unsubscribe(frame []byte) error {
	var f struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(frame, &f); err != nil {
		return errors.New("the fields of unsubscribe are not of their types")
	}
	if !s.unfollow(f.ID, encode(ackFrame{Type: "unsubscribed", ID: f.ID})) {
		s.fail(errorFrame{Type: "error", Code: domain.CodeNotFound, Message: "this socket has no subscription with this id", ID: cut(f.ID)})
	}
	return nil
}

// unfollow ends a subscription with a frame that says so, if there is one with this id.
func (s *session) unfollow(id string, frame []byte) bool {
	sub, ok, start := s.outbox.end(id, frame)
	if sub == nil {
		return false
	}
	sub.close()
	s.queued(ok, start)
	return true
}

// unfollowed is why there is no subscription.
func unfollowed(err error, id string) errorFrame {
	f := refused(err)
	f.Type, f.RequestID, f.ID = "error", "", cut(id)
	if f.Code == "unavailable" {
		f.RetryAfter = 1
	}
	return f
}
