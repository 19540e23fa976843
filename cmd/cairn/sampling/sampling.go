// Package sampling says which traces are recorded, in the words of OpenTelemetry's settings. It records none.
package sampling

import (
	"fmt"
	"slices"
	"strconv"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// New is what OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG say. Traces that begin here are sampled; those that began elsewhere
// are recorded if their beginner does so, unless the sampler is none of the "parentbased" ones. Whatever it is, except where
// it is "off": a span that begins a trace of its own with links to recorded ones is recorded as well. What applies the
// commits of many at once belongs to each of them, and would else be missing from most.
func New(name, share string) (sdktrace.Sampler, error) {
	ratio := 1.0
	if share != "" {
		var err error
		if ratio, err = strconv.ParseFloat(share, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: give a share from 0 to 1, such as 0.1", share)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return linking{sdktrace.ParentBased(sdktrace.AlwaysSample())}, nil
	case "parentbased_traceidratio":
		return linking{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))}, nil
	case "parentbased_always_off":
		return linking{sdktrace.ParentBased(sdktrace.NeverSample())}, nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "traceidratio":
		return linking{sdktrace.TraceIDRatioBased(ratio)}, nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: it is always_on, always_off, traceidratio, or one of these after parentbased_", name)
}

type linking struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (l linking) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := l.Sampler.ShouldSample(p)
	begins := !trace.SpanContextFromContext(p.ParentContext).IsValid()
	if begins && slices.ContainsFunc(p.Links, func(l trace.Link) bool { return l.SpanContext.IsSampled() }) {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}
