package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
)

// told is a run told as Server-Sent Events: the frames of a v3 socket, the event's name their type. They
// have no ids: who loses the stream sends the request again under its key, and is told from the start.
type told struct {
	ctx context.Context
	s   *server
	p   posted
}

// VisitChatResponse tells it.
func (t told) VisitChatResponse(w http.ResponseWriter) error {
	l, err := t.s.listen(t.ctx, w, nil)
	if err != nil {
		l.end(l.why(err))
		return nil // nobody is listening any more
	}
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	outputs := t.s.Gateway.Follow(ctx, callOf(ctx).scope(), t.p.SessionID, t.p.RunID, t.p.from)
	for {
		var piece []byte
		select {
		case o, ok := <-outputs:
			if !ok {
				l.end(l.over(endWhole))
				return nil
			}
			if piece, err = storyEvent(o, "request_id", t.p.RequestID, t.p.SessionID, t.p.RunID); err != nil {
				l.end(endGone)
				return err
			}
		case <-l.ping.C:
			piece = []byte(heartbeat)
		}
		if err := l.send(piece); err != nil {
			l.end(l.why(err))
			return nil
		}
	}
}

// storyEvent is an output as an event of the stream, with what the story is called by.
func storyEvent(o live.Output, called, by, session, run string) ([]byte, error) {
	frame := map[string]any{called: by}
	name := ""
	switch o.Kind {
	case live.OutputStart:
		name, frame["session_id"], frame["run_id"] = "stream_start", session, run
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
