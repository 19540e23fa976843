package model

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/handlers/effects/transcript"
	"github.com/cairnhq/cairn/streams/tracing"
)

// calling begins the span of a model call, in the names of OpenTelemetry's conventions for generative AI (semantic
// conventions 1.37). Nothing that was said stands in it.
func (m *Model) calling(ctx context.Context, name, threadID string, run *transcript.Run, attempt int) (context.Context, trace.Span) {
	return m.Tracer.Start(ctx, "chat "+name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", m.Provider.Metadata["provider"]),
		attribute.String("gen_ai.request.model", name), attribute.String("gen_ai.conversation.id", threadID),
		attribute.Bool("gen_ai.request.stream", true),
		attribute.String("cairn.run", run.ID), attribute.Int("cairn.turn", run.Pending.Turn), attribute.Int("cairn.attempt", attempt)))
}

func called(span trace.Span, said answer, failure *Failure) {
	if !span.IsRecording() {
		return
	}
	defer span.End()
	switch {
	case failure == nil:
		span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{said.Finish}),
			attribute.Int("gen_ai.usage.input_tokens", said.Input), attribute.Int("gen_ai.usage.output_tokens", said.Output),
			attribute.Int("cairn.tool_calls", len(said.Calls)))
	case errors.Is(failure.Err, errEnded): // nobody waited for it any more
		span.SetAttributes(attribute.Bool("cairn.run_ended", true))
	default:
		tracing.Fail(span, string(failure.Class))
	}
}
