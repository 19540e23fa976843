// Package offline is the built-in model: rules instead of a language model, so that everything works
// without a key or a network. It understands plain English requests about tasks, projects, checkpoints and
// notes, calls tools, streams, and always answers the same to the same. It is no language model, and says so.
package offline

import (
	"context"
	"strings"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
)

// Name is the model's name in the record of a turn.
const Name = "cairn-offline-1"

// Model implements eino's ToolCallingChatModel. It keeps nothing between calls.
type Model struct{ tools []*schema.ToolInfo }

var _ model.ToolCallingChatModel = (*Model)(nil)

// New is the model without tools.
func New() *Model { return &Model{} }

// WithTools is the model with these tools; the receiver stays as it is.
func (m *Model) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	return &Model{tools: tools}, nil
}

// Generate answers in one message.
func (m *Model) Generate(_ context.Context, input []*schema.Message, options ...model.Option) (*schema.Message, error) {
	reply := m.reply(input, options)
	reply.ResponseMeta = &schema.ResponseMeta{FinishReason: finish(reply), Usage: usage(input, reply)}
	return reply, nil
}

// Stream answers in small pieces, as a language model does, without any delay.
func (m *Model) Stream(ctx context.Context, input []*schema.Message, options ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	reply := m.reply(input, options)
	pieces := cut(reply)
	pieces = append(pieces, &schema.Message{
		Role:         schema.Assistant,
		ResponseMeta: &schema.ResponseMeta{FinishReason: finish(reply), Usage: usage(input, reply)},
	})
	reader, writer := schema.Pipe[*schema.Message](len(pieces))
	defer writer.Close()
	for _, piece := range pieces {
		if ctx.Err() != nil {
			writer.Send(nil, ctx.Err())
			break
		}
		writer.Send(piece, nil) // there is room for all of them
	}
	return reader, nil
}

func (m *Model) reply(input []*schema.Message, options []model.Option) *schema.Message {
	common := model.GetCommonOptions(&model.Options{Tools: m.tools}, options...)
	s := read(input, common.Tools)
	if s.routing {
		return schema.AssistantMessage(s.route(), nil)
	}
	text, calls := s.next()
	if len(calls) == 0 {
		return schema.AssistantMessage(text, nil)
	}
	return schema.AssistantMessage("", calls)
}

func finish(m *schema.Message) string {
	if len(m.ToolCalls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// usage counts four bytes as a token, as a rough measure.
func usage(input []*schema.Message, reply *schema.Message) *schema.TokenUsage {
	in, out := 0, len(reply.Content)
	for _, m := range input {
		in += len(m.Content)
	}
	for _, c := range reply.ToolCalls {
		out += len(c.Function.Name) + len(c.Function.Arguments)
	}
	u := &schema.TokenUsage{PromptTokens: (in + 3) / 4, CompletionTokens: (out + 3) / 4}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// cut makes pieces of a reply: words of the text, and a call's name apart from its arguments.
func cut(m *schema.Message) []*schema.Message {
	var pieces []*schema.Message
	for _, text := range strings.SplitAfter(m.Content, " ") {
		if text != "" {
			pieces = append(pieces, &schema.Message{Role: schema.Assistant, Content: text})
		}
	}
	for i, call := range m.ToolCalls {
		half := len(call.Function.Arguments) / 2
		head := schema.ToolCall{Index: &i, ID: call.ID, Type: "function", Function: schema.FunctionCall{Name: call.Function.Name}}
		first := schema.ToolCall{Index: &i, Function: schema.FunctionCall{Arguments: call.Function.Arguments[:half]}}
		second := schema.ToolCall{Index: &i, Function: schema.FunctionCall{Arguments: call.Function.Arguments[half:]}}
		for _, c := range []schema.ToolCall{head, first, second} {
			pieces = append(pieces, &schema.Message{Role: schema.Assistant, ToolCalls: []schema.ToolCall{c}})
		}
	}
	return pieces
}
