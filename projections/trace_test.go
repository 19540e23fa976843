package projections_test

import (
	"context"
	"fmt"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cairnhq/cairn/projections"
	"github.com/cairnhq/cairn/projections/logtest"
	"github.com/cairnhq/cairn/projections/pgtest"
	"github.com/cairnhq/cairn/projections/threads"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// A transaction is linked once to each recorded trace that has a commit in it, however many there are, and begins a trace of
// its own; one without any has no span.
func TestATransactionIsLinkedToTheTracesInIt(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	pool, log := pgtest.Read(t), logtest.New(1)
	log.MaxBatch = 1000
	const traces = 250
	want := map[string]int{}
	for i := range traces {
		for n, flags := range []string{"01", "00"} {
			parent := fmt.Sprintf("00-%032x-%016x-%s", i+1, 2*i+n+1, flags)
			log.AppendRaw("user-ann", func(c *streams.Commit) { c.Trace = parent }, logtest.Post("thread-a", fmt.Sprint("run", i, n), "laptop")...)
			if n == 0 {
				want[parent]++
			}
		}
	}
	log.Append("user-ann", logtest.Post("thread-a", "untraced", "laptop")...)
	engine := projections.NewEngine(projections.EngineConfig{
		Pool: pool, Tailer: log, Schema: logtest.Schema(), Tracer: tracing.New(provider), Lanes: 1,
		Projectors: []projections.Projector{threads.New(projections.NewDB(pool)).Projector()},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	logtest.Wait(t, pool, log, threads.Name)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, s := range spans.Ended() {
		if s.Name() != "project" || s.Parent().IsValid() || len(s.Links()) == 0 || s.DroppedLinks() > 0 {
			t.Errorf("%s: parent %v, %d links, %d dropped", s.Name(), s.Parent().IsValid(), len(s.Links()), s.DroppedLinks())
		}
		for _, l := range s.Links() {
			got[tracing.Clean(fmt.Sprintf("00-%s-%s-%s", l.SpanContext.TraceID(), l.SpanContext.SpanID(), l.SpanContext.TraceFlags()))]++
		}
	}
	for parent := range want {
		if got[parent] != 1 {
			t.Errorf("%s is linked %d times", parent, got[parent])
		}
	}
	if len(got) != traces {
		t.Errorf("%d spans are linked, wanted %d", len(got), traces)
	}
}
