package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Reply is an answer and its faults. Its zero value is an answer without any content.
type Reply struct {
	Deltas    []string // the text, in these pieces
	Reasoning []string // before the text
	Calls     []Call
	Finish    string // "": stop, or tool_calls
	Input     int    // tokens
	Output    int

	// Pause lies before each piece but the first.
	Pause time.Duration
	// Sent is told just before a piece of text is written; for benchmarks.
	Sent func(n int, at time.Time)

	// Status from 400 on is answered instead, with Code, Message and the header Retry-After.
	Status        int
	Code, Message string
	RetryAfter    string
	// Cut breaks the connection after so many chunks.
	Cut int
	// NoFinish ends the stream cleanly, but without a finish reason; NoDone also without [DONE].
	NoFinish, NoDone bool
	// Malformed is written as a chunk after so many chunks.
	Malformed   string
	MalformedAt int
	// OneIndex gives every call the index 0, as some servers do; InOne puts all calls into one chunk.
	OneIndex, InOne bool
	// Hang keeps the stream open without a word until the client goes away.
	Hang bool
}

// Call is a tool call that the server makes. Pieces cuts its arguments; 0: 2.
type Call struct {
	ID, Name, Arguments string
	Pieces              int
}

// Text is a plain answer, word by word.
func Text(text string) Reply { return Reply{Deltas: strings.SplitAfter(text, " ")} }

// Calling is an answer that calls tools.
func Calling(calls ...Call) Reply { return Reply{Calls: calls} }

func (r Reply) finish() string {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

type delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// chunks are the deltas of the answer, the role first.
func (r Reply) chunks() []delta {
	empty := ""
	all := []delta{{Role: "assistant", Content: &empty}}
	for _, text := range r.Reasoning {
		all = append(all, delta{Reasoning: text})
	}
	for _, text := range r.Deltas {
		all = append(all, delta{Content: &text})
	}
	var together []ToolCall
	for i, c := range r.Calls {
		if r.OneIndex {
			i = 0
		}
		head := ToolCall{Index: &i, ID: c.ID, Type: "function"}
		head.Function.Name = c.Name
		if r.InOne {
			head.Function.Arguments = c.Arguments
			together = append(together, head)
			continue
		}
		all = append(all, delta{ToolCalls: []ToolCall{head}})
		for _, piece := range pieces(c.Arguments, c.Pieces) {
			part := ToolCall{Index: &i}
			part.Function.Arguments = piece
			all = append(all, delta{ToolCalls: []ToolCall{part}})
		}
	}
	if together != nil {
		all = append(all, delta{ToolCalls: together})
	}
	return all
}

func pieces(text string, n int) []string {
	if n <= 0 {
		n = 2
	}
	var all []string
	for i := range n {
		if part := text[len(text)*i/n : len(text)*(i+1)/n]; part != "" {
			all = append(all, part)
		}
	}
	return all
}

// stream writes the answer as server-sent events.
func (r Reply) stream(w http.ResponseWriter, hr *http.Request, asked Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	send := func(line string) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", line) // a client that is gone is seen below
		_ = flusher.Flush()
	}
	texts := 0
	for n, d := range r.chunks() {
		if n > 0 && r.Pause > 0 && !pause(hr, r.Pause) {
			return
		}
		if r.Malformed != "" && n == r.MalformedAt {
			send(r.Malformed)
		}
		if r.Cut > 0 && n == r.Cut {
			panic(http.ErrAbortHandler) // closes the connection in the middle of the answer
		}
		if d.Content != nil && *d.Content != "" {
			if texts++; r.Sent != nil {
				r.Sent(texts, time.Now())
			}
		}
		send(chunk(asked, d, nil, nil))
	}
	if r.Hang {
		<-hr.Context().Done()
		return
	}
	if !r.NoFinish {
		reason := r.finish()
		send(chunk(asked, delta{}, &reason, nil))
		send(chunk(asked, delta{}, nil, r.usage()))
	}
	if !r.NoDone {
		send("[DONE]")
	}
}

func (r Reply) usage() map[string]int {
	return map[string]int{"prompt_tokens": r.Input, "completion_tokens": r.Output, "total_tokens": r.Input + r.Output}
}

func chunk(asked Request, d delta, finish *string, usage map[string]int) string {
	choices := []any{}
	if usage == nil {
		choices = append(choices, map[string]any{"index": 0, "delta": d, "finish_reason": finish})
	}
	b, err := json.Marshal(map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", asked.N), "object": "chat.completion.chunk", "created": 1, "model": asked.Model,
		"choices": choices, "usage": usage,
	})
	if err != nil { // texts and numbers
		return "{}"
	}
	return string(b)
}

// whole writes the answer to a request that asked for no stream.
func (r Reply) whole(w http.ResponseWriter, asked Request) {
	calls := make([]ToolCall, len(r.Calls))
	for i, c := range r.Calls {
		calls[i] = ToolCall{ID: c.ID, Type: "function"}
		calls[i].Function.Name, calls[i].Function.Arguments = c.Name, c.Arguments
	}
	message := Message{Role: "assistant", Content: strings.Join(r.Deltas, ""), ToolCalls: calls}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", asked.N), "object": "chat.completion", "created": 1, "model": asked.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": r.finish()}}, "usage": r.usage(),
	})
}

func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
