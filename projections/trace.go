package projections

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/streams/tracing"
)

// linksAtOnce is how many traces one span links to: exporters keep 128 at most.
const linksAtOnce = 100

// traced records a transaction for every trace that has a commit in it. It is a span of its own that links to what was
// appended, and no child of it: one transaction applies the commits of many. What only fills tables that are not read yet
// is no part of anybody's request.
func (e *Engine) traced(done Applied, b *piece, began time.Time) {
	if !e.cfg.Tracer.On() || !slices.ContainsFunc(done.Models, func(m AppliedModel) bool { return m.Live }) {
		return
	}
	var traces []string
	for i := range b.commits {
		if t := b.commits[i].Trace; t != "" {
			traces = append(traces, t)
		}
	}
	links := tracing.Links(traces)
	if len(links) == 0 {
		return
	}
	var models []string
	for _, m := range done.Models {
		models = append(models, fmt.Sprintf("%s/%d", m.Projection, m.Generation))
	}
	for some := range slices.Chunk(links, linksAtOnce) {
		_, span := e.cfg.Tracer.Start(context.Background(), "project", trace.WithNewRoot(), trace.WithTimestamp(began),
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(some...), trace.WithAttributes(
				attribute.Int64("cairn.log.partition", int64(done.Partition)), attribute.Int("cairn.lane", done.Lane),
				attribute.Int64("cairn.log.next", done.Next), attribute.Int("cairn.commits", done.Commits), attribute.Int("cairn.events", done.Events),
				attribute.StringSlice("cairn.models", models)))
		span.End()
	}
}
