package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams"
)

const maxMessage = 1 << 20 // bytes, message and history together

// posted is a message that was accepted, and how to follow its run.
type posted struct {
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"`
	RunID     string `json:"run_id"`
	answer    streams.Answer
	from      live.FollowFrom
}

type chatView struct {
	posted
	Status    string            `json:"status"`
	Response  string            `json:"response"`
	Mutations []thread.Mutation `json:"mutations"`
	Agent     string            `json:"agent,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// Chat posts a message and answers with the run's answer: as JSON, or as it comes (text/event-stream). The
// same request under the same Idempotency-Key is told again, or on.
func (s *server) Chat(ctx context.Context, r contract.ChatRequestObject) (contract.ChatResponseObject, error) {
	key, command := asked(ctx, r.Params.IdempotencyKey, nil)
	post, err := s.message(ctx, command, *r.Body)
	if err != nil {
		return nil, err
	}
	command.Body = post
	answer, err := s.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	p := posted{RequestID: key, SessionID: post.Thread, RunID: post.RunID, answer: answer,
		from: live.FollowFrom{Posted: version(answer, post.Target()), Channel: thread.HTTP}}
	call := callOf(ctx)
	call.header().Set("Location", "/api/v1/runs/"+url.PathEscape(p.RunID))
	if accepts(call.request(), "text/event-stream") {
		return told{ctx, s, p}, nil
	}
	return s.answerChat(ctx, p)
}

// message makes the command's content of a body, or says what is wrong with it that its shape does not show.
func (s *server) message(ctx context.Context, command streams.Command, body contract.ChatMessage) (thread.PostMessage, error) {
	post := thread.PostMessage{
		RunID: streams.Derive(command.ID, "run"), Channel: thread.HTTP, New: body.SessionID == nil,
		OnBusy: thread.OnBusy(or(body.OnBusy, "")), DeviceID: or(body.DeviceID, ""), Timezone: or(body.Timezone, ""),
		Content: thread.Content{Text: body.Message, ProjectID: or(body.ProjectID, "")},
	}
	post.Thread = cmp.Or(or(body.SessionID, ""), streams.Derive(command.ID, "thread"))
	if strings.TrimSpace(body.Message) == "" {
		return post, invalid(wrong{Pointer: "/message", Detail: "is empty"})
	}
	size := len(body.Message) + len(post.Content.ProjectID)
	for _, line := range or(body.ConversationHistory, nil) {
		size += len(line.Content)
		if post.New { // in a thread that exists its own timeline counts
			post.Content.History = append(post.Content.History, thread.Said{Role: line.Role, Content: line.Content})
		}
	}
	if size > maxMessage {
		return post, fail("too_large", fmt.Sprintf("message and history may have %d bytes together, these have %d", maxMessage, size))
	}
	if !domain.NewStream("thread", post.Thread).Valid() {
		return post, fail("not_found", "there is no such thread")
	}
	return post, s.bind(ctx, command.Scope, &post)
}

// bind chooses the device that tool calls go to: the one named, which must be the caller's, else the one
// seen last. Its time zone counts where the request has none.
func (s *server) bind(ctx context.Context, scope domain.Scope, post *thread.PostMessage) error {
	named := post.DeviceID != ""
	if !named {
		last, ok, err := s.Work.LastSeen(ctx, scope)
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		post.DeviceID = last
	}
	d, err := s.Devices.Get(ctx, scope, post.DeviceID)
	if errors.Is(err, projections.ErrNotFound) {
		if named {
			return invalid(wrong{Pointer: "/device_id", Detail: "you have no such device"})
		}
		return nil // it is new: its hello is not projected yet
	}
	if err != nil {
		return err
	}
	post.Timezone = cmp.Or(post.Timezone, d.Timezone)
	return nil
}

// answerChat waits for the run's end. One that takes longer is accepted, and found at its Location.
func (s *server) answerChat(ctx context.Context, p posted) (contract.ChatResponseObject, error) {
	scope := callOf(ctx).scope()
	short, cancel := context.WithTimeout(ctx, s.Limits.ChatWait)
	defer cancel()
	view := chatView{posted: p, Status: "running", Mutations: []thread.Mutation{}}
	var end *live.Output
	for o := range s.Gateway.Follow(short, scope, p.SessionID, p.RunID, p.from) {
		if o.Kind == live.OutputEnd {
			end = &o
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if end == nil {
		return reply{http.StatusAccepted, view}, nil
	}
	if end.Error != nil && end.Error.Code == live.CodePruned {
		return nil, events.ErrPruned
	}
	s.settle(ctx, p, end.Version, &view)
	if end.Error != nil {
		failed := &problem{Code: "run_failed", Detail: end.Error.Message, RunID: p.RunID, SessionID: p.SessionID}
		if end.Error.Code == "cancelled" {
			failed.Code = "run_cancelled"
		}
		return nil, failed
	}
	view.Status, view.Response = string(runs.Completed), end.Text
	if end.Mutations != nil {
		view.Mutations = end.Mutations
	}
	return reply{http.StatusOK, view}, nil
}

// settle waits a moment until the read models have the run's end, so that the answer's Position covers it
// and whoever reads next sees it; and takes from the record who answered. Without it the answer is as true.
func (s *server) settle(ctx context.Context, p posted, version uint64, view *chatView) {
	call := callOf(ctx)
	scope := call.scope()
	ctx, cancel := context.WithTimeout(ctx, projections.Patience)
	defer cancel()
	for {
		changed := s.Waiter.Changed(modelEvents)
		rows, err := s.Events.After(ctx, threadKey(scope, p.SessionID), version-1, 1)
		if err != nil {
			return
		}
		if len(rows) == 1 {
			at := streams.Position{Scope: scope, Position: rows[0].Position, Era: rows[0].Era, Partition: rows[0].Place.Partition, Offset: rows[0].Place.Offset}
			call.header().Set(HeaderPosition, at.String())
			if s.Waiter.Wait(ctx, at, modelRuns) != nil {
				return
			}
			if run, err := s.Runs.Get(ctx, scope, p.RunID); err == nil {
				view.Agent, view.Metadata = run.Agent, run.Metadata
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func threadKey(scope domain.Scope, thread string) streams.StreamKey {
	return streams.StreamKey{Scope: scope, Stream: domain.NewStream("thread", thread)}
}
