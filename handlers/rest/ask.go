package rest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
)

// HeaderIdempotencyKey names a command: the same key and request is done once, and has one answer.
const (
	HeaderIdempotencyKey      = "Idempotency-Key"
	headerIdempotencyReplayed = "Idempotency-Replayed"
)

// asked is a command under the caller's request id; without one it is minted, and a repeat can't be
// recognised. The fingerprint covers method, path and body as they came.
func asked(ctx context.Context, key *string, command domain.Command) (id string, c streams.Command) {
	call := callOf(ctx)
	id = or(key, "")
	if key == nil {
		id = uuid.NewString()
	}
	who, r := call.who(), call.request()
	request := bytes.Join([][]byte{[]byte(r.Method), []byte(r.URL.Path), call.body}, []byte("\n"))
	return id, streams.Command{
		Scope: who.Scope, ID: streams.CommandID(who.Scope, id), Minted: key == nil,
		Request: request, Body: command,
		Actor: domain.Actor{Kind: domain.ActorUser, ID: who.UserID},
	}
}

// ask sends a command and says in the headers where the answer stands.
func (s *server) ask(ctx context.Context, command streams.Command) (streams.Answer, error) {
	call := callOf(ctx)
	answer, err := s.Asker.Ask(ctx, command)
	var rejection *domain.Rejection
	switch {
	case err == nil:
		call.header().Set(HeaderPosition, answer.Position.String())
		if answer.Repeated {
			call.header().Set(headerIdempotencyReplayed, "true")
		}
		return answer, nil
	case errors.As(err, &rejection), known(err), ctx.Err() != nil:
		return answer, err
	}
	// The log or the vault can't be reached. Nothing was sent.
	s.Log.ErrorContext(ctx, "a command could not be sent", "error", err, "command_id", command.ID, "trace_id", call.traceID())
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
