package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cloudwego/eino/components/model"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/output"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/tools"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/streams"
)

// Turner runs the turns of agents.
type Turner struct{ *Model }

// errEnded is why a model call is broken off whose run has ended.
var errEnded = errors.New("the run has ended")

// Do asks the model for one turn and tells the thread what came of it.
func (m *Turner) Do(ctx context.Context, e openeffects.Effect) error {
	t, run, err := m.load(ctx, e, func(r *transcript.Run) bool {
		return r.Pending.Turn > 0 && thread.TurnEffect(r.ID, r.Pending.Turn, r.Pending.Attempt) == e.ID
	})
	if err != nil || run == nil {
		return err
	}
	turn, attempt, on := run.Pending.Turn, run.Pending.Attempt, thread.On{Thread: t.ID}
	failed := func(f *Failure) domain.Command {
		return thread.FailTurn{
			On: on, RunID: run.ID, Turn: turn, Attempt: attempt, Class: f.Class, RetryAfter: f.RetryAfter, Detail: detail(f),
		}
	}
	agent, ok := tools.AgentNamed(run.Agent)
	if !ok {
		unknown := &Failure{Class: thread.Refused, Err: fmt.Errorf("there is no agent %q", run.Agent)}
		return m.outcome(ctx, e, run.Agent, failed(unknown), failed)
	}
	calling, span := m.calling(ctx, m.Provider.ChatName, t.ID, run, attempt)
	said, format, failure := m.ask(calling, e, t, run, agent)
	called(span, said, failure)
	if failure != nil {
		if errors.Is(failure.Err, errEnded) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.Log.WarnContext(ctx, "a turn of the model failed", "run", run.ID, "turn", turn, "attempt", attempt, "class", failure.Class)
		return m.outcome(ctx, e, run.Agent, failed(failure), failed)
	}
	complete := m.complete(t, run, agent, said)
	complete.On, complete.Warnings = on, append(complete.Warnings, format.Warnings()...)
	return m.outcome(ctx, e, run.Agent, complete, failed)
}

// ask streams one answer, publishing it as it comes. It breaks off when the run ends.
func (m *Turner) ask(ctx context.Context, e openeffects.Effect, t *transcript.Thread, run *transcript.Run, agent tools.Agent) (answer, formatter, *Failure) {
	c := m.context(t, run)
	var options []model.Option
	if !run.Pending.NoTools {
		infos, err := offered(agent)
		if err != nil {
			return answer{}, nil, &Failure{Class: thread.Refused, Err: err}
		}
		options = append(options, model.WithTools(infos))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.watch(ctx, cancel, e, t.Version)
	}()
	defer func() {
		cancel(nil)
		<-ended
	}()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	p := &publisher{
		ctx: ctx, live: m.Live, log: m.Log, format: format(run), gather: m.Coalesce, now: time.Now, timer: timer,
		frame: streams.LiveFrame{
			Scope: e.Scope, Stream: e.Stream, RunID: run.ID, Turn: run.Pending.Turn, Attempt: run.Pending.Attempt,
		},
	}
	call := m.metrics.begin("turn", m.Provider.ChatName)
	said, failure := stream(ctx, m.Provider.Chat, Prompt(t, run, agent, c, m.History), options, m.Stall, call.each(p.delta), timer.C, p.flush)
	if failure != nil {
		p.flush()
		if cause := context.Cause(ctx); errors.Is(cause, errEnded) {
			failure.Err = errEnded
		}
		call.end(said, failure)
		return answer{}, nil, failure
	}
	p.end()
	call.end(said, nil)
	return said, p.format, nil
}

func format(run *transcript.Run) formatter {
	if run.Channel == thread.Home {
		return output.NewHome(run.Tables.Rows)
	}
	return output.NewPlain()
}

// complete plans the calls of an answer.
func (m *Turner) complete(t *transcript.Thread, run *transcript.Run, agent tools.Agent, said answer) thread.CompleteTurn {
	c := m.context(t, run)
	command := thread.CompleteTurn{
		RunID: run.ID, Turn: run.Pending.Turn, Attempt: run.Pending.Attempt,
		Model: m.Provider.ChatName, FinishReason: said.Finish, InputTokens: said.Input, OutputTokens: said.Output,
		Metadata: m.metadata(said.Extra), Content: thread.PlannedTurn{Text: said.Text},
	}
	switch said.Finish {
	case "length":
		command.Warnings = append(command.Warnings, "the model stopped at its length limit")
	case "content_filter":
		command.Warnings = append(command.Warnings, "the model's provider filtered the answer")
	}
	for _, call := range said.Calls {
		plan, payload := agent.Plan(c, call.Name, call.Arguments)
		command.Plans = append(command.Plans, plan)
		command.Content.Payloads = append(command.Content.Payloads, payload)
		command.Content.Calls = append(command.Content.Calls, thread.TurnCall{ModelID: call.ID, Tool: call.Name, Arguments: call.Arguments})
	}
	return command
}

// watch looks from time to time whether the run goes on, so that nobody pays for an answer that nobody waits for.
func (m *Turner) watch(ctx context.Context, cancel context.CancelCauseFunc, e openeffects.Effect, from uint64) {
	ticker := time.NewTicker(m.Watch)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		ended, err := m.Source.Over(ctx, e.Scope, e.Stream, e.ID, from)
		if err != nil && ctx.Err() == nil {
			m.Log.DebugContext(ctx, "looking whether the run goes on failed", "run", e.Group, "error", err)
		}
		if ended {
			cancel(errEnded)
			return
		}
	}
}
