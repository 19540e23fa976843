package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/handlers/accounts"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// What a request's context carries, by echo's keys.
const (
	keyRequest   = "request"
	keyPrincipal = "principal"
)

// traceShape is what a caller's own request id may look like; another is replaced.
func traceShape() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) }

// identify gives the request an id: the caller's, if it is one, else a new one.
func (s *server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	shape := traceShape()
	return func(c echo.Context) error {
		id := c.Request().Header.Get(echo.HeaderXRequestID)
		if !shape.MatchString(id) {
			id = uuid.NewString()
		}
		c.Set(keyRequest, id)
		c.SetRequest(c.Request().WithContext(tracing.With(c.Request().Context(), tracing.Fields{Request: id})))
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, id)
		header.Set("X-Content-Type-Options", "nosniff")
		return next(c)
	}
}

// traceID is by what a request is found in traces and logs: its trace, or its own id where nothing is traced.
func traceID(c echo.Context) string {
	id, _ := c.Get(keyRequest).(string)
	return cmp.Or(tracing.ID(c.Request().Context()), id)
}

// access logs one line per request: the route, never its query, its headers or its body.
func (s *server) access(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := s.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		route := routeOf(c)
		nameSpan(c, route)
		level := slog.LevelInfo
		if route == "/healthz" || route == "/readyz" {
			level = slog.LevelDebug // somebody asks each second
		}
		s.Log.Log(c.Request().Context(), level, "http", "method", c.Request().Method, "route", route, "status", c.Response().Status,
			"bytes", c.Response().Size, "ms", s.Now().Sub(began).Milliseconds(), "trace_id", traceID(c), "scope", string(principal(c).Scope))
		return nil
	}
}

func (s *server) panicked(c echo.Context, err error, stack []byte) error {
	s.Log.ErrorContext(c.Request().Context(), "a handler panicked", "error", err, "stack", string(stack), "trace_id", traceID(c))
	return fail("internal", "something broke on our side")
}

// authenticate lets in who has an access token. It stands in a header only: a query ends up in logs.
func (s *server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		scheme, token, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
		if !strings.EqualFold(scheme, "bearer") || token == "" {
			return fail("unauthorized", "send the access token as Authorization: Bearer …")
		}
		p, err := s.Accounts.Verify(strings.TrimSpace(token))
		if err != nil {
			return fail("unauthorized", "the access token is wrong or expired")
		}
		c.Set(keyPrincipal, p)
		return next(c)
	}
}

// unerased turns away whose account is erased: an access token that was given before lives on for minutes,
// and what is left of an account, ids and counts, is shown to nobody. A key that can't be read for another
// reason stops only those who need it. Commands need no such look: the log answers them.
func (s *server) unerased(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if _, err := s.Keys.Index(c.Request().Context(), principal(c).Scope); errors.Is(err, streams.ErrScopeErased) {
			return err
		}
		return next(c)
	}
}

func principal(c echo.Context) accounts.Principal {
	p, _ := c.Get(keyPrincipal).(accounts.Principal)
	return p
}

func (s *server) limitCommands(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.commands.admit(c, principal(c).UserID); err != nil {
			return err
		}
		return next(c)
	}
}

func (s *server) limitSessions(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.sessions.admit(c, household(c.RealIP())); err != nil {
			return err
		}
		return next(c)
	}
}

// readPatience is how long a read may take, waiting for a position included: a database that does not answer must not
// keep callers for ever.
const readPatience = 10 * time.Second

// readWithin bounds a read, and says so where its time is up. A stream that goes on has no end.
func (s *server) readWithin(o operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc { return readWithin(o, next) }
}

func readWithin(o operation, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		caller := c.Request()
		if o.followed(caller) {
			return next(c)
		}
		ctx, cancel := context.WithTimeout(caller.Context(), readPatience)
		defer cancel()
		c.SetRequest(caller.WithContext(ctx))
		err := next(c)
		c.SetRequest(caller)
		if errors.Is(err, context.DeadlineExceeded) && caller.Context().Err() == nil {
			return &problem{Code: "unavailable", Detail: "the read models do not answer", retryAfter: 2 * time.Second}
		}
		return err
	}
}

// tag is a version as an ETag.
func tag(version uint64) string { return fmt.Sprintf("%q", fmt.Sprintf("v%d", version)) }

// fresh sets the answer's ETag, and reports whether the caller has that version already. A proxy that compresses
// makes tags weak, which is good enough for reading.
func (c *call) fresh(version uint64, ifNoneMatch *string) bool {
	c.header().Set("ETag", tag(version))
	return ifNoneMatch != nil && listed(strings.ReplaceAll(*ifNoneMatch, "W/", ""), tag(version))
}

// matches refuses a write that was meant for another version. Without the header every version will do.
func (c *call) matches(version uint64, ifMatch string) error {
	if listed(ifMatch, tag(version)) {
		return nil
	}
	c.header().Set("ETag", tag(version))
	return fail("precondition_failed", fmt.Sprintf("the newest version is %d", version))
}

func listed(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || one == tag {
			return true
		}
	}
	return false
}
