package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/kafka"
	"github.com/cairnhq/cairn/streams/memory"
	"github.com/cairnhq/cairn/streams/tracing"
)

// recorded is a tracer and what it has seen end.
func recorded(t *testing.T) (tracing.Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return tracing.New(provider), spans
}

// commits reads what counts in a log.
func (s *site) commits() []streams.Commit {
	s.t.Helper()
	tailer, err := kafka.NewTailer(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tailer.Close()
	var all []streams.Commit
	errEnd := errors.New("end")
	for p := range s.config.Topics.N() {
		end, err := tailer.End(s.t.Context(), p)
		if err != nil {
			s.t.Fatal(err)
		}
		if end == 0 {
			continue
		}
		err = tailer.Tail(s.t.Context(), p, streams.Start(), func(_ context.Context, b streams.Batch) error {
			all = append(all, b.Commits...)
			if b.Next.Next >= end {
				return errEnd
			}
			return nil
		})
		if !errors.Is(err, errEnd) {
			s.t.Fatal(err)
		}
	}
	return all
}

// A command's trace goes on in the writer and in the log, beside the commit and not in it, and outlives a migration.
func TestATraceGoesWithACommandIntoTheLog(t *testing.T) {
	tracer, spans := recorded(t)
	from := newSite(t, 1, 1, memory.NewKeys())
	from.config.Tracer = tracer
	ask, stop := from.writer()
	ctx, root := tracer.Start(t.Context(), "root")
	if _, err := ask.Ask(ctx, wish("user-a", "1", add{Tally: "t", By: 1})); err != nil {
		t.Fatal(err)
	}
	if _, err := ask.Ask(ctx, wish("user-a", "2", add{Tally: "t", By: 0})); code(err) == "" {
		t.Fatalf("nothing was added, and the answer is %v", err)
	}
	root.End()
	stop() // what was appended was read back

	var asks, decides, appends []sdktrace.ReadOnlySpan
	for _, s := range spans.Ended() {
		switch name := s.Name(); {
		case strings.HasPrefix(name, "ask "):
			asks = append(asks, s)
		case strings.HasPrefix(name, "decide "):
			decides = append(decides, s)
		case name == "append":
			appends = append(appends, s)
		}
		if s.SpanContext().TraceID() != root.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name())
		}
	}
	if len(asks) != 2 || len(decides) != 2 || len(appends) != 2 {
		t.Fatalf("%d asks, %d decisions, %d appends", len(asks), len(decides), len(appends))
	}
	commits := from.commits()
	if len(commits) != 2 {
		t.Fatalf("%d commits", len(commits))
	}
	for i := range asks {
		if asks[i].Parent().SpanID() != root.SpanContext().SpanID() || decides[i].Parent().SpanID() != asks[i].SpanContext().SpanID() ||
			appends[i].Parent().SpanID() != decides[i].SpanContext().SpanID() {
			t.Errorf("command %d: the spans do not follow from each other", i)
		}
		if want := traceparent(appends[i].SpanContext()); commits[i].Trace != want || i == 0 && commits[i].Events[0].Trace != want {
			t.Errorf("commit %d has the trace %q, wanted %q", i, commits[i].Trace, want)
		}
	}
	for _, r := range from.read(from.config.Topics.Log(), 0) {
		if strings.Contains(string(r.Value), root.SpanContext().TraceID().String()) {
			t.Errorf("the record at %d has the trace in its body", r.Offset)
		}
	}

	to := newSite(t, 3, 2, from.keys)
	if _, err := migrate(from, to); err != nil {
		t.Fatal(err)
	}
	for i, c := range to.commits() {
		if c.Trace != commits[i].Trace {
			t.Errorf("commit %d has the trace %q after the migration, and had %q", i, c.Trace, commits[i].Trace)
		}
	}
}

func traceparent(at trace.SpanContext) string {
	return tracing.Parent(trace.ContextWithSpanContext(context.Background(), at))
}

// A writer that traces nothing passes on what came; a command without a trace, or with one that is malformed, has none.
func TestWithoutATracerTheLogHasWhatCame(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := newSite(t, 1, 1, memory.NewKeys())
	ask, stop := s.writer()
	mustAsk(t, ask, wish("user-a", "1", add{Tally: "t", By: 1}))
	if _, err := ask.Ask(tracing.From(t.Context(), parent), wish("user-a", "2", add{Tally: "t", By: 1})); err != nil {
		t.Fatal(err)
	}
	stop()
	commits := s.commits()
	if len(commits) != 2 || commits[0].Trace != "" || commits[1].Trace != parent {
		t.Fatalf("the log has %+v", commits)
	}
	for _, r := range s.read(s.config.Topics.Log(), 0) {
		for _, h := range r.Headers {
			if h.Key == kafka.HeaderTrace && r.Offset == commits[0].Place.Offset {
				t.Errorf("a commit that nobody traces has a header %s=%s", h.Key, h.Value)
			}
		}
	}
}
