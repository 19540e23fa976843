package live

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/streams/tracing"
)

// traceparentOf is the traceparent that a client put into a frame, "" if it put none there or something else.
func traceparentOf(frame []byte) string {
	var f struct {
		Trace json.RawMessage `json:"traceparent"`
	}
	var text string
	if json.Unmarshal(frame, &f) != nil || json.Unmarshal(f.Trace, &text) != nil {
		return ""
	}
	return tracing.Clean(text)
}

// received begins the span of a frame that becomes a command. It ends when the command has its answer: what the client is
// told afterwards may take hours.
func (g *Gateway) received(ctx context.Context, kind, traceparent, run string) (context.Context, trace.Span) {
	ctx = tracing.With(tracing.From(ctx, traceparent), tracing.Fields{Run: run})
	return g.Tracer.Start(ctx, kind, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("cairn.run", run)))
}

// delivering begins the span of what one event, or the beginning of what streams, brings a client. It is part of the trace
// in which that was appended. Where that is another than the client's own, it is linked to both.
func (f *follower) delivering(ctx context.Context, what, from string) trace.Span {
	own := trace.SpanContextFromContext(ctx)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("cairn.run", f.story.run), attribute.String("cairn.event.type", what))}
	under := tracing.From(ctx, from)
	if at := trace.SpanContextFromContext(under); own.IsValid() && at.TraceID() != own.TraceID() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: own}))
	}
	_, span := f.Tracer.Start(under, "deliver", options...)
	return span
}

// offering begins the span of a call on a device, which ends with the device's answer, or when the call is given back. The
// device is told of it, so that what it does can be part of the trace.
func (g *Gateway) offering(ctx context.Context, c *call) context.Context {
	ctx, c.span = g.Tracer.Start(ctx, "execute_tool "+c.step.Tool, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", c.step.Tool),
		attribute.String("gen_ai.tool.call.id", c.step.CallID), attribute.String("cairn.run", c.step.RunID),
		attribute.String("cairn.tool.action", c.step.Action), attribute.Int("cairn.tool.step", c.step.Number)))
	c.trace = tracing.Parent(ctx)
	return ctx
}

// ended ends the span of a call, if it has one; a code says why it has no result. Only the first end counts.
func (c *call) ended(code string) {
	if c == nil || c.span == nil {
		return
	}
	if code != "" {
		tracing.Fail(c.span, code)
	}
	c.span.End()
}

// answering is what the recording of a device's answer is under: what the device did, if it says so and does not name
// another trace than that of its call, else the call.
func (c *call) answering(ctx context.Context, device string) context.Context {
	if device == "" || c.trace != "" && !tracing.Same(device, c.trace) {
		device = c.trace
	}
	return tracing.From(ctx, device)
}
