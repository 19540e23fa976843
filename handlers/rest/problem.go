package rest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/handlers/fanout"
	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/events"
	"github.com/cairnhq/cairn/streams"
)

// problem is an answer that says what went wrong (RFC 9457). It is an error until it is written.
type problem struct {
	Type    string           `json:"type"`
	Title   string           `json:"title"`
	Status  int              `json:"status"`
	Detail  string           `json:"detail,omitempty"`
	Code    string           `json:"code"`
	TraceID string           `json:"traceId"`
	Errors  []wrong          `json:"errors,omitempty"`
	Numbers map[string]int64 `json:"numbers,omitempty"`
	// Of a read model that is behind.
	MinPosition string `json:"min_position,omitempty"`
	Position    string `json:"position,omitempty"`
	// Of a run that did not complete.
	RunID     string `json:"run_id,omitempty"`
	SessionID string `json:"session_id,omitempty"`

	retryAfter time.Duration
}

// wrong is one value that is not allowed. Pointer is a JSON Pointer into the body, or a parameter's name.
type wrong struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Error makes a problem an error.
func (p *problem) Error() string { return p.Code + ": " + p.Detail }

func fail(code, detail string) *problem { return &problem{Code: code, Detail: detail} }

func invalid(errs ...wrong) *problem {
	p := &problem{Code: "invalid", Errors: errs}
	if len(errs) > 0 {
		p.Detail = strings.TrimPrefix(errs[0].Pointer+": "+errs[0].Detail, ": ")
	}
	return p
}

// problemOf maps every error there is to a problem. What it does not know is internal and is logged.
func (s *server) problemOf(err error) *problem {
	var (
		known     *problem
		rejection *domain.Rejection
		busy      *streams.Busy
		taken     *accounts.Taken
		reset     *events.Reset
		http      *echo.HTTPError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &rejection):
		return &problem{Code: rejection.Code, Detail: rejection.Reason, Numbers: rejection.Numbers}
	case errors.As(err, &busy):
		return &problem{Code: "overloaded", Detail: busy.Reason, retryAfter: max(busy.RetryAfter, time.Second)}
	case errors.As(err, &taken):
		return fail("email_taken", "this e-mail address has an account: log in instead")
	case errors.As(err, &reset):
		return &problem{Code: "reset", Detail: reset.Error(), Numbers: map[string]int64{"after": int64(reset.After), "oldest": int64(reset.Oldest), "head": int64(reset.Head)}}
	case errors.Is(err, events.ErrPruned):
		return fail("pruned", "events that this needs were deleted from the read model; the log has them")
	case errors.Is(err, projections.ErrNotFound), errors.Is(err, fanout.ErrNotFound):
		return fail("not_found", "there is nothing with that name that belongs to you")
	case errors.Is(err, accounts.ErrCredentials):
		return fail("bad_credentials", "e-mail or password is wrong")
	case errors.Is(err, accounts.ErrToken):
		return fail("unauthorized", "the token is wrong, used or expired")
	case errors.Is(err, streams.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded):
		return &problem{Code: "outcome_unknown", Detail: streams.ErrOutcomeUnknown.Error(), retryAfter: time.Second}
	case errors.Is(err, streams.ErrScopeErased):
		return fail("scope_erased", "the account was erased")
	case errors.Is(err, streams.ErrKeyAbsent):
		return &problem{Code: "unavailable", Detail: "the key to this account's content is missing: its operator must bring it back", retryAfter: time.Minute}
	case errors.Is(err, streams.ErrKeysUnreachable):
		return &problem{Code: "unavailable", Detail: "the keys can't be reached", retryAfter: 5 * time.Second}
	case errors.As(err, &http):
		return ofEcho(http)
	case projections.Away(err):
		return &problem{Code: "unavailable", Detail: "the database can't be reached", retryAfter: 2 * time.Second}
	}
	return nil
}

func ofEcho(err *echo.HTTPError) *problem {
	switch err.Code {
	case http.StatusNotFound:
		return fail("not_found", "there is no such path")
	case http.StatusMethodNotAllowed:
		return fail("method_not_allowed", "the path exists, but not with this method")
	case http.StatusRequestEntityTooLarge:
		return fail("too_large", "the body is too large")
	case http.StatusUnsupportedMediaType:
		return fail("unsupported_media_type", "send application/json")
	case http.StatusBadRequest:
		return fail("malformed", "the request can't be read")
	}
	return nil
}

// onError writes an error as a problem; echo calls it once per request.
func (s *server) onError(err error, c echo.Context) {
	if c.Response().Committed {
		if c.Request().Context().Err() == nil {
			s.Log.WarnContext(c.Request().Context(), "an answer broke off", "error", err, "route", routeOf(c), "trace_id", traceID(c))
		}
		return
	}
	if errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil {
		return // nobody is listening any more
	}
	p := s.problemOf(err)
	if p == nil {
		s.Log.ErrorContext(c.Request().Context(), "a request failed", "error", err, "route", c.Path(), "trace_id", traceID(c))
		p = fail("internal", "something broke on our side")
	}
	s.writeProblem(c, *p)
}

func (s *server) writeProblem(c echo.Context, p problem) {
	k := s.kinds.rejection(p.Code)
	p.Code, p.Status, p.Title, p.TraceID = k.Code, k.Status, k.Title, traceID(c)
	p.Type = s.PublicURL + "/problems/" + k.typ()
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "application/problem+json")
	header.Set(echo.HeaderCacheControl, "no-store")
	if p.retryAfter > 0 {
		header.Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		header.Set(echo.HeaderWWWAuthenticate, `Bearer realm="cairn"`)
	}
	c.Response().WriteHeader(p.Status)
	if c.Request().Method == http.MethodHead {
		return
	}
	e := json.NewEncoder(c.Response())
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		s.Log.DebugContext(c.Request().Context(), "a problem was not written", "error", err)
	}
}
