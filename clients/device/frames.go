package device

import "encoding/json"

// Frame is a frame from the backend. Raw is all of it.
type Frame struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	RequestID string          `json:"request_id"`
	RunID     string          `json:"run_id"`
	SessionID string          `json:"session_id"`
	Domain    string          `json:"domain"`     // floating_domain
	Chunk     string          `json:"chunk"`      // stream_text
	Text      string          `json:"text"`       // text_chunk
	Response  string          `json:"response"`   // final
	BlockType string          `json:"block_type"` // stream_block
	Data      json.RawMessage `json:"data"`
	Mutations []Mutation      `json:"mutations"` // stream_end
	Failure   json.RawMessage `json:"error"`     // stream_end: a text, or an object with code and message
	Code      string          `json:"code"`      // error
	Message   string          `json:"message"`
	Position  string          `json:"position"` // stream_end, final
	Raw       json.RawMessage `json:"-"`
}

// Mutation is what a run changed on the device.
type Mutation struct {
	Table  string `json:"table"`
	Action string `json:"action"`
	ID     string `json:"id"`
}

// RequestError is how a request failed, in the backend's words.
type RequestError struct {
	Code    string
	Message string
}

// Error says why.
func (e *RequestError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// failure reads the error of a stream_end, nil if it has none.
func (f Frame) failure() error {
	if len(f.Failure) == 0 || string(f.Failure) == "null" || string(f.Failure) == `""` {
		return nil
	}
	var text string
	if json.Unmarshal(f.Failure, &text) == nil {
		return &RequestError{Message: text}
	}
	var object struct{ Code, Message, Reason string }
	if json.Unmarshal(f.Failure, &object) == nil && object.Code+object.Message+object.Reason != "" {
		if object.Message == "" {
			object.Message = object.Reason
		}
		return &RequestError{Code: object.Code, Message: object.Message}
	}
	return &RequestError{Message: string(f.Failure)}
}

// Channel is how a request is asked.
type Channel string

// The channels.
const (
	Home     Channel = "home_request"     // v3, the default
	Floating Channel = "floating_request" // v3, about one entity
	Chat     Channel = "chat_request"     // v2
)

// Request is a person's message.
type Request struct {
	Channel   Channel // empty: Home, or Chat on a v2 socket
	Message   string
	History   []Said
	ProjectID string // Chat
	Scope     *Scope // Floating
	RequestID string // empty: minted; the same id with the same message is the same request
	SessionID string // the thread; empty: a new one
	OnBusy    string // queue (default), refuse, interrupt
	// Traceparent is the trace that the request is part of (W3C Trace Context); empty: none of the client's.
	Traceparent string
}

// Said is a line of the client's own history.
type Said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Scope is what a floating request is about.
type Scope struct {
	Type string `json:"type"`
	ID   string `json:"id,omitempty"`
}

func (r Request) frame() map[string]any {
	frame := map[string]any{"type": string(r.Channel), "message": r.Message, "request_id": r.RequestID}
	put := func(key, value string) {
		if value != "" {
			frame[key] = value
		}
	}
	put("session_id", r.SessionID)
	put("traceparent", r.Traceparent)
	switch r.Channel {
	case Floating:
		frame["scope"] = r.Scope
	case Chat:
		context := map[string]any{"conversation_history": r.History}
		if r.History == nil {
			context["conversation_history"] = []Said{}
		}
		if r.ProjectID != "" {
			context["project_id"] = r.ProjectID
		}
		frame["context"] = context
	default:
		if r.History != nil {
			frame["conversation_history"] = r.History
		}
	}
	put("on_busy", r.OnBusy)
	return frame
}
