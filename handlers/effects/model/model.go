package model

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/tell"
	"github.com/cairnhq/cairn/handlers/effects/tools"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Config is what model calls need.
type Config struct {
	Provider Provider
	Asker    streams.Asker
	Source   transcript.Source
	Live     streams.Live
	Now      func() time.Time
	Log      *slog.Logger

	// Stall is how long a stream may send nothing. 0: 90 s.
	Stall time.Duration
	// Coalesce is how long text is gathered that follows other text. 0: 25 ms.
	Coalesce time.Duration
	// Watch is how often a running turn looks whether its run has ended. 0: 2 s.
	Watch time.Duration
	// History is how many bytes of earlier runs a prompt has at most. 0: 48 KiB.
	History int
	// Metrics is where what is measured is registered, once in a process. Nil: nowhere.
	Metrics prometheus.Registerer
	// Tracer begins a span for each call. Its zero value begins none.
	Tracer tracing.Tracer
}

// Model does the effects that call language models.
type Model struct {
	Config
	metrics *metrics
}

// New completes the defaults.
func New(c Config) *Model {
	c.Stall = cmp.Or(c.Stall, 90*time.Second)
	c.Coalesce = cmp.Or(c.Coalesce, 25*time.Millisecond)
	c.Watch = cmp.Or(c.Watch, 2*time.Second)
	c.History = cmp.Or(c.History, 48<<10)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Model{Config: c, metrics: newMetrics(c.Metrics)}
}

// Route is the handler of the effects of kind "route".
func (m *Model) Route() *Router { return &Router{m} }

// Turn is the handler of the effects of kind "turn".
func (m *Model) Turn() *Turner { return &Turner{m} }

// load reads the thread of an effect. A nil run says that the effect has an outcome already.
func (m *Model) load(ctx context.Context, e openeffects.Effect, open func(*transcript.Run) bool) (*transcript.Thread, *transcript.Run, error) {
	t, err := m.Source.Load(ctx, e.Scope, e.Stream, e.Group, e.Version)
	if errors.Is(err, streams.ErrScopeErased) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	run := t.Run(e.Group)
	if run == nil || run.End != "" || !open(run) {
		return nil, nil, nil
	}
	return t, run, nil
}

// outcome tells what came of an effect, and, if the thread can't take that, the failure instead.
func (m *Model) outcome(ctx context.Context, e openeffects.Effect, agent string, body domain.Command, failed func(*Failure) domain.Command) error {
	command := streams.Command{
		Scope: e.Scope, ID: streams.Derive(e.EventID, "outcome"), CausationID: e.EventID,
		Actor: domain.Actor{Kind: domain.ActorWorker, Agent: agent, Run: e.Group}, Body: body,
	}
	rejected, err := tell.Outcome(ctx, m.Asker, command)
	if err != nil || rejected == nil {
		return err
	}
	m.Log.InfoContext(ctx, "the thread did not take an outcome", "effect", e.ID, "code", rejected.Code, "reason", rejected.Reason)
	if !tell.Unheard(rejected) {
		return nil
	}
	command.ID = streams.Derive(e.EventID, "failure")
	command.Body = failed(&Failure{Class: thread.Malformed, Err: rejected})
	_, err = tell.Outcome(ctx, m.Asker, command)
	return err
}

func (m *Model) context(t *transcript.Thread, run *transcript.Run) tools.Context {
	return tools.Context{
		Now: m.Now(), Zone: tools.Zone(run.Timezone), ProjectID: run.Message.ProjectID, Talk: talk(t, run),
	}
}

func (m *Model) metadata(extra map[string]string) map[string]string {
	if len(m.Provider.Metadata)+len(extra) == 0 {
		return nil
	}
	all := maps.Clone(m.Provider.Metadata)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, extra)
	return all
}

// detail is a failure in the words that are kept, sealed, with the attempt.
func detail(f *Failure) thread.Detail {
	const most = 2000
	text := f.Err.Error()
	return thread.Detail{Text: strings.ToValidUTF8(text[:min(len(text), most)], "")}
}
