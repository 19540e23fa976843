package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

const eventStream = "text/event-stream"

// accepts reports whether the caller asked for that media type by name.
func accepts(r *http.Request, want string) bool {
	for part := range strings.SplitSeq(r.Header.Get(echo.HeaderAccept), ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == want {
			return true
		}
	}
	return false
}

// How a stream ended, as its metric says.
const (
	endGone    = "gone"    // the listener left
	endSlow    = "slow"    // it did not take what was written in time
	endReset   = "reset"   // it can't go on from where it is
	endAccess  = "access"  // it may not listen any more
	endDrained = "drained" // the process stops
	endWhole   = "whole"   // everything was told
)

// listener is one who is told Server-Sent Events. Nothing is kept for it: whoever tells waits until it has taken what was
// written, at most Limits.StreamingWrite long, and then it is gone.
type listener struct {
	s    *server
	ctx  context.Context //nolint:containedctx // the request's
	w    http.ResponseWriter
	out  *http.ResponseController
	ping *time.Ticker
}

// listen begins a stream, with what is to be told first.
func (s *server) listen(ctx context.Context, w http.ResponseWriter, first []byte) (*listener, error) {
	l := &listener{s: s, ctx: ctx, w: w, out: http.NewResponseController(w), ping: time.NewTicker(s.Limits.StreamingPing)}
	header := w.Header()
	header.Set(echo.HeaderContentType, eventStream)
	header.Set("X-Accel-Buffering", "no")
	header.Set(echo.HeaderConnection, "close") // its write deadline must not outlive it
	w.WriteHeader(http.StatusOK)
	s.streams.begun()
	return l, l.send(first)
}

// retry tells a browser's EventSource when to connect again, which it does by itself: not all at the same time.
func (s *server) retry() []byte {
	return fmt.Appendf(nil, "retry: %d\n\n", spread(s.Limits.StreamingRetry))
}

// spread is d or less in milliseconds, a quarter of it at least.
func spread(d time.Duration) int64 { return (d/4 + rand.N(d*3/4)).Milliseconds() } //nolint:gosec // no secret

// end says how it ended.
func (l *listener) end(why string) {
	l.ping.Stop()
	l.s.streams.ended(why)
}

// send writes what a listener is told. Its error says only that there is nobody to tell any more.
func (l *listener) send(b []byte) error {
	if err := l.out.SetWriteDeadline(time.Now().Add(l.s.Limits.StreamingWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := l.w.Write(b); err != nil {
		return err
	}
	return l.out.Flush()
}

// why is how a stream ended of which writing failed.
func (l *listener) why(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return endSlow
	}
	return endGone
}

// stopping reports whether the process stops: who is far behind is not told all of it before.
func (l *listener) stopping() bool {
	select {
	case <-l.s.Stopping:
		return true
	default:
		return false
	}
}

// over is how a stream ended of which there is no more to tell.
func (l *listener) over(why string) string {
	if l.ctx.Err() != nil {
		return endGone
	}
	return why
}

// reconnect tells the listener that the process stops, and when to come again.
func (l *listener) reconnect() error {
	after := spread(l.s.Limits.StreamingRetry)
	return l.send(fmt.Appendf(nil, "retry: %d\nevent: reconnect\ndata: {\"type\":\"reconnect\",\"after_ms\":%d,\"reason\":\"restart\"}\n\n", after, after))
}

// heartbeat is what is written where nothing else is to be said.
const heartbeat = ": ping\n\n"

// appendData appends a JSON text as an event's data. Between its tokens it may have line breaks, each of which takes a
// line of its own.
func appendData(b []byte, open string, json []byte, end string) []byte {
	b = append(append(b, "data: "...), open...)
	if bytes.ContainsAny(json, "\r\n") {
		json = bytes.ReplaceAll(bytes.ReplaceAll(json, []byte("\r"), []byte(" ")), []byte("\n"), []byte("\ndata: "))
	}
	return append(append(append(b, json...), end...), "\n\n"...)
}
