package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
)

// The requests that a socket may have at once.
const (
	runningAtOnce = 256
	chatsWaiting  = 64
	askAgain      = 4 // how often a request whose outcome is unknown is asked again
)

// requests are what a socket asked and has no end yet.
type requests struct {
	mu      sync.Mutex
	running map[string]*running // by request id
	count   int
	chats   []*running // v2: one at a time, the first is being told
}

// running is a request in progress. One that is repeated takes the place of the older.
type running struct {
	request  *request
	ctx      context.Context //nolint:containedctx // the request's life
	cancel   context.CancelFunc
	accepted chan struct{} // closed when the command has its answer
	done     chan struct{}
}

// ask takes a request. Beside the reader it becomes a command, and its answer is told until it ends.
func (s *session) ask(kind string, frame []byte) error {
	r, err := parse(kind, frame, s.scope, s.said())
	var no *refusal
	if errors.As(err, &no) {
		s.fail(refused(err))
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.admit(); err != nil {
		s.refuse(r, err)
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	me := &running{request: r, ctx: ctx, cancel: cancel, accepted: make(chan struct{}), done: make(chan struct{})}
	if kind == "chat_request" {
		ok, first := s.requests.line(me)
		if !ok {
			cancel()
			s.refuse(r, &refusal{code: "busy", words: "too many requests wait on this socket"})
			return nil
		}
		s.requests.announce(me)
		if first {
			s.gate.Go(func() { s.chats(me) })
		}
		return nil
	}
	if !s.requests.begin() {
		cancel()
		s.refuse(r, &refusal{code: "busy", words: "too many requests run on this socket"})
		return nil
	}
	s.requests.announce(me)
	s.gate.Go(func() {
		defer s.requests.end()
		s.run(me, kind, framesV3)
	})
	return nil
}

// chats runs v2 requests one after the other: their frames do not say which request they belong to.
func (s *session) chats(first *running) {
	for r := first; r != nil && s.ctx.Err() == nil; r = s.requests.nextChat() {
		s.run(r, "chat_request", framesV2)
	}
}

// run asks and tells. What is provisional is kept from before the command is sent, so that nothing goes by.
func (s *session) run(me *running, kind string, form func(*request, Output) any) {
	ctx, r := me.ctx, me.request
	defer close(me.done)
	defer s.requests.forget(me)
	defer me.cancel()
	key := threadKey(s.scope, r.thread)
	defer s.gateway.Fanout.Expect(key)()
	ctx, span := s.gateway.received(ctx, kind, r.trace, r.run)
	answer, err := s.gateway.post(ctx, streams.Command{
		Scope: s.scope, ID: r.command, Minted: r.minted, Actor: s.actor(), Request: r.body, Body: r.post,
	})
	span.End()
	if err != nil {
		close(me.accepted)
		if ctx.Err() == nil {
			s.refuse(r, err)
		}
		return
	}
	older := s.requests.replace(me)
	close(me.accepted)
	if older != nil {
		older.cancel()
		<-older.done
	}
	from := FollowFrom{Posted: head(answer, key.Stream), Channel: r.post.Channel}
	s.gateway.follower(key, r.run, from).tell(ctx, func(o Output) bool {
		if ctx.Err() != nil {
			return false
		}
		if frame := form(r, o); frame != nil {
			s.send(frame)
		}
		return true
	})
}

func (s *session) refuse(r *request, err error) {
	f := refused(err)
	f.RequestID = r.id
	if r.minted && r.post.Channel == thread.Chat {
		f.RequestID = ""
	}
	s.fail(f)
}

// post asks, and asks again under the same id for a while if nobody knows whether it was decided.
func (g *Gateway) post(ctx context.Context, c streams.Command) (streams.Answer, error) {
	for again := 0; ; again++ {
		answer, err := g.Asker.Ask(ctx, c)
		if !errors.Is(err, streams.ErrOutcomeUnknown) || again == askAgain || ctx.Err() != nil {
			return answer, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return answer, err
		}
	}
}

func head(a streams.Answer, stream domain.Stream) uint64 {
	for _, h := range a.Heads {
		if h.Stream == stream {
			return h.Version
		}
	}
	return 0
}

// line lines a v2 request up. First: nobody runs them.
func (q *requests) line(r *running) (ok, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chats) > chatsWaiting {
		return false, false
	}
	q.chats = append(q.chats, r)
	return true, len(q.chats) == 1
}

// nextChat is the v2 request after the one that had its end, nil if none waits.
func (q *requests) nextChat() *running {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.chats = q.chats[1:]; len(q.chats) == 0 {
		q.chats = nil
		return nil
	}
	return q.chats[0]
}

// begin counts a request that will run at once with others.
func (q *requests) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count >= runningAtOnce {
		return false
	}
	q.count++
	return true
}

func (q *requests) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count--
}

// announce makes a request known before its command is sent, unless it repeats one.
func (q *requests) announce(r *running) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.running[r.request.id]; !ok {
		q.set(r)
	}
}

// replace makes r the one under its id and answers the older one.
func (q *requests) replace(r *running) *running {
	q.mu.Lock()
	defer q.mu.Unlock()
	older := q.running[r.request.id]
	q.set(r)
	if older == r {
		return nil
	}
	return older
}

// set makes r the one under its id. The caller holds mu.
func (q *requests) set(r *running) {
	if q.running == nil {
		q.running = map[string]*running{}
	}
	q.running[r.request.id] = r
}

func (q *requests) forget(r *running) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running[r.request.id] == r {
		delete(q.running, r.request.id)
	}
}

// find is a running request by its id or its run's.
func (q *requests) find(id, run string) *running {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, ok := q.running[id]; ok {
		return r
	}
	for _, r := range q.running {
		if run != "" && r.request.run == run {
			return r
		}
	}
	return nil
}
