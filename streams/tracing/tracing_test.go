package tracing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/streams/tracing"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// standard is what OpenTelemetry's library makes of a traceparent.
func standard(text string) string {
	carrier := propagation.MapCarrier{"traceparent": text}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	out := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, out)
	return out["traceparent"]
}

func TestATraceparentIsReadAsTheStandardSays(t *testing.T) {
	for text, want := range map[string]string{
		parent:                      parent,
		parent[:53] + "00":          parent[:53] + "00",
		parent[:53] + "03":          parent, // what the flag says that is not known is not passed on
		"cc" + parent[2:] + "-more": parent,
		"cc" + parent[2:]:           parent,
		"":                          "",
		parent + "-more":            "",
		"ff" + parent[2:]:           "",
		strings.ToUpper(parent):     "",
		parent[:54]:                 "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		strings.ReplaceAll(parent, "-", "_"):                      "",
		strings.Repeat("x", 1<<20):                                "",
	} {
		if got := tracing.Clean(text); got != want {
			t.Errorf("%.80q became %q, wanted %q", text, got, want)
		}
	}
}

// A malformed traceparent is ignored: whatever comes, the context is as it was or under what the standard reads in it.
func FuzzTraceparent(f *testing.F) {
	for _, seed := range []string{parent, "", "00-", parent + "-", "ff" + parent[2:], "01" + parent[2:] + "-x", strings.ToUpper(parent)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ctx := tracing.From(t.Context(), text)
		got, want := tracing.Parent(ctx), standard(text)
		if got != tracing.Clean(text) || len(got) != 0 && len(got) != 55 {
			t.Fatalf("%q: the context is under %q, cleaned it is %q", text, got, tracing.Clean(text))
		}
		if got != "" && want != "" && got[:53] != want[:53] {
			t.Fatalf("%q is %q here and %q by the library", text, got, want)
		}
		// The library takes less of the flags, and more behind a version 00.
		if len(text) == 55 && strings.HasPrefix(text, "00") && (got == "") != (want == "") && strings.HasPrefix(text[53:], "0") && text[54] < '3' {
			t.Fatalf("%q is %q here and %q by the library", text, got, want)
		}
	})
}

// Without a tracer nothing is begun and nothing allocated, and what came in goes out.
func TestWithoutATracerTheTraceIsPassedOn(t *testing.T) {
	var off tracing.Tracer
	ctx := tracing.From(t.Context(), parent)
	inner, span := off.Start(ctx, "anything")
	if got := tracing.Parent(inner); got != parent || span.IsRecording() {
		t.Errorf("it goes on under %q, recording: %v", got, span.IsRecording())
	}
	if n := testing.AllocsPerRun(100, func() {
		_, s := off.Start(ctx, "anything")
		s.End()
	}); n != 0 {
		t.Errorf("a span that is not begun allocates %v times", n)
	}
	plain := t.Context()
	if tracing.From(plain, "") != plain || tracing.From(plain, "nonsense") != plain {
		t.Error("a context without a traceparent, or with a malformed one, is another one")
	}
}

func TestALineHasTheIDsThatItsContextKnows(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(tracing.Handler(slog.NewJSONHandler(&out, nil)))
	line := func(say func()) map[string]any {
		t.Helper()
		out.Reset()
		say()
		var fields map[string]any
		if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "time")
		return fields
	}
	ctx := tracing.With(tracing.From(t.Context(), parent), tracing.Fields{Request: "r1", Command: "c1"})
	ctx = tracing.With(ctx, tracing.Fields{Run: "run1", Command: "c2"})
	got := line(func() { log.InfoContext(ctx, "x") })
	for name, want := range map[string]string{
		"trace_id": parent[3:35], "span_id": parent[36:52], "request_id": "r1", "run": "run1", "command": "c2",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, wanted %s", name, got[name], want)
		}
	}
	if got := line(func() { log.InfoContext(ctx, "x", "run", "its own") }); got["run"] != "its own" || strings.Count(out.String(), `"run"`) != 1 {
		t.Errorf("a line that says its run itself: %s", out.String())
	}
	if line(func() { log.With("run", "every line's").InfoContext(ctx, "x") }); strings.Count(out.String(), `"run"`) != 1 {
		t.Errorf("a log that says its run itself: %s", out.String())
	}
	if got := line(func() { log.InfoContext(t.Context(), "x") }); len(got) != 2 {
		t.Errorf("a line whose context knows nothing: %v", got)
	}
	detached := tracing.Detach(t.Context(), ctx)
	if got := line(func() { log.InfoContext(detached, "x") }); got["trace_id"] != parent[3:35] || got["run"] != "run1" {
		t.Errorf("a line of what goes on: %v", got)
	}
}
