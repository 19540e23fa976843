package rest

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/rest/contract"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/requests"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/streams"
)

// The read models that reads wait for.
const (
	modelEvents   = events.Name
	modelThreads  = threads.Name
	modelRuns     = runs.Name
	modelDevices  = devices.Name
	modelEffects  = openeffects.Name
	modelRequests = requests.Name
)

// defaultLimit is how long a page of a list is where the caller does not say.
const defaultLimit = 50

// nameable says of a name that can't be one that nothing has it.
func nameable(name string) error {
	if !domain.NewStream("x", name).Valid() {
		return fail("not_found", "there is nothing with that name that belongs to you")
	}
	return nil
}

// ListThreads lists the caller's threads.
func (s *server) ListThreads(ctx context.Context, r contract.ListThreadsRequestObject) (contract.ListThreadsResponseObject, error) {
	if err := s.await(ctx, r.Params.MinPosition, modelThreads, modelEvents); err != nil {
		return nil, err
	}
	call := callOf(ctx)
	found, next, err := s.Threads.List(ctx, call.scope(), or(r.Params.Cursor, ""), or(r.Params.Limit, defaultLimit))
	if errors.Is(err, threads.ErrCursor) {
		return nil, invalid(wrong{Pointer: "cursor", Detail: notGivenOut})
	}
	if err != nil {
		return nil, err
	}
	views := make([]contract.Thread, len(found))
	for i, t := range found {
		if views[i], err = s.viewThread(ctx, t); err != nil {
			return nil, err
		}
	}
	return contract.ListThreads200JSONResponse{Body: contract.ThreadPage{Data: views, NextCursor: call.next(next)}}, nil
}

// notGivenOut is what is wrong with a cursor.
const notGivenOut = "is not one that this list gave out"

func (s *server) viewThread(ctx context.Context, t threads.Thread) (contract.Thread, error) {
	v := contract.Thread{ID: t.ID, CreatedAt: t.CreatedAt, LastActivity: t.LastActivity, Messages: t.Messages, Version: t.Head}
	if t.ActiveRun != "" {
		v.ActiveRun = &t.ActiveRun
	}
	if t.TitleVersion == 0 {
		return v, nil
	}
	event, err := s.event(ctx, streams.StreamKey{Scope: t.Scope, Stream: domain.NewStream("thread", t.ID)}, t.TitleVersion)
	if titled, ok := event.(thread.Titled); ok && err == nil {
		v.Title = &titled.Title.Text
	}
	return v, err
}

// event opens one event by its version.
func (s *server) event(ctx context.Context, key streams.StreamKey, version uint64) (any, error) {
	rows, err := s.Events.After(ctx, key, version-1, 1)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0].Version != version {
		return nil, nil // the events model is behind this one; what it lacks is not shown yet
	}
	return s.Schema.Open(ctx, s.Keys, rows[0])
}

// own finds a thread in the caller's scope, when the models have min_position.
func (s *server) own(ctx context.Context, name string, minimum *string, models ...string) (threads.Thread, error) {
	if err := nameable(name); err != nil {
		return threads.Thread{}, err
	}
	if err := s.await(ctx, minimum, append(models, modelThreads)...); err != nil {
		return threads.Thread{}, err
	}
	return s.Threads.Get(ctx, callOf(ctx).scope(), name)
}

// GetThread answers one thread, as it is or as it was.
func (s *server) GetThread(ctx context.Context, r contract.GetThreadRequestObject) (contract.GetThreadResponseObject, error) {
	if r.Params.At != nil {
		return s.pastThread(ctx, r, *r.Params.At)
	}
	t, err := s.own(ctx, r.Thread, r.Params.MinPosition, modelEvents)
	if err != nil {
		return nil, err
	}
	if callOf(ctx).fresh(t.Head, r.Params.IfNoneMatch) {
		return contract.GetThread304Response{}, nil
	}
	v, err := s.viewThread(ctx, t)
	if err != nil {
		return nil, err
	}
	if v.Title == nil && t.TitleVersion > 0 {
		callOf(ctx).header().Del("ETag") // events is behind: whoever kept this under its tag would never see the title
	}
	return contract.GetThread200JSONResponse{Body: v}, nil
}

// title is a title without the space around it. The document bounds what was sent, this what is left.
func title(text string) (string, error) {
	if text = strings.TrimSpace(text); text == "" {
		return "", invalid(wrong{Pointer: "/title", Detail: "must have between 1 and 200 characters"})
	}
	return text, nil
}

// CreateThread opens a thread, and names it in a second command where it has a title.
func (s *server) CreateThread(ctx context.Context, r contract.CreateThreadRequestObject) (contract.CreateThreadResponseObject, error) {
	var name string
	if r.Body.Title != nil {
		var err error
		if name, err = title(*r.Body.Title); err != nil {
			return nil, err
		}
	}
	_, command := asked(ctx, r.Params.IdempotencyKey, nil)
	on := thread.On{Thread: streams.Derive(command.ID, "thread")}
	command.Body = thread.Open{On: on}
	answer, err := s.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	v := contract.Thread{ID: on.Thread, CreatedAt: answer.DecidedAt.UTC(), LastActivity: answer.DecidedAt.UTC(), Version: version(answer, on.Target())}
	if name != "" {
		command.ID = streams.Derive(command.ID, "title")
		command.Body = thread.Rename{On: on, Title: thread.Title{Text: name}}
		if answer, err = s.ask(ctx, command); err != nil {
			return nil, err
		}
		v.Title, v.Version, v.LastActivity = &name, version(answer, on.Target()), answer.DecidedAt.UTC()
	}
	header := callOf(ctx).header()
	header.Set("Location", "/api/v1/threads/"+url.PathEscape(on.Thread))
	header.Set("ETag", tag(v.Version))
	return contract.CreateThread201JSONResponse{Body: v}, nil
}

// RenameThread gives a thread another title.
func (s *server) RenameThread(ctx context.Context, r contract.RenameThreadRequestObject) (contract.RenameThreadResponseObject, error) {
	name, err := title(r.Body.Title)
	if err != nil {
		return nil, err
	}
	if err := nameable(r.Thread); err != nil {
		return nil, err
	}
	call := callOf(ctx)
	if r.Params.IfMatch != nil {
		// The newest version that is read here may be overtaken before the command is decided: a title is
		// replaced whole, so nothing is lost by that but the warning.
		t, err := s.own(ctx, r.Thread, r.Params.MinPosition)
		if err != nil {
			return nil, err
		}
		if err := call.matches(t.Head, *r.Params.IfMatch); err != nil {
			return nil, err
		}
	}
	on := thread.On{Thread: r.Thread}
	_, command := asked(ctx, r.Params.IdempotencyKey, thread.Rename{On: on, Title: thread.Title{Text: name}})
	answer, err := s.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	head := version(answer, on.Target())
	if head > 0 {
		call.header().Set("ETag", tag(head))
	}
	return contract.RenameThread200JSONResponse{Body: contract.RenamedThread{ID: r.Thread, Title: name, Version: some(head)}}, nil
}
