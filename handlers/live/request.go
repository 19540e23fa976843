package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// maxMessage is what a message and its history may have together, in bytes.
const maxMessage = 1 << 20

// request is a chat, home or floating request that was understood.
type request struct {
	id      string // its request_id
	minted  bool   // by us: the client gave none
	command string
	run     string
	thread  string
	post    thread.PostMessage
	body    []byte // what the client asked, in one form whatever the order of its fields, and without its trace
	trace   string // the traceparent that it came with
}

// requestFrame is the three kinds of requests in one.
type requestFrame struct {
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"`
	OnBusy    string `json:"on_busy"`
	History   []said `json:"conversation_history"`
	Context   struct {
		History   []said `json:"conversation_history"`
		ProjectID string `json:"project_id"`
		SessionID string `json:"session_id"`
	} `json:"context"`
	Scope *struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	} `json:"scope"`
}

// said is a line of a client's history; clients may keep more in it than text.
type said struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// refusal is why a request can't be accepted as it is.
type refusal struct {
	code, words, id string
}

// Error says why.
func (r *refusal) Error() string { return r.code + ": " + r.words }

// parse understands a request. Its errors are *refusal for something impossible; others mean that the frame
// can't be read.
func parse(kind string, frame []byte, s domain.Scope, h *hello) (*request, error) {
	var f requestFrame
	if err := json.Unmarshal(frame, &f); err != nil {
		return nil, fmt.Errorf("the fields of %s are not of their types", kind)
	}
	refuse := func(code, format string, args ...any) error {
		return &refusal{code: code, words: fmt.Sprintf(format, args...), id: f.RequestID}
	}
	if len(f.RequestID) > 200 || strings.ContainsRune(f.RequestID, 0) {
		f.RequestID = ""
		return nil, refuse(domain.CodeInvalid, "request_id may have 200 bytes, and no NUL")
	}
	history, session := f.History, f.SessionID
	if kind == "chat_request" {
		history, session = append(f.Context.History, f.History...), cmp.Or(f.SessionID, f.Context.SessionID)
	}
	content := thread.Content{Text: f.Message, ProjectID: f.Context.ProjectID, History: lines(history)}
	if code, words := wrongContent(content); code != "" {
		return nil, refuse(code, "%s", words)
	}
	if session != "" {
		content.History = nil // the thread's own timeline counts
		if !domain.NewStream("thread", session).Valid() {
			return nil, refuse(domain.CodeNotFound, "there is no such thread")
		}
	}
	r := &request{id: f.RequestID}
	if r.id == "" {
		r.id, r.minted = uuid.NewString(), true
	}
	r.command = streams.CommandID(s, r.id)
	r.run, r.thread = streams.Derive(r.command, "run"), cmp.Or(session, streams.Derive(r.command, "thread"))
	r.post = thread.PostMessage{
		On: thread.On{Thread: r.thread}, New: session == "", RunID: r.run, Channel: thread.Chat,
		OnBusy: thread.OnBusy(f.OnBusy), DeviceID: h.device, Timezone: h.Timezone, Content: content,
	}
	switch r.post.OnBusy {
	case "", thread.Queue, thread.Refuse, thread.Interrupt:
	default:
		return nil, refuse(domain.CodeInvalid, "on_busy is queue, refuse or interrupt")
	}
	switch kind {
	case "home_request":
		r.post.Channel = thread.Home
	case "floating_request":
		r.post.Channel = thread.Floating
		if f.Scope == nil || !focusable(f.Scope.Type) {
			return nil, refuse(domain.CodeInvalid, "scope.type is task, project, note or checkpoint")
		}
		if f.Scope.ID != "" && !thread.IsRowID(f.Scope.ID) {
			return nil, refuse(domain.CodeInvalid, "scope.id is the id of a row: at most 200 bytes, no spaces or control characters")
		}
		r.post.Focus = &thread.Focus{Type: f.Scope.Type, ID: f.Scope.ID}
	}
	r.body, r.trace = canonical(frame), traceparentOf(frame)
	return r, nil
}

// wrongContent says what a message may not be; an empty code: it is fine.
func wrongContent(c thread.Content) (code, words string) {
	size, nul := len(c.Text)+len(c.ProjectID), strings.ContainsRune(c.Text+c.ProjectID, 0)
	for _, line := range c.History {
		size += len(line.Content)
		nul = nul || strings.ContainsRune(line.Content, 0)
	}
	switch {
	case strings.TrimSpace(c.Text) == "":
		return domain.CodeInvalid, "the message is empty"
	case size > maxMessage:
		return domain.CodeTooLarge, fmt.Sprintf("message and history may have %d bytes together, these have %d", maxMessage, size)
	case nul:
		return domain.CodeInvalid, "NUL bytes are not allowed"
	}
	return "", ""
}

// lines are what people and agents said; other entries of a client's history are left out.
func lines(history []said) []thread.Said {
	var out []thread.Said
	for _, line := range history {
		var text string
		if json.Unmarshal(line.Content, &text) != nil || text == "" {
			continue
		}
		if line.Role == "user" || line.Role == "assistant" {
			out = append(out, thread.Said{Role: line.Role, Content: text})
		}
	}
	return out
}

func focusable(kind string) bool {
	switch kind {
	case "task", "project", "note", "checkpoint":
		return true
	}
	return false
}

// canonical is a JSON text with its fields in order and numbers as they are written. The trace that it came in is not part
// of what a client says: a repeat comes in another one.
func canonical(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text
	}
	if fields, ok := v.(map[string]any); ok {
		delete(fields, tracing.Header)
	}
	return encode(v)
}

// refused is the error frame for a command that was not accepted.
func refused(err error) errorFrame {
	var no *refusal
	var rejected *domain.Rejection
	var busy *streams.Busy
	switch {
	case errors.As(err, &no):
		return errorFrame{Code: no.code, Message: no.words, RequestID: no.id}
	case errors.As(err, &rejected):
		return errorFrame{Code: rejected.Code, Message: rejected.Reason}
	case errors.As(err, &busy):
		return errorFrame{Code: "rate_limited", Message: busy.Reason, RetryAfter: int(busy.RetryAfter.Seconds() + 0.999)}
	case errors.Is(err, streams.ErrOutcomeUnknown):
		return errorFrame{Code: "outcome_unknown", Message: streams.ErrOutcomeUnknown.Error()}
	case errors.Is(err, streams.ErrScopeErased):
		return errorFrame{Code: domain.CodeScopeErased, Message: "the account was erased"}
	}
	return errorFrame{Code: "unavailable", Message: "the request could not be taken: try again"}
}
