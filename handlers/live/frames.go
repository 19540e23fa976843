package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams/tracing"
)

// The frames to a client (docs/protocol.md).
type (
	pingFrame struct {
		Type string `json:"type"`
	}
	errorFrame struct {
		Type       string `json:"type"`
		Code       string `json:"code"`
		Message    string `json:"message"`
		RequestID  string `json:"request_id,omitempty"`
		ID         string `json:"id,omitempty"`
		RetryAfter int    `json:"retry_after,omitempty"` // seconds
	}
	helloFrame struct {
		Type     string      `json:"type"`
		Version  string      `json:"version"`
		Features []string    `json:"features"`
		Scopes   []scopeHead `json:"scopes"`
	}
	scopeHead struct {
		Scope string  `json:"scope"`
		Head  *uint64 `json:"head"` // null: it could not be read now
	}
	startFrame struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
		SessionID string `json:"session_id"`
		RunID     string `json:"run_id"`
	}
	domainFrame struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
		Domain    string `json:"domain"`
	}
	textFrame struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
		Chunk     string `json:"chunk"`
	}
	blockFrame struct {
		Type      string          `json:"type"`
		RequestID string          `json:"request_id"`
		BlockType string          `json:"block_type"`
		Data      json.RawMessage `json:"data"`
	}
	endFrame struct {
		Type      string            `json:"type"`
		RequestID string            `json:"request_id"`
		Mutations []thread.Mutation `json:"mutations"`
		Error     *Failure          `json:"error,omitempty"`
		Position  string            `json:"position,omitempty"` // a min_position for reads that must show the run's end
	}
	chunkFrame struct { // v2
		Type      string `json:"type"`
		Text      string `json:"text"`
		RequestID string `json:"request_id,omitempty"`
	}
	finalFrame struct { // v2
		Type      string `json:"type"`
		Response  string `json:"response"`
		RequestID string `json:"request_id,omitempty"`
		Position  string `json:"position,omitempty"`
	}
	ackFrame struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
)

// askedBy names in an error what a frame asked for, although its other fields can't be read: who asked would wait for it.
func askedBy(kind string, frame []byte) errorFrame {
	var f struct {
		ID        any `json:"id"`
		RequestID any `json:"request_id"`
	}
	_ = json.Unmarshal(frame, &f) // it was read as an object before
	id, _ := f.ID.(string)
	request, _ := f.RequestID.(string)
	switch kind {
	case "subscribe":
		return errorFrame{ID: cut(id)}
	case "chat_request", "home_request", "floating_request":
		return errorFrame{RequestID: cut(request)}
	}
	return errorFrame{}
}

// encode writes a frame as JSON, '<', '>' and '&' as they are.
func encode(frame any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(frame); err != nil {
		// Only raw JSON that is none can come here; what is sent instead says so.
		return encode(errorFrame{Type: "error", Code: "internal", Message: "a frame could not be encoded"})
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// framesV3 are the frames of an output for a v3 request.
func framesV3(r *request, o Output) any {
	switch o.Kind {
	case OutputStart:
		return startFrame{Type: "stream_start", RequestID: r.id, SessionID: r.thread, RunID: r.run}
	case OutputDomain:
		return domainFrame{Type: "floating_domain", RequestID: r.id, Domain: o.Text}
	case OutputText:
		return textFrame{Type: "stream_text", RequestID: r.id, Chunk: o.Text}
	case OutputBlock:
		return blockFrame{Type: "stream_block", RequestID: r.id, BlockType: o.Block, Data: o.Data}
	case OutputRetry:
		return blockFrame{Type: "stream_block", RequestID: r.id, BlockType: "retry", Data: encode(map[string]Keep{"keep": o.Keep})}
	case OutputEnd:
		mutations := o.Mutations
		if mutations == nil {
			mutations = []thread.Mutation{}
		}
		return endFrame{Type: "stream_end", RequestID: r.id, Mutations: mutations, Error: o.Error, Position: o.Position}
	}
	return nil
}

// framesV2 are those for a v2 request, whose frames know no blocks; nil: none.
func framesV2(r *request, o Output) any {
	id := r.id
	if r.minted {
		id = ""
	}
	switch o.Kind {
	case OutputText:
		return chunkFrame{Type: "text_chunk", Text: o.Text, RequestID: id}
	case OutputRetry:
		return chunkFrame{Type: "text_chunk", Text: "\n", RequestID: id}
	case OutputEnd:
		return finalFrame{Type: "final", Response: response(o), RequestID: id, Position: o.Position}
	default:
		return nil
	}
}

// response is the whole answer; v2 has no place for an error but in words.
func response(o Output) string {
	if o.Error == nil {
		return o.Text
	}
	words := fmt.Sprintf("The request did not complete: %s.", strings.TrimSuffix(o.Error.Message, "."))
	if o.Text == "" {
		return words
	}
	return o.Text + "\n\n" + words
}

// callFrame is a tool_call, a data_request or a mutation: its own fields, and those that every call has. An absent field is
// omitted, never sent as null.
func callFrame(c *call, fields json.RawMessage, deadline string) ([]byte, error) {
	var own map[string]json.RawMessage
	if len(fields) > 0 {
		if err := json.Unmarshal(fields, &own); err != nil {
			return nil, fmt.Errorf("live: the fields of call %s: %w", c.id, err)
		}
	}
	frame := map[string]any{}
	for k, v := range own {
		if string(v) != "null" {
			frame[k] = v
		}
	}
	frame["type"], frame["id"], frame["action"], frame["deadline"] = c.frameType(), c.id, c.step.Action, deadline
	if c.step.Table != "" {
		frame["table"] = c.step.Table
	}
	if c.request == "" {
		frame["run_id"], frame["seq"] = c.step.RunID, c.seq
	}
	if c.trace != "" {
		frame[tracing.Header] = c.trace
	}
	return encode(frame), nil
}
