package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/devices"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/projections/runs"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/streams"
)

// The read models that reads wait for.
const (
	modelEvents  = events.Name
	modelThreads = threads.Name
	modelRuns    = runs.Name
	modelDevices = devices.Name
	modelEffects = openeffects.Name
)

const maxTitle = 200 // characters

type threadView struct {
	ID           string    `json:"id"`
	Title        *string   `json:"title"`
	CreatedAt    time.Time `json:"created_at"`
	LastActivity time.Time `json:"last_activity"`
	Messages     uint64    `json:"messages"`
	ActiveRun    *string   `json:"active_run"`
	Version      uint64    `json:"version"`
}

// page is a part of a list.
type page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// paged answers a page and links to the next one.
func paged[T any](s *server, c echo.Context, data []T, next string) error {
	p := page[T]{Data: data}
	if p.Data == nil {
		p.Data = []T{}
	}
	if next != "" {
		p.NextCursor = &next
		values := c.Request().URL.Query()
		values.Set("cursor", next)
		c.Response().Header().Set("Link", fmt.Sprintf(`<%s?%s>; rel="next"`, c.Request().URL.EscapedPath(), values.Encode()))
	}
	return s.json(c, http.StatusOK, p)
}

func (s *server) listThreads(c echo.Context) error {
	q, err := parameters(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit := q.limit(50, 200)
	if err := q.err(); err != nil {
		return err
	}
	if err := s.await(c, q, modelThreads, modelEvents); err != nil {
		return err
	}
	found, next, err := s.Threads.List(c.Request().Context(), principal(c).Scope, q.values["cursor"], limit)
	if errors.Is(err, threads.ErrCursor) {
		return invalid(wrong{Pointer: "cursor", Detail: "is not one that this list gave out"})
	}
	if err != nil {
		return err
	}
	views := make([]threadView, len(found))
	for i, t := range found {
		if views[i], err = s.viewThread(c.Request().Context(), t); err != nil {
			return err
		}
	}
	return paged(s, c, views, next)
}

func (s *server) viewThread(ctx context.Context, t threads.Thread) (threadView, error) {
	v := threadView{ID: t.ID, CreatedAt: t.CreatedAt, LastActivity: t.LastActivity, Messages: t.Messages, Version: t.Head}
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

// own finds the thread of the path in the caller's scope, when the models have min_position.
func (s *server) own(c echo.Context, q *query, models ...string) (threads.Thread, error) {
	name, err := id(c, "thread")
	if err != nil {
		return threads.Thread{}, err
	}
	if err := s.await(c, q, append(models, modelThreads)...); err != nil {
		return threads.Thread{}, err
	}
	return s.Threads.Get(c.Request().Context(), principal(c).Scope, name)
}

func (s *server) getThread(c echo.Context) error {
	q, err := parameters(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	t, err := s.own(c, q, modelEvents)
	if err != nil {
		return err
	}
	if done, err := etag(c, t.Head); done {
		return err
	}
	v, err := s.viewThread(c.Request().Context(), t)
	if err != nil {
		return err
	}
	return s.json(c, http.StatusOK, v)
}

type titleBody struct {
	Title *string `json:"title"`
}

func title(text string) (string, error) {
	text = strings.TrimSpace(text)
	if n := utf8.RuneCountInString(text); n < 1 || n > maxTitle {
		return "", invalid(wrong{Pointer: "/title", Detail: fmt.Sprintf("must have between 1 and %d characters", maxTitle)})
	}
	return text, nil
}

// createThread opens a thread, and names it in a second command where it has a title.
func (s *server) createThread(c echo.Context) error {
	if err := bare(c); err != nil {
		return err
	}
	var body titleBody
	raw, err := read(c, smallBody, &body)
	if err != nil {
		return err
	}
	var name string
	if body.Title != nil {
		if name, err = title(*body.Title); err != nil {
			return err
		}
	}
	key, err := requestID(c)
	if err != nil {
		return err
	}
	command := asked(c, key, raw, nil)
	on := thread.On{Thread: streams.Derive(command.ID, "thread")}
	command.Body = thread.Open{On: on}
	answer, err := s.ask(c, command)
	if err != nil {
		return err
	}
	v := threadView{ID: on.Thread, CreatedAt: answer.DecidedAt.UTC(), LastActivity: answer.DecidedAt.UTC(), Version: version(answer, on.Target())}
	if name != "" {
		command.ID = streams.Derive(command.ID, "title")
		command.Body = thread.Rename{On: on, Title: thread.Title{Text: name}}
		if answer, err = s.ask(c, command); err != nil {
			return err
		}
		v.Title, v.Version, v.LastActivity = &name, version(answer, on.Target()), answer.DecidedAt.UTC()
	}
	c.Response().Header().Set(echo.HeaderLocation, "/api/v1/threads/"+url.PathEscape(on.Thread))
	c.Response().Header().Set("ETag", strconv.Quote(fmt.Sprintf("v%d", v.Version)))
	return s.json(c, http.StatusCreated, v)
}

func (s *server) renameThread(c echo.Context) error {
	q, err := parameters(c)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	var body titleBody
	raw, err := read(c, smallBody, &body)
	if err != nil {
		return err
	}
	if body.Title == nil {
		return invalid(wrong{Pointer: "/title", Detail: "is missing"})
	}
	name, err := title(*body.Title)
	if err != nil {
		return err
	}
	key, err := requestID(c)
	if err != nil {
		return err
	}
	of, err := id(c, "thread")
	if err != nil {
		return err
	}
	if c.Request().Header.Get("If-Match") != "" {
		// The newest version that is read here may be overtaken before the command is decided: a title is
		// replaced whole, so nothing is lost by that but the warning.
		t, err := s.own(c, q)
		if err != nil {
			return err
		}
		if err := ifMatch(c, t.Head); err != nil {
			return err
		}
	}
	on := thread.On{Thread: of}
	answer, err := s.ask(c, asked(c, key, raw, thread.Rename{On: on, Title: thread.Title{Text: name}}))
	if err != nil {
		return err
	}
	head := version(answer, on.Target())
	if head > 0 {
		c.Response().Header().Set("ETag", strconv.Quote(fmt.Sprintf("v%d", head)))
	}
	return s.json(c, http.StatusOK, struct {
		ID      string `json:"id"`
		Title   string `json:"title"`
		Version uint64 `json:"version,omitempty"`
	}{of, name, head})
}
