package tracing

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// Fields are the ids that a log line has besides its trace, where they are known.
type Fields struct {
	Request string
	Run     string
	Command string
}

type fieldsKey struct{}

func fieldsOf(ctx context.Context) Fields {
	f, _ := ctx.Value(fieldsKey{}).(Fields)
	return f
}

// With is a context whose log lines have these ids, beside those that they had already.
func With(ctx context.Context, f Fields) context.Context {
	before := fieldsOf(ctx)
	after := Fields{
		Request: cmp.Or(f.Request, before.Request), Run: cmp.Or(f.Run, before.Run), Command: cmp.Or(f.Command, before.Command),
	}
	if after == before {
		return ctx
	}
	return context.WithValue(ctx, fieldsKey{}, after)
}

// Handler adds the ids that a line's context knows, but none that the line says itself.
func Handler(next slog.Handler) slog.Handler { return handler{next: next} }

type handler struct {
	next slog.Handler
	said []string // by the attributes that every line has
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	at, f := trace.SpanContextFromContext(ctx), fieldsOf(ctx)
	if !at.IsValid() && f == (Fields{}) {
		return h.next.Handle(ctx, r)
	}
	said := slices.Clone(h.said)
	r.Attrs(func(a slog.Attr) bool {
		said = append(said, a.Key)
		return true
	})
	r = r.Clone()
	add := func(name, value string) {
		if value != "" && !slices.Contains(said, name) {
			r.AddAttrs(slog.String(name, value))
		}
	}
	if at.IsValid() {
		add("trace_id", at.TraceID().String())
		add("span_id", at.SpanID().String())
	}
	add("request_id", f.Request)
	add("run", f.Run)
	add("command", f.Command)
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	said := slices.Clone(h.said)
	for _, a := range attrs {
		said = append(said, a.Key)
	}
	return handler{next: h.next.WithAttrs(attrs), said: said}
}

// WithGroup implements slog.Handler. The ids of a line that is in a group stand in it.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{next: h.next.WithGroup(name)}
}
