package policies

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// traced handles an event in the trace of the command that it came of.
func (r *Runner) traced(ctx context.Context, policy string, e streams.Recorded, handle func(context.Context, streams.Recorded) error) error {
	ctx = tracing.From(ctx, e.Trace)
	if !r.config.Tracer.On() {
		return handle(ctx, e)
	}
	ctx, span := r.config.Tracer.Start(ctx, "policy "+policy, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.String("cairn.event.id", e.ID), attribute.String("cairn.event.type", e.Type)))
	defer span.End()
	err := handle(ctx, e)
	if err != nil {
		tracing.Fail(span, "failed")
	}
	return err
}
