package modeltest

import (
	"context"
	"net/http"
	"strings"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
)

// Playing lets another model answer, such as the offline one: a natural conversation over the protocol.
func Playing(m model.ToolCallingChatModel) Script {
	return func(ctx context.Context, r Request) Reply {
		answer, err := m.Generate(ctx, r.messages(), model.WithTools(r.tools()))
		if err != nil {
			return Reply{Status: http.StatusInternalServerError, Code: "server_error", Message: err.Error()}
		}
		reply := Reply{Finish: answer.ResponseMeta.FinishReason}
		if answer.Content != "" {
			reply.Deltas = strings.SplitAfter(answer.Content, " ")
		}
		if u := answer.ResponseMeta.Usage; u != nil {
			reply.Input, reply.Output = u.PromptTokens, u.CompletionTokens
		}
		for _, c := range answer.ToolCalls {
			reply.Calls = append(reply.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments, Pieces: 3})
		}
		return reply
	}
}

// Sequence answers the first request with the first reply, and so on; the last reply is repeated.
// Requests of the router are answered by the agent's name and do not count.
func Sequence(agent string, replies ...Reply) Script {
	turns := make(chan Reply, len(replies))
	for _, r := range replies[:len(replies)-1] {
		turns <- r
	}
	return func(_ context.Context, r Request) Reply {
		if len(r.Tools) == 0 && strings.Contains(r.system(), agent+":") {
			return Text(agent)
		}
		select {
		case reply := <-turns:
			return reply
		default:
			return replies[len(replies)-1]
		}
	}
}

func (r Request) system() string {
	if len(r.Messages) == 0 || r.Messages[0].Role != "system" {
		return ""
	}
	return r.Messages[0].Content
}

func (r Request) messages() []*schema.Message {
	messages := make([]*schema.Message, len(r.Messages))
	for i, m := range r.Messages {
		messages[i] = &schema.Message{Role: schema.RoleType(m.Role), Content: m.Content, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			messages[i].ToolCalls = append(messages[i].ToolCalls, schema.ToolCall{
				ID: c.ID, Type: "function", Function: schema.FunctionCall{Name: c.Function.Name, Arguments: c.Function.Arguments},
			})
		}
	}
	return messages
}

func (r Request) tools() []*schema.ToolInfo {
	tools := make([]*schema.ToolInfo, len(r.Tools))
	for i, t := range r.Tools {
		tools[i] = &schema.ToolInfo{Name: t.Function.Name, Desc: t.Function.Description}
	}
	return tools
}
