package model

import (
	"context"
	"time"

	"github.com/cloudwego/eino/schema"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/tools"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/projections/openeffects"
)

// What a router gets, at most.
const (
	routeTime    = 45 * time.Second
	routeHistory = 6 << 10
)

// Router asks a small model which agent answers.
type Router struct{ *Model }

// Do routes one message and tells the thread.
func (m *Router) Do(ctx context.Context, e openeffects.Effect) error {
	t, run, err := m.load(ctx, e, func(r *transcript.Run) bool {
		return r.Pending.Route > 0 && thread.RouteEffect(r.ID, r.Pending.Attempt) == e.ID
	})
	if err != nil || run == nil {
		return err
	}
	attempt, on := run.Pending.Attempt, thread.On{Thread: t.ID}
	failed := func(f *Failure) domain.Command {
		return thread.FailRoute{On: on, RunID: run.ID, Attempt: attempt, Class: f.Class, RetryAfter: f.RetryAfter, Detail: detail(f)}
	}
	calling, span := m.calling(ctx, m.Provider.RouterName, t.ID, run, attempt)
	asking, cancel := context.WithTimeout(calling, routeTime)
	defer cancel()
	call := m.metrics.begin("route", m.Provider.RouterName)
	said, failure := stream(asking, m.Provider.Router, m.question(t, run), nil, m.Stall, call.each(func(delta) {}), nil, nil)
	call.end(said, failure)
	called(span, said, failure)
	if failure != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.Log.WarnContext(ctx, "routing failed", "run", run.ID, "attempt", attempt, "class", failure.Class)
		return m.outcome(ctx, e, "", failed(failure), failed)
	}
	agent, fallback := tools.ParseRoute(said.Text)
	return m.outcome(ctx, e, agent, thread.DecideRoute{
		On: on, RunID: run.ID, Attempt: attempt, Agent: agent, Model: m.Provider.RouterName, Fallback: fallback,
	}, failed)
}

// question is what the router reads: the agents, the recent history in words, and the message.
func (m *Router) question(t *transcript.Thread, run *transcript.Run) []*schema.Message {
	messages := []*schema.Message{schema.SystemMessage(tools.RouterPrompt(run.Focus))}
	for _, message := range past(t, run, m.context(t, run), routeHistory) {
		if message.Role == schema.Tool || message.Content == "" {
			continue
		}
		message.ToolCalls = nil
		messages = append(messages, message)
	}
	return append(messages, schema.UserMessage(run.Message.Text))
}
