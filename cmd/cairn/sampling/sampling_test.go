package sampling_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairnhq/cairn/cmd/cairn/sampling"
	"github.com/cairnhq/cairn/streams/tracing"
)

const (
	recorded = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	left     = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func TestWhichTracesAreRecorded(t *testing.T) {
	for _, c := range []struct {
		name, share                   string
		begun, followed, unfollowed   bool // a trace that begins here; one that somebody records; one that nobody does
		linked, linkedToWhatIsLeftOut bool
	}{
		{"", "", true, true, false, true, true},
		{"parentbased_always_on", "0.1", true, true, false, true, true},
		{"parentbased_traceidratio", "0", false, true, false, true, false},
		{"parentbased_traceidratio", "1", true, true, false, true, true},
		{"parentbased_always_off", "", false, true, false, true, false},
		{"always_on", "", true, true, true, true, true},
		{"traceidratio", "0", false, false, false, true, false},
		{"always_off", "", false, false, false, false, false},
	} {
		t.Run(c.name+c.share, func(t *testing.T) {
			s, err := sampling.New(c.name, c.share)
			if err != nil {
				t.Fatal(err)
			}
			tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSampler(s)))
			is := func(ctx context.Context, options ...trace.SpanStartOption) bool {
				_, span := tracer.Start(ctx, "x", options...)
				defer span.End()
				return span.SpanContext().IsSampled()
			}
			// Links leaves out what nobody records.
			unrecorded := trace.Link{SpanContext: trace.SpanContextFromContext(tracing.From(t.Context(), left))}
			for what, got := range map[string][2]bool{
				"begun":                        {is(t.Context()), c.begun},
				"followed":                     {is(tracing.From(t.Context(), recorded)), c.followed},
				"not followed":                 {is(tracing.From(t.Context(), left)), c.unfollowed},
				"linked":                       {is(t.Context(), trace.WithLinks(tracing.Links([]string{recorded, left, "nonsense"})...)), c.linked},
				"linked to what is left out":   {is(t.Context(), trace.WithLinks(unrecorded)), c.linkedToWhatIsLeftOut},
				"linked, in one that is not":   {is(tracing.From(t.Context(), left), trace.WithLinks(tracing.Links([]string{recorded})...)), c.unfollowed},
				"linked, in one that is, here": {is(tracing.From(t.Context(), recorded), trace.WithLinks(unrecorded)), c.followed},
			} {
				if got[0] != got[1] {
					t.Errorf("%s: recorded is %v", what, got[0])
				}
			}
		})
	}
	for _, wrong := range [][2]string{{"sometimes", ""}, {"traceidratio", "2"}, {"traceidratio", "-1"}, {"traceidratio", "NaN"}, {"", "x"}} {
		if _, err := sampling.New(wrong[0], wrong[1]); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}
