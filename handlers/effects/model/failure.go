package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cloudwego/eino-ext/components/model/openai"
	wire "github.com/meguminnnnnnnnn/go-openai"

	"github.com/cairnhq/cairn/domain/thread"
)

// Failure is an attempt that came to nothing.
type Failure struct {
	Class      thread.FailureClass
	RetryAfter time.Duration // what the far side asked for
	Err        error
}

// Error says what failed.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Class, f.Err) }

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

var (
	errTruncated = errors.New("the stream ended without a finish reason")
	errEmpty     = errors.New("the model answered with nothing")
	errStalled   = errors.New("the model stopped sending")
)

// classify sorts the error of an attempt.
func classify(err error, h *heard) *Failure {
	f := &Failure{Err: err, RetryAfter: h.retryAfter}
	var api *openai.APIError
	var midway *wire.APIError // inside a stream the adapter lets its client's own error through
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	status, code := h.status, ""
	if errors.As(err, &api) {
		code = fmt.Sprint(api.Code, " ", api.Type, " ", api.Message)
		if api.HTTPStatusCode != 0 {
			status = api.HTTPStatusCode
		}
	}
	if errors.As(err, &midway) {
		code = fmt.Sprint(midway.Code, " ", midway.Type, " ", midway.Message)
	}
	switch {
	case errors.Is(err, errTruncated), errors.Is(err, io.ErrUnexpectedEOF):
		f.Class = thread.Truncated
	case errors.Is(err, errEmpty):
		f.Class = thread.Malformed
	case errors.Is(err, errStalled):
		f.Class = thread.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		f.Class = thread.Unavailable
	case status == http.StatusTooManyRequests, strings.Contains(code, "rate_limit"):
		f.Class = thread.RateLimited
	case strings.Contains(code, "context_length"), strings.Contains(code, "maximum context length"), status == http.StatusRequestEntityTooLarge:
		f.Class = thread.ContextLimit
	case status >= 500, status == http.StatusRequestTimeout:
		f.Class = thread.Unavailable
	case status >= 400:
		f.Class = thread.Refused
	case errors.As(err, &syntax), errors.As(err, &shape):
		f.Class = thread.Malformed
	case api != nil, midway != nil: // an error in the middle of a stream
		f.Class = thread.Unavailable
	case isNetwork(err):
		f.Class = thread.Unavailable
	default:
		f.Class = thread.Malformed
	}
	return f
}

func isNetwork(err error) bool {
	var n net.Error
	var op *net.OpError
	return errors.As(err, &n) || errors.As(err, &op) || errors.Is(err, io.EOF)
}
