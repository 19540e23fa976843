package tracing

import "go.opentelemetry.io/otel/trace"

// The parts of a traceparent of version 00 (W3C Trace Context, 3.2): version-traceid-spanid-flags.
const (
	traceFrom, traceTo = 3, 35
	spanFrom, spanTo   = 36, 52
	flagsFrom, length  = 53, 55
)

// parse reads a traceparent. A later version may go on after what this one knows.
func parse(text string) (trace.SpanContext, bool) {
	var none trace.SpanContext
	if len(text) < length || text[2] != '-' || text[traceTo] != '-' || text[spanTo] != '-' {
		return none, false
	}
	version, ok := octet(text[:2])
	if !ok || version == 0xff || version == 0 && len(text) != length || len(text) > length && text[length] != '-' {
		return none, false
	}
	flags, ok := octet(text[flagsFrom:length])
	if !ok {
		return none, false
	}
	id, err := trace.TraceIDFromHex(text[traceFrom:traceTo])
	if err != nil {
		return none, false
	}
	span, err := trace.SpanIDFromHex(text[spanFrom:spanTo])
	if err != nil {
		return none, false
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, Remote: true,
	}), true
}

// format is version 00, whichever it came in.
func format(at trace.SpanContext) string {
	if !at.IsValid() {
		return ""
	}
	id, span := at.TraceID(), at.SpanID()
	b := append(make([]byte, 0, length), "00-"...)
	b = appendHex(b, id[:])
	b = appendHex(append(b, '-'), span[:])
	b = appendHex(append(b, '-'), []byte{byte(at.TraceFlags() & trace.FlagsSampled)})
	return string(b)
}

const digits = "0123456789abcdef"

func appendHex(b, octets []byte) []byte {
	for _, o := range octets {
		b = append(b, digits[o>>4], digits[o&15])
	}
	return b
}

// octet reads two hexadecimal digits, which are lower case.
func octet(text string) (byte, bool) {
	high, ok := digit(text[0])
	low, also := digit(text[1])
	return high<<4 | low, ok && also
}

func digit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
