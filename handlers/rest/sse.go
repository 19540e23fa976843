package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

// accepts reports whether the caller asked for that media type by name.
func accepts(r *http.Request, want string) bool {
	for part := range strings.SplitSeq(r.Header.Get(echo.HeaderAccept), ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == want {
			return true
		}
	}
	return false
}

// told is a run told as Server-Sent Events: the frames of a v3 socket, the event's name their type. They
// have no ids: who loses the stream sends the request again under its key, and is told from the start.
type told struct {
	ctx context.Context
	s   *server
	p   posted
}

// VisitChatResponse tells it.
func (t told) VisitChatResponse(w http.ResponseWriter) error {
	header := w.Header()
	header.Set(echo.HeaderContentType, "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	outputs := t.s.Gateway.Follow(ctx, callOf(ctx).scope(), t.p.SessionID, t.p.RunID, t.p.from)
	ping := time.NewTicker(t.s.Limits.StreamingPing)
	defer ping.Stop()
	for {
		var piece []byte
		select {
		case o, ok := <-outputs:
			if !ok {
				return nil
			}
			var err error
			if piece, err = t.p.event(o); err != nil {
				return err
			}
		case <-ping.C:
			piece = []byte(": ping\n\n")
		}
		if _, err := w.Write(piece); err != nil {
			return nil // nobody is listening any more
		}
		if err := out.Flush(); err != nil {
			return nil
		}
	}
}

// event is an output as an event of the stream.
func (p posted) event(o live.Output) ([]byte, error) {
	frame := map[string]any{"request_id": p.RequestID}
	name := ""
	switch o.Kind {
	case live.OutputStart:
		name, frame["session_id"], frame["run_id"] = "stream_start", p.SessionID, p.RunID
	case live.OutputDomain:
		name, frame["domain"] = "floating_domain", o.Text
	case live.OutputText:
		name, frame["chunk"] = "stream_text", o.Text
	case live.OutputBlock:
		name, frame["block_type"], frame["data"] = "stream_block", o.Block, o.Data
	case live.OutputRetry:
		name, frame["block_type"], frame["data"] = "stream_block", "retry", map[string]live.Keep{"keep": o.Keep}
	case live.OutputEnd:
		name, frame["mutations"] = "stream_end", o.Mutations
		if o.Mutations == nil {
			frame["mutations"] = []thread.Mutation{}
		}
		if o.Error != nil {
			frame["error"] = o.Error
		}
		if o.Position != "" {
			frame["position"] = o.Position
		}
	default:
		return nil, fmt.Errorf("rest: an output of unknown kind %d", o.Kind)
	}
	frame["type"] = name
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: ", name)
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(frame); err != nil {
		return nil, fmt.Errorf("rest: encode a frame: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
