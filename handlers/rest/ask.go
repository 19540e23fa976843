package rest

import (
	"bytes"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// HeaderIdempotencyKey names a command: the same key and request is done once, and has one answer.
const (
	HeaderIdempotencyKey      = "Idempotency-Key"
	headerIdempotencyReplayed = "Idempotency-Replayed"
	maxKey                    = 200
)

// requestID is the caller's Idempotency-Key. Without one it is minted, and a repeat can't be recognised.
func requestID(c echo.Context) (string, error) {
	values := c.Request().Header.Values(HeaderIdempotencyKey)
	if len(values) == 0 {
		return uuid.NewString(), nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > maxKey {
		return "", invalid(wrong{Pointer: HeaderIdempotencyKey, Detail: "one key of 1 to 200 characters"})
	}
	for _, r := range key {
		if r < ' ' || r > '~' {
			return "", invalid(wrong{Pointer: HeaderIdempotencyKey, Detail: "printable ASCII characters only"})
		}
	}
	return key, nil
}

// asked is a command under the caller's request id. The fingerprint covers method, path and body as they came.
func asked(c echo.Context, key string, body []byte, command domain.Command) streams.Command {
	p := principal(c)
	request := bytes.Join([][]byte{[]byte(c.Request().Method), []byte(c.Request().URL.Path), body}, []byte("\n"))
	return streams.Command{
		Scope: p.Scope, ID: streams.CommandID(p.Scope, key), Minted: c.Request().Header.Get(HeaderIdempotencyKey) == "",
		Request: request, Body: command,
		Actor: domain.Actor{Kind: domain.ActorUser, ID: p.UserID},
	}
}

// ask sends a command and says in the headers where the answer stands.
func (s *server) ask(c echo.Context, command streams.Command) (streams.Answer, error) {
	answer, err := s.Asker.Ask(c.Request().Context(), command)
	var rejection *domain.Rejection
	switch {
	case err == nil:
		setPosition(c, answer.Position)
		if answer.Repeated {
			c.Response().Header().Set(headerIdempotencyReplayed, "true")
		}
		return answer, nil
	case errors.As(err, &rejection), known(err), c.Request().Context().Err() != nil:
		return answer, err
	}
	// The log or the vault can't be reached. Nothing was sent.
	s.Log.ErrorContext(c.Request().Context(), "a command could not be sent", "error", err, "command_id", command.ID, "trace_id", traceID(c))
	return answer, &problem{Code: "unavailable", Detail: "the command could not be sent; nothing was done", retryAfter: 2 * time.Second}
}

func known(err error) bool {
	var busy *streams.Busy
	return errors.As(err, &busy) || errors.Is(err, streams.ErrOutcomeUnknown) || errors.Is(err, streams.ErrScopeErased)
}

func version(a streams.Answer, stream domain.Stream) uint64 {
	for _, head := range a.Heads {
		if head.Stream == stream {
			return head.Version
		}
	}
	return 0
}
