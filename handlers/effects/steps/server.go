// Package steps does the steps of tool calls that happen on the server: it computes what the device does
// next, such as the vector of a note. It has no data of the user's but what the thread's events hold.
package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/embed"
	"github.com/cairnhq/cairn/handlers/effects/tell"
	"github.com/cairnhq/cairn/handlers/effects/tools"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Server does the server steps of tool calls: it computes what the device does next. A step may be done twice.
type Server struct {
	Asker    streams.Asker
	Source   transcript.Source
	Embedder embed.Embedder
	// Tries is how often an embedding is tried; 0: 3.
	Tries uint
	// Tracer begins a span for each embedding. Its zero value begins none.
	Tracer tracing.Tracer
}

// Do does one step and tells its outcome to the thread.
func (s *Server) Do(ctx context.Context, e openeffects.Effect) error {
	callID, number, ok := thread.ParseStepID(e.ID)
	if !ok {
		return fmt.Errorf("effect %q is no step", e.ID)
	}
	run, _, _ := strings.Cut(callID, ".") // the group of a background step is its call, not its run
	t, err := s.Source.Load(ctx, e.Scope, e.Stream, run, e.Version)
	if errors.Is(err, streams.ErrScopeErased) {
		return nil
	}
	if err != nil {
		return err
	}
	call := t.Call(callID)
	if call == nil || call.Steps[number].Done || call.Done && !call.Steps[number].Background {
		return nil // it has an outcome already
	}
	command, err := s.advance(ctx, call, call.Steps[number], t.ID)
	if err != nil {
		return err
	}
	return s.tell(ctx, e, run, command)
}

func (s *Server) advance(ctx context.Context, call *transcript.Call, step transcript.Step, id string) (domain.Command, error) {
	on := thread.On{Thread: id}
	failed := func(words string) domain.Command {
		return thread.FailStep{On: on, CallID: call.ID, Step: step.Number, Reason: thread.ServerError, Result: thread.Result{Text: words}}
	}
	switch step.Then {
	case tools.EmbedQuery:
		var args struct {
			Query string `json:"query"`
			Limit int    `json:"limit"`
		}
		if err := json.Unmarshal(call.Checked, &args); err != nil {
			return failed("search_notes failed: its arguments can't be read."), nil
		}
		vector, err := s.embed(ctx, args.Query)
		if err != nil {
			return failed("search_notes failed: the text could not be embedded. List the notes instead."), ctx.Err()
		}
		return s.next(on, call, step, "vector_search", fields{Vector: vector, Limit: cmp.Or(args.Limit, 5)}), nil
	case tools.IndexNote:
		note, ok := stored(call)
		if !ok {
			return s.notIndexed(on, call, step), nil
		}
		vector, err := s.embed(ctx, note.text())
		if err != nil {
			return s.notIndexed(on, call, step), ctx.Err()
		}
		data := map[string]any{"id": note.ID, "content": note.Content}
		if note.ProjectID != "" {
			data["projectId"] = note.ProjectID
		}
		return s.next(on, call, step, "vector_upsert", fields{Vector: vector, Data: data}), nil
	}
	return failed(fmt.Sprintf("%s failed: the server knows no step %q.", call.Tool, step.Then)), nil
}

// fields are what is merged into the device's frame.
type fields struct {
	Data   map[string]any `json:"data,omitempty"`
	Vector []float32      `json:"vector"`
	Limit  int            `json:"limit,omitempty"`
}

func (s *Server) next(on thread.On, call *transcript.Call, step transcript.Step, action string, f fields) domain.Command {
	frame, err := json.Marshal(f)
	if err != nil { // a vector with a number that JSON doesn't have
		return thread.FailStep{On: on, CallID: call.ID, Step: step.Number, Reason: thread.ServerError}
	}
	plan := thread.Plan{Tool: call.Tool, Executor: thread.OnDevice, Action: action, Table: "notes", Repeatable: true}
	return thread.AdvanceCall{
		On: on, CallID: call.ID, Step: step.Number, Next: &plan,
		Content: thread.Advancing{Payload: thread.Payload{Fields: frame}},
	}
}

// notIndexed lets the call's result stand: the note is stored.
func (s *Server) notIndexed(on thread.On, call *transcript.Call, step transcript.Step) domain.Command {
	var result thread.Result
	if answers := call.Answers(); len(answers) > 0 {
		result.Device = answers[0]
	}
	return thread.AdvanceCall{On: on, CallID: call.ID, Step: step.Number, NotIndexed: true, Content: thread.Advancing{Result: result}}
}

// note is what is embedded.
type note struct {
	ID        string `json:"id"`
	ProjectID string `json:"projectId"`
	Title     string `json:"title"`
	Content   string `json:"content"`
}

func (n note) text() string { return n.Title + "\n" + n.Content }

// stored is the note as the device returned it; what it left out is taken from the arguments.
func stored(call *transcript.Call) (note, bool) {
	answers := call.Answers()
	if len(answers) == 0 {
		return note{}, false
	}
	var answer struct {
		Row note `json:"row"`
	}
	var args struct {
		NoteID    string `json:"note_id"`
		ProjectID string `json:"project_id"`
		Title     string `json:"title"`
		Content   string `json:"content"`
	}
	if json.Unmarshal(answers[0], &answer) != nil || json.Unmarshal(call.Checked, &args) != nil {
		return note{}, false
	}
	n := answer.Row
	n.ID, n.ProjectID = cmp.Or(n.ID, args.NoteID), cmp.Or(n.ProjectID, args.ProjectID)
	n.Title, n.Content = cmp.Or(n.Title, args.Title), cmp.Or(n.Content, args.Content)
	return n, n.ID != ""
}

func (s *Server) embed(ctx context.Context, text string) (vector []float32, err error) {
	ctx, span := s.Tracer.Start(ctx, "embeddings "+s.Embedder.Name(), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "embeddings"), attribute.String("gen_ai.request.model", s.Embedder.Name())))
	defer func() {
		if err != nil {
			tracing.Fail(span, "failed")
		}
		span.End()
	}()
	return backoff.Retry(ctx, func() ([]float32, error) { return s.Embedder.Embed(ctx, text) },
		backoff.WithMaxTries(cmp.Or(s.Tries, 3)), backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: 300 * time.Millisecond, Multiplier: 3, MaxInterval: 5 * time.Second, RandomizationFactor: 0.2,
		}))
}

// tell sends the outcome. A rejection says that the step has one already, or that it can't be taken, and is final.
func (s *Server) tell(ctx context.Context, e openeffects.Effect, run string, command domain.Command) error {
	_, err := tell.Outcome(ctx, s.Asker, streams.Command{
		Scope: e.Scope, ID: streams.Derive(e.EventID, "outcome"), CausationID: e.EventID,
		Actor: domain.Actor{Kind: domain.ActorWorker, Run: run}, Body: command,
	})
	return err
}
