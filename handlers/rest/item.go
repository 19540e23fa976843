package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/codec"
)

// The kinds of a timeline's entries. All but the last are what a chat shows.
const (
	kindMessage    = "message"
	kindAssistant  = "assistant"
	kindToolCall   = "tool_call"
	kindToolResult = "tool_result"
	kindRunEnd     = "run_end"
	kindTitle      = "title"
	kindStep       = "step"
)

// The items of the entries that a chat shows; ids and counts as they are in the log, content opened.
type (
	messageItem struct {
		RunID     string         `json:"run_id"`
		Text      string         `json:"text"`
		Channel   thread.Channel `json:"channel"`
		Queued    bool           `json:"queued,omitempty"`
		DeviceID  string         `json:"device_id,omitempty"`
		Focus     *thread.Focus  `json:"focus,omitempty"`
		ProjectID string         `json:"project_id,omitempty"`
		History   []thread.Said  `json:"conversation_history,omitempty"`
	}
	assistantItem struct {
		RunID        string            `json:"run_id"`
		Turn         int               `json:"turn"`
		Agent        string            `json:"agent"`
		Model        string            `json:"model"`
		FinishReason string            `json:"finish_reason"`
		Text         string            `json:"text"` // as it was shown, blocks left out
		Blocks       []blockItem       `json:"blocks,omitempty"`
		Calls        int               `json:"calls,omitempty"`
		InputTokens  int               `json:"input_tokens,omitempty"`
		OutputTokens int               `json:"output_tokens,omitempty"`
		Metadata     map[string]string `json:"metadata,omitempty"`
	}
	blockItem struct {
		Type string          `json:"type"`
		At   int             `json:"at"` // after that many bytes of text
		Data json.RawMessage `json:"data"`
	}
	toolCallItem struct {
		CallID    string          `json:"call_id"`
		RunID     string          `json:"run_id"`
		Turn      int             `json:"turn"`
		Index     int             `json:"index"`
		Tool      string          `json:"tool"`
		Executor  thread.Executor `json:"executor"`
		Action    string          `json:"action,omitempty"`
		Table     string          `json:"table,omitempty"`
		DeviceID  string          `json:"device_id,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	toolResultItem struct {
		CallID     string               `json:"call_id"`
		RunID      string               `json:"run_id"`
		OK         bool                 `json:"ok"`
		Reason     thread.FailureReason `json:"reason,omitempty"`
		Text       string               `json:"text,omitempty"`
		Device     json.RawMessage      `json:"device,omitempty"` // the device's answer
		Mutations  []thread.Mutation    `json:"mutations,omitempty"`
		NotIndexed bool                 `json:"not_indexed,omitempty"`
		Bytes      int64                `json:"bytes,omitempty"`
	}
	runEndItem struct {
		RunID  string `json:"run_id"`
		Status string `json:"status"` // completed, failed, cancelled
		Code   string `json:"code,omitempty"`
		Reason string `json:"reason,omitempty"`
		By     string `json:"by,omitempty"`
		Turns  int    `json:"turns,omitempty"`
	}
	titleItem struct {
		Text string `json:"text"`
	}
	stepItem struct {
		Type    string          `json:"type"`
		Schema  int             `json:"schema"`
		Data    json.RawMessage `json:"data"`
		Content any             `json:"content,omitempty"`
	}
)

// opener opens events for the one whose they are. It remembers what it needs of the runs it met.
type opener struct {
	s     *server
	scope domain.Scope
	runs  map[string]*shown
}

func (s *server) opener(scope domain.Scope) *opener {
	return &opener{s: s, scope: scope, runs: map[string]*shown{}}
}

// item is the entry that an event is in a timeline.
func (o *opener) item(ctx context.Context, r streams.Recorded) (kind string, item any, err error) {
	event, err := o.s.Schema.Open(ctx, o.s.Keys, r)
	if errors.Is(err, codec.ErrUnknownType) {
		return kindStep, stepItem{Type: r.Type, Schema: r.Schema, Data: r.Data}, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("rest: open event %s: %w", r.ID, err)
	}
	switch e := event.(type) {
	case thread.MessagePosted:
		return kindMessage, messageItem{RunID: e.RunID, Text: e.Content.Text, Channel: e.Channel, Queued: e.Queued, DeviceID: e.DeviceID,
			Focus: e.Focus, ProjectID: e.Content.ProjectID, History: e.Content.History}, nil
	case thread.TurnCompleted:
		if e.Content.Text == "" {
			break // it only calls tools, which are entries of their own
		}
		item, err := o.assistant(ctx, e)
		return kindAssistant, item, err
	case thread.ToolCallRequested:
		return kindToolCall, toolCallItem{CallID: e.CallID, RunID: e.RunID, Turn: e.Turn, Index: e.Index, Tool: e.Tool, Executor: e.Executor,
			Action: e.Action, Table: e.Table, DeviceID: e.DeviceID, Arguments: e.Payload.Arguments}, nil
	case thread.ToolCallCompleted:
		return kindToolResult, toolResultItem{CallID: e.CallID, RunID: e.RunID, OK: true, Text: e.Result.Text, Device: e.Result.Device,
			Mutations: e.Mutations, NotIndexed: e.NotIndexed}, nil
	case thread.ToolCallFailed:
		return kindToolResult, toolResultItem{CallID: e.CallID, RunID: e.RunID, Reason: e.Reason, Text: e.Result.Text, Device: e.Result.Device, Bytes: e.Bytes}, nil
	case thread.RunCompleted:
		return kindRunEnd, runEndItem{RunID: e.RunID, Status: "completed", Turns: e.Turns}, nil
	case thread.RunFailed:
		return kindRunEnd, runEndItem{RunID: e.RunID, Status: "failed", Code: string(e.Code), Reason: e.Reason}, nil
	case thread.RunCancelled:
		return kindRunEnd, runEndItem{RunID: e.RunID, Status: "cancelled", By: e.By}, nil
	case thread.Titled:
		return kindTitle, titleItem{Text: e.Title.Text}, nil
	}
	return kindStep, stepItem{Type: r.Type, Schema: r.Schema, Data: r.Data, Content: content(event)}, nil
}

// assistant formats a turn as the client that asked was shown it.
func (o *opener) assistant(ctx context.Context, e thread.TurnCompleted) (assistantItem, error) {
	item := assistantItem{RunID: e.RunID, Turn: e.Turn, Agent: e.Agent, Model: e.Model, FinishReason: e.FinishReason, Calls: len(e.Content.Calls),
		InputTokens: e.InputTokens, OutputTokens: e.OutputTokens, Metadata: e.Metadata}
	frames, err := o.frames(ctx, e.RunID, e.Content.Text)
	if err != nil {
		return item, err
	}
	for _, f := range frames {
		if f.Block != "" {
			item.Blocks = append(item.Blocks, blockItem{Type: f.Block, At: len(item.Text), Data: f.Data})
			continue
		}
		item.Text += f.Text
	}
	return item, nil
}
