package effects

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/projections/openeffects"
	"github.com/cairnhq/cairn/streams/tracing"
)

// under is a context in the trace of an effect's intent, whoever appended it and however long ago.
func under(ctx context.Context, e openeffects.Effect) context.Context {
	return tracing.With(tracing.From(ctx, e.Trace), tracing.Fields{Run: thread.RunOf(e.ID)})
}

// traced does an effect in a span of its own: each try has one.
func (r *Runner) traced(ctx context.Context, e openeffects.Effect, do func(context.Context, openeffects.Effect) error) error {
	if !r.Tracer.On() {
		return do(ctx, e)
	}
	ctx, span := r.Tracer.Start(ctx, "effect "+e.Kind, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("cairn.effect.id", e.ID), attribute.String("cairn.event.id", e.EventID), attribute.String("cairn.run", thread.RunOf(e.ID)),
		attribute.Int64("cairn.log.partition", int64(e.Position.Partition)), attribute.Int64("cairn.log.offset", e.Position.Offset)))
	defer span.End()
	err := do(ctx, e)
	if err != nil {
		tracing.Fail(span, "tried_again")
	}
	return err
}
