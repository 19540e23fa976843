// Package tracing carries what links the hops of one request: W3C's traceparent through topics and frames, and the ids
// that log lines have. It begins spans where a tracer was given, and exports none.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Header is the name under which a traceparent stands in a record's headers, in frames and in HTTP.
const Header = "traceparent"

// Tracer begins spans. The zero value begins none, and what arrives is passed on as it came. No attribute of a span, no
// name and no status ever holds a user's content, nor a scope: ids, types, counts and codes only.
type Tracer struct{ tracer trace.Tracer }

// New is a tracer of a provider.
func New(provider trace.TracerProvider) Tracer {
	return Tracer{provider.Tracer("github.com/cairnhq/cairn")}
}

// On reports whether spans are begun. A hot path asks before it puts a name and attributes together.
func (t Tracer) On() bool { return t.tracer != nil }

// Start begins a span under what the context carries. Whoever begins one ends it.
func (t Tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t.tracer == nil {
		return ctx, noop.Span{}
	}
	return t.tracer.Start(ctx, name, options...)
}

// From is a context under a traceparent that came from elsewhere. One that is malformed is ignored.
func From(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	at, ok := parse(traceparent)
	if !ok {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, at)
}

// Detach is a context that goes on where another ends, under its span and with its fields.
func Detach(life, from context.Context) context.Context {
	if at := trace.SpanContextFromContext(from); at.IsValid() {
		life = trace.ContextWithSpanContext(life, at)
	}
	return With(life, fieldsOf(from))
}

// Parent is the traceparent of what a context is under, or "".
func Parent(ctx context.Context) string { return format(trace.SpanContextFromContext(ctx)) }

// Of is the traceparent of a span, or "".
func Of(span trace.Span) string { return format(span.SpanContext()) }

// ID is the id of the trace that a context is in, or "".
func ID(ctx context.Context) string {
	if at := trace.SpanContextFromContext(ctx); at.HasTraceID() {
		return at.TraceID().String()
	}
	return ""
}

// Clean is a traceparent in the form in which it is stored, or "" if it is none.
func Clean(traceparent string) string {
	at, ok := parse(traceparent)
	if !ok {
		return ""
	}
	return format(at)
}

// Same reports whether two traceparents are of one trace.
func Same(a, b string) bool {
	at, ok := parse(a)
	bt, also := parse(b)
	return ok && also && at.TraceID() == bt.TraceID()
}

// Sampled reports whether somebody records the trace of a traceparent.
func Sampled(traceparent string) bool {
	at, ok := parse(traceparent)
	return ok && at.IsSampled()
}

// Links are links to what each traceparent names, the malformed and the unsampled left out; the same span once.
func Links(traceparents []string) []trace.Link {
	var links []trace.Link
	seen := map[trace.SpanID]bool{}
	for _, text := range traceparents {
		at, ok := parse(text)
		if !ok || !at.IsSampled() || seen[at.SpanID()] {
			continue
		}
		seen[at.SpanID()] = true
		links = append(links, trace.Link{SpanContext: at})
	}
	return links
}

// Fail says of a span that what it covers failed, by a code. A text could hold content.
func Fail(span trace.Span, code string) {
	span.SetStatus(codes.Error, code)
	span.SetAttributes(attribute.String("error.type", code))
}
