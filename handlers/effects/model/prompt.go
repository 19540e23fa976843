package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cloudwego/eino/schema"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/tools"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
)

// Prompt is what the model reads before a turn: the agent's system prompt, as much of the past as the
// budget (bytes) holds, the run's message, and its turns so far with the results of their calls in words.
// The client's own history counts only where its message opened the thread.
func Prompt(t *transcript.Thread, run *transcript.Run, agent tools.Agent, c tools.Context, budget int) []*schema.Message {
	system := agent.Prompt(c, run.Channel, run.Focus)
	if run.Pending.NoTools {
		system += "\n" + tools.NoToolsMark + " Answer now, in words, with what you have found out. Call no tool."
	}
	messages := []*schema.Message{schema.SystemMessage(system)}
	messages = append(messages, past(t, run, c, budget)...)
	messages = append(messages, schema.UserMessage(run.Message.Text))
	return append(messages, turns(run, c)...)
}

// past are the runs before, whole, the newest that fit, and, if they all fit, the client's history before them.
func past(t *transcript.Thread, run *transcript.Run, c tools.Context, budget int) []*schema.Message {
	var groups [][]*schema.Message
	opening := run
	if at := slices.Index(t.Runs, run); at > 0 {
		opening = nil
		for i := at - 1; i >= 0; i-- {
			group := earlier(t.Runs[i], c)
			if budget -= size(group); budget < 0 {
				break
			}
			groups, opening = append(groups, group), t.Runs[i]
		}
	}
	if opening != nil && opening.First {
		groups = append(groups, said(opening.Message.History, budget))
	}
	slices.Reverse(groups)
	return slices.Concat(groups...)
}

func said(history []thread.Said, budget int) []*schema.Message {
	var messages []*schema.Message
	for _, line := range slices.Backward(history) {
		if budget -= len(line.Content); budget < 0 {
			break
		}
		switch line.Role {
		case "assistant":
			messages = append(messages, schema.AssistantMessage(line.Content, nil))
		case "user":
			messages = append(messages, schema.UserMessage(line.Content))
		}
	}
	slices.Reverse(messages)
	return messages
}

func earlier(run *transcript.Run, c tools.Context) []*schema.Message {
	messages := append([]*schema.Message{schema.UserMessage(run.Message.Text)}, turns(run, c)...)
	switch run.End {
	case transcript.Cancelled:
		messages = append(messages, schema.AssistantMessage("(This request was cancelled before it was finished.)", nil))
	case transcript.Failed:
		messages = append(messages, schema.AssistantMessage("(This request failed: "+run.Reason+")", nil))
	case transcript.Completed:
	}
	return messages
}

func turns(run *transcript.Run, c tools.Context) []*schema.Message {
	var messages []*schema.Message
	for _, turn := range run.Turns {
		calls := make([]schema.ToolCall, len(turn.Calls))
		for i, call := range turn.Calls {
			calls[i] = schema.ToolCall{
				ID: modelID(call, turn.Number, i), Type: "function",
				Function: schema.FunctionCall{Name: call.Named, Arguments: valid(call.Arguments)},
			}
		}
		messages = append(messages, schema.AssistantMessage(turn.Text, calls))
		for i, call := range turn.Calls {
			result := tools.Describe(call, c.Zone)
			messages = append(messages, schema.ToolMessage(result, calls[i].ID, schema.WithToolName(call.Named)))
		}
	}
	return messages
}

func modelID(call *transcript.Call, turn, index int) string {
	if call.ModelID != "" {
		return call.ModelID
	}
	return fmt.Sprintf("call_%d_%d", turn, index)
}

// valid are arguments that a server accepts as its own model's: it refuses the whole prompt for others.
func valid(arguments string) string {
	if arguments == "" {
		return "{}"
	}
	if json.Valid([]byte(arguments)) {
		return arguments
	}
	wrapped, err := json.Marshal(map[string]string{"invalid_arguments": arguments})
	if err != nil {
		return "{}"
	}
	return string(wrapped)
}

func size(messages []*schema.Message) int {
	n := 0
	for _, m := range messages {
		n += len(m.Content)
		for _, c := range m.ToolCalls {
			n += len(c.Function.Arguments)
		}
	}
	return n
}

// talk is what code takes from the conversation to see whether the user confirmed something.
func talk(t *transcript.Thread, run *transcript.Run) tools.Talk {
	talk := tools.Talk{Message: run.Message.Text, Projects: map[string]string{}}
	for _, r := range t.Runs {
		for _, raw := range r.Tables.Rows("project", nil) {
			var project struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			}
			if json.Unmarshal(raw, &project) == nil {
				talk.Projects[project.ID] = project.Name
			}
		}
	}
	if before := t.Before(run.ID); before != nil {
		for _, turn := range before.Turns {
			for _, call := range turn.Calls {
				if project, ok := refusedDeletion(call); ok {
					talk.Refused = append(talk.Refused, project)
				}
			}
		}
	}
	return talk
}

func refusedDeletion(call *transcript.Call) (string, bool) {
	var args struct {
		ProjectID string `json:"project_id"`
	}
	if call.Tool != "delete_project" || call.Failure != thread.InvalidCall || json.Unmarshal(call.Checked, &args) != nil {
		return "", false
	}
	return args.ProjectID, args.ProjectID != ""
}
