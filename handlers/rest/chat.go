package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/streams"
)

const (
	maxMessage = 1 << 20 // bytes, message and history together
	embedAgain = 5 * time.Second
)

type chatBody struct {
	Message   string      `json:"message"`
	SessionID *string     `json:"session_id"`
	History   *[]saidBody `json:"conversation_history"`
	ProjectID *string     `json:"project_id"`
	OnBusy    *string     `json:"on_busy"`
	DeviceID  *string     `json:"device_id"`
	Timezone  *string     `json:"timezone"`
}

type saidBody struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

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

// chat posts a message and answers with the run's answer: as JSON, or as it comes (text/event-stream). The
// same request under the same Idempotency-Key is told again, or on.
func (s *server) chat(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	var body chatBody
	raw, err := read(c, chatLimit, &body)
	if err != nil {
		return err
	}
	key, err := requestID(c)
	if err != nil {
		return err
	}
	command := asked(c, key, raw, nil)
	post, err := s.message(c.Request().Context(), command, body)
	if err != nil {
		return err
	}
	command.Body = post
	answer, err := s.ask(c, command)
	if err != nil {
		return err
	}
	p := posted{RequestID: key, SessionID: post.Thread, RunID: post.RunID, answer: answer,
		from: live.FollowFrom{After: live.AfterPost(version(answer, post.Target())), Channel: thread.HTTP}}
	c.Response().Header().Set(echo.HeaderLocation, "/api/v1/runs/"+url.PathEscape(p.RunID))
	if accepts(c, "text/event-stream") {
		return s.streamChat(c, p)
	}
	return s.answerChat(c, p)
}

// message makes the command's content of a body, or says everything that is wrong with it.
func (s *server) message(ctx context.Context, command streams.Command, body chatBody) (thread.PostMessage, error) {
	post := thread.PostMessage{
		RunID: streams.Derive(command.ID, "run"), Channel: thread.HTTP, New: body.SessionID == nil,
		OnBusy: thread.OnBusy(value(body.OnBusy)), DeviceID: value(body.DeviceID), Timezone: value(body.Timezone),
		Content: thread.Content{Text: body.Message, ProjectID: value(body.ProjectID)},
	}
	post.Thread = cmp.Or(value(body.SessionID), streams.Derive(command.ID, "thread"))
	if errs := body.wrong(); len(errs) > 0 {
		return post, invalid(errs...)
	}
	size := len(body.Message) + len(post.Content.ProjectID)
	if body.History != nil {
		for _, line := range *body.History {
			size += len(line.Content)
			if post.New { // in a thread that exists its own timeline counts
				post.Content.History = append(post.Content.History, thread.Said(line))
			}
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

func (b chatBody) wrong() []wrong {
	var errs []wrong
	say := func(pointer, detail string) { errs = append(errs, wrong{Pointer: pointer, Detail: detail}) }
	if strings.TrimSpace(b.Message) == "" {
		say("/message", "is empty")
	}
	if b.SessionID != nil && *b.SessionID == "" {
		say("/session_id", "is empty; leave it out for a new thread")
	}
	switch thread.OnBusy(value(b.OnBusy)) {
	case "", thread.Queue, thread.Refuse, thread.Interrupt:
	default:
		say("/on_busy", "is queue, refuse or interrupt")
	}
	if b.History != nil {
		for i, line := range *b.History {
			if line.Role != "user" && line.Role != "assistant" {
				say(fmt.Sprintf("/conversation_history/%d/role", i), "is user or assistant")
			}
		}
	}
	if b.Timezone != nil {
		if _, err := time.LoadLocation(*b.Timezone); err != nil || *b.Timezone == "" || *b.Timezone == "Local" {
			say("/timezone", "is no IANA time zone")
		}
	}
	return errs
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
func (s *server) answerChat(c echo.Context, p posted) error {
	scope := principal(c).Scope
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.Limits.ChatWait)
	defer cancel()
	view := chatView{posted: p, Status: "running", Mutations: []thread.Mutation{}}
	var end *live.Output
	for o := range s.Gateway.Follow(ctx, scope, p.SessionID, p.RunID, p.from) {
		if o.Kind == live.OutputEnd {
			end = &o
		}
	}
	if err := c.Request().Context().Err(); err != nil {
		return err
	}
	if end == nil {
		return s.json(c, http.StatusAccepted, view)
	}
	s.settle(c, p, end.Version, &view)
	if end.Error != nil {
		failed := &problem{Code: "run_failed", Detail: end.Error.Message, RunID: p.RunID, SessionID: p.SessionID}
		if end.Error.Code == "cancelled" {
			failed.Code = "run_cancelled"
		}
		return failed
	}
	view.Status, view.Response = string(runs.Completed), end.Text
	if end.Mutations != nil {
		view.Mutations = end.Mutations
	}
	return s.json(c, http.StatusOK, view)
}

// settle waits a moment until the read models have the run's end, so that the answer's Position covers it
// and whoever reads next sees it; and takes from the record who answered. Without it the answer is as true.
func (s *server) settle(c echo.Context, p posted, version uint64, view *chatView) {
	scope := principal(c).Scope
	ctx, cancel := context.WithTimeout(c.Request().Context(), projections.Patience)
	defer cancel()
	for {
		changed := s.Waiter.Changed(modelEvents)
		rows, err := s.Events.After(ctx, threadKey(scope, p.SessionID), version-1, 1)
		if err != nil {
			return
		}
		if len(rows) == 1 {
			at := streams.Position{Scope: scope, Position: rows[0].Position, Era: rows[0].Era, Partition: rows[0].Place.Partition, Offset: rows[0].Place.Offset}
			setPosition(c, at)
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

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
