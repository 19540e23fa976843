package live_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/live"
	"github.com/cairnhq/cairn/streams/tracing"
)

// Traces of a client, and the span of each that it says it is in.
const (
	firstTrace  = "0af7651916cd43dd8448eb211c80319c"
	secondTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "b7ad6b7169203331"
)

func TestTracesOfASocket(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	r := newRing(t, live.Timing{}).beside(t, func(c *live.Config) { c.Tracer = tracing.New(provider) })
	for name, test := range map[string]func(*ring, *tracetest.SpanRecorder, string){
		"a repeat in another trace is the same request":         repeatInAnotherTrace,
		"an answer is recorded in the trace of its call":        answerInItsTrace,
		"the span of a call that has no answer says so":         callWithoutAnswer,
		"a traceparent that is none leaves a request as it was": malformedTrace,
	} {
		t.Run(name, func(t *testing.T) {
			test(r.in(t), spans, "user"+nameOf(name))
		})
	}
}

func nameOf(test string) (name string) {
	for _, c := range test {
		if c >= 'a' && c <= 'z' {
			name += string(c)
		}
	}
	return name
}

// ended waits for a span that fits and has ended.
func ended(r *ring, spans *tracetest.SpanRecorder, what string, fits func(sdktrace.ReadOnlySpan) bool) sdktrace.ReadOnlySpan {
	r.t.Helper()
	late := time.After(15 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, s := range spans.Ended() {
			if fits(s) {
				return s
			}
		}
		select {
		case <-tick.C:
		case <-late:
			r.t.Fatalf("no span ended: %s", what)
		}
	}
}

// ofRun are the spans of a name that are about a run.
func ofRun(name, run string) func(sdktrace.ReadOnlySpan) bool {
	return func(s sdktrace.ReadOnlySpan) bool {
		for _, a := range s.Attributes() {
			if a.Key == "cairn.run" && a.Value.AsString() == run {
				return s.Name() == name
			}
		}
		return false
	}
}

func repeatInAnotherTrace(r *ring, spans *tracetest.SpanRecorder, user string) {
	request := frame{"type": "home_request", "request_id": "r1", "message": "Hello", "traceparent": "00-" + firstTrace + "-" + clientSpan + "-01"}
	c := r.device(user, "laptop", nil)
	c.send(request)
	c.expect("stream_start")
	run := r.of(user, "r1")
	span := ended(r, spans, "the request", ofRun("home_request", run.run))
	if at := span.SpanContext(); at.TraceID().String() != firstTrace || span.Parent().SpanID().String() != clientSpan {
		r.t.Errorf("the request's span is in %s under %s", at.TraceID(), span.Parent().SpanID())
	}
	if _, e := await(r, func(e thread.MessagePosted) bool { return e.RunID == run.run }); e.Trace[36:52] != span.SpanContext().SpanID().String() {
		r.t.Errorf("the message was appended under %s, the request's span is %s", e.Trace, span.SpanContext().SpanID())
	}
	c.ws.Close()
	c = r.device(user, "laptop", nil)
	request["traceparent"] = "00-" + secondTrace + "-" + clientSpan + "-01"
	c.send(request)
	c.expect("stream_start")
	delete(request, "traceparent")
	c.send(request)
	c.expect("stream_start")
	run.route("task_agent")
	run.turn(1, 1, "Once.")
	c.expect("stream_text")
	c.expect("stream_end")
	if n := count(r, func(e thread.MessagePosted) bool { return e.RunID == run.run }); n != 1 {
		r.t.Errorf("%d messages were posted", n)
	}
	ended(r, spans, "a delivery", ofRun("deliver", run.run))
}

func answerInItsTrace(r *ring, spans *tracetest.SpanRecorder, user string) {
	const deviceSpan = "00f067aa0ba902b7"
	c := r.device(user, "laptop", nil)
	for request, answers := range map[string]struct {
		traceparent func(trace string) any
		device      bool // the answer is under what the device did, else under its call
	}{
		"of its own": {func(trace string) any { return "00-" + trace + "-" + deviceSpan + "-01" }, true},
		"of another": {func(string) any { return "00-" + secondTrace + "-" + deviceSpan + "-01" }, false},
		"none":       {func(string) any { return "00-nonsense" }, false},
		"a number":   {func(string) any { return 7 }, false},
		"absent":     {func(string) any { return nil }, false},
	} {
		run := calling(r, c, user, request, insertTask())
		call := c.expect("tool_call")
		parent := call.text("traceparent")
		if tracing.Clean(parent) != parent || parent == "" {
			r.t.Fatalf("the call has the traceparent %q", parent)
		}
		answer := frame{"type": "tool_result", "id": call.text("id"), "row": frame{"id": "t1"}}
		if at := answers.traceparent(parent[3:35]); at != nil {
			answer["traceparent"] = at
		}
		c.send(answer)
		c.expect("tool_result_ack")
		delete(answer, "traceparent")
		c.send(answer) // the same answer, in whatever trace
		c.expect("tool_result_ack")
		recorded := ended(r, spans, request, ofRun("tool_result", run.run))
		want := parent[36:52]
		if answers.device {
			want = deviceSpan
		}
		if at := recorded.SpanContext(); at.TraceID().String() != parent[3:35] || recorded.Parent().SpanID().String() != want {
			r.t.Errorf("%s: the answer is in %s under %s, wanted %s under %s", request, at.TraceID(), recorded.Parent().SpanID(), parent[3:35], want)
		}
		span := ended(r, spans, request, ofRun("execute_tool create_task", run.run))
		if span.SpanContext().SpanID().String() != parent[36:52] || span.Status().Code == codes.Error {
			r.t.Errorf("%s: the call's span is %s, %v; the device was told %s", request, span.SpanContext().SpanID(), span.Status(), parent)
		}
		completed, _ := await(r, func(e thread.ToolCallCompleted) bool { return e.RunID == run.run })
		if string(completed.Result.Device) != `{"row":{"id":"t1"}}` {
			r.t.Errorf("%s: recorded was %s", request, completed.Result.Device)
		}
		run.turn(2, 1, "Done.")
		c.expect("stream_text")
		c.expect("stream_end")
	}
}

func callWithoutAnswer(r *ring, spans *tracetest.SpanRecorder, user string) {
	c := r.device(user, "laptop", nil)
	run := calling(r, c, user, "r1", insertTask())
	c.expect("tool_call")
	c.ws.Close()
	span := ended(r, spans, "the call", ofRun("execute_tool create_task", run.run))
	if s := span.Status(); s.Code != codes.Error || s.Description != "outcome_unknown" {
		r.t.Errorf("it ended as %+v", s)
	}
}

func malformedTrace(r *ring, spans *tracetest.SpanRecorder, user string) {
	c := r.device(user, "laptop", nil)
	for request, traceparent := range map[string]any{
		"nonsense": "nonsense", "a number": 1, "an object": frame{"a": 1}, "null": nil, "long": string(make([]byte, 1<<16)),
	} {
		c.send(frame{"type": "home_request", "request_id": request, "message": "Hello", "traceparent": traceparent})
		c.expect("stream_start")
		run := r.of(user, request)
		if span := ended(r, spans, request, ofRun("home_request", run.run)); span.Parent().IsValid() {
			r.t.Errorf("%s: the request is under %v", request, span.Parent())
		}
	}
}
