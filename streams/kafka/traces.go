package kafka

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/cairnhq/cairn/domain"
	"github.com/cairnhq/cairn/streams"
	"github.com/cairnhq/cairn/streams/tracing"
)

// beginAsk begins the span of asking, which lasts until the answer. What is logged under it has the command's id.
func (a *Asker) beginAsk(ctx context.Context, c streams.Command) (context.Context, trace.Span) {
	ctx = tracing.With(ctx, tracing.Fields{Command: c.ID})
	if !a.config.Tracer.On() {
		return ctx, noop.Span{}
	}
	return a.config.Tracer.Start(ctx, "ask "+a.config.Schema.CommandName(c.Body),
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("cairn.command.id", c.ID), attribute.String("cairn.stream", string(c.Body.Target()))))
}

func endAsk(span trace.Span, answer streams.Answer, err error) {
	if !span.IsRecording() {
		return
	}
	defer span.End()
	var rejected *domain.Rejection
	var busy *streams.Busy
	switch {
	case err == nil:
		span.SetAttributes(attribute.String("cairn.outcome", "accepted"), attribute.Bool("cairn.repeated", answer.Repeated),
			attribute.Int64("cairn.log.partition", int64(answer.Position.Partition)), attribute.Int64("cairn.log.offset", answer.Position.Offset))
	case errors.As(err, &rejected): // an answer like any other, and no failure
		span.SetAttributes(attribute.String("cairn.outcome", "rejected"), attribute.String("cairn.rejection", rejected.Code))
	case errors.Is(err, streams.ErrOutcomeUnknown):
		tracing.Fail(span, "outcome_unknown")
	case errors.As(err, &busy):
		tracing.Fail(span, "busy")
	default:
		tracing.Fail(span, "not_sent")
	}
}

// traces notes where a command comes from.
func (t *term) traces(a *wish) {
	a.trace = traceOf(a.record.Headers)
	if t.config.Tracer.On() {
		a.came = time.Now()
	}
}

// beginDecide begins the span of a decision at the time when the command was read.
func (t *term) beginDecide(a *wish, more ...attribute.KeyValue) (context.Context, trace.Span) {
	name := "decide"
	if a.body.Body != nil {
		name += " " + t.config.Schema.CommandName(a.body.Body)
	}
	return t.config.Tracer.Start(tracing.From(context.Background(), a.trace), name, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(a.came), trace.WithAttributes(append(more, attribute.String("cairn.command.id", a.id),
			attribute.Int64("cairn.commands.partition", int64(t.partition)), attribute.Int64("cairn.commands.offset", a.record.Offset))...))
}

// decided ends the span of a decision, begins that of appending it, which lasts until the commit was read back, and answers
// what the commit's record carries. Where no spans are begun that is what the command carried.
func (t *term) decided(a *wish, c *streams.Commit, p *inFlight) string {
	if !t.config.Tracer.On() || a.scope == "" {
		return a.trace
	}
	ctx, span := t.beginDecide(a)
	if span.IsRecording() {
		outcome := []attribute.KeyValue{attribute.String("cairn.outcome", "accepted"), attribute.Int("cairn.events", len(c.Events))}
		if c.Rejected != nil {
			outcome = []attribute.KeyValue{attribute.String("cairn.outcome", "rejected"), attribute.String("cairn.rejection", c.Rejected.Code)}
		}
		span.SetAttributes(outcome...)
		if p.alarm != nil {
			tracing.Fail(span, c.Rejected.Code)
		}
	}
	span.End()
	_, p.append = t.config.Tracer.Start(ctx, "append", trace.WithSpanKind(trace.SpanKindProducer))
	return tracing.Of(p.append)
}

// decidedBefore is the span of a command that is answered again and appends nothing.
func (t *term) decidedBefore(a *wish) {
	if !t.config.Tracer.On() {
		return
	}
	_, span := t.beginDecide(a, attribute.Bool("cairn.repeated", true))
	span.End()
}

// appended says that a commit was read back, and counts.
func (p *inFlight) appended() {
	if p.append == nil {
		return
	}
	if p.append.IsRecording() {
		p.append.SetAttributes(attribute.Int64("cairn.log.partition", int64(p.answer.Partition)), attribute.Int64("cairn.log.offset", p.answer.Offset))
	}
	p.append.End()
}

// lostSight ends the spans of commits that this lead did not read back. Whoever leads next knows what became of them.
func (t *term) lostSight() {
	for _, p := range t.pending {
		if p != nil && p.append != nil {
			tracing.Fail(p.append, "lead_ended")
			p.append.End()
		}
	}
}
