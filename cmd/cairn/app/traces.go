package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/cairnhq/cairn/cmd/cairn/sampling"
	"github.com/cairnhq/cairn/streams/tracing"
)

// lastSpansWithin is how long the end of a process waits for the collector to take what is left.
const lastSpansWithin = 2 * time.Second

// openTraces begins to export spans, where a collector is configured. Without one nothing is traced, and what arrives is
// passed on.
func (a *App) openTraces(ctx context.Context) error {
	if a.config.OTLPEndpoint == "" {
		return nil
	}
	endpoint, err := tracesURL(a.config.OTLPEndpoint)
	if err != nil {
		return err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return fmt.Errorf("export traces: %w", err)
	}
	// What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes over what is said here.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "cairn"), attribute.String("service.version", a.version),
		attribute.StringSlice("cairn.roles", a.config.Roles)), resource.WithFromEnv())
	if err != nil {
		return fmt.Errorf("export traces: what this process is: %w", err)
	}
	sampler, err := sampling.New(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSampler(sampler), sdktrace.WithBatcher(&exporting{SpanExporter: exporter, log: a.log}))
	a.provider, a.tracer = provider, tracing.New(provider)
	a.life.closing("traces", func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpansWithin)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			a.log.Warn("the last spans were not exported", "error", err)
		}
	})
	return nil
}

// tracesURL is where spans go: the endpoint, below it the path of OTLP where it has none.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("CAIRN_OTLP_ENDPOINT is %q: give the collector's address, such as http://127.0.0.1:4318", endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// exporting says once that the collector does not take spans, and once that it does again. What it did not take is lost,
// and nobody waits for it.
type exporting struct {
	sdktrace.SpanExporter
	log *slog.Logger

	mu     sync.Mutex
	failed bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch failed := err != nil; {
	case failed && !e.failed && !errors.Is(err, context.Canceled):
		e.log.Warn("the collector does not take spans: they are lost until it does", "spans", len(spans), "error", err)
		e.failed = true
	case !failed && e.failed:
		e.log.Info("the collector takes spans again")
		e.failed = false
	}
	return nil
}

// traced begins a span for each request, under the one that the caller names. Health is asked about each second, and is not
// worth one; a socket lasts for hours, and has one for each of its requests instead.
func (a *App) traced(handler http.Handler) http.Handler {
	if a.provider == nil {
		return passingOn(handler)
	}
	inner := http.HandlerFunc(func(w http.ResponseWriter, seen *http.Request) {
		r, ok := seen.Context().Value(asItCame{}).(*http.Request)
		if !ok {
			r = seen
		}
		handler.ServeHTTP(w, r.WithContext(seen.Context()))
	})
	spans := otelhttp.NewHandler(inner, "HTTP", otelhttp.WithTracerProvider(a.provider), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithSpanNameFormatter(func(operation string, _ *http.Request) string { return operation }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			handler.ServeHTTP(w, r)
			return
		}
		spans.ServeHTTP(w, shown(r))
	})
}

// asItCame is where a request's context has the request itself.
type asItCame struct{}

// shown is what a span may see of a request: how it is asked, and its trace. Its address says where somebody is, its path
// may hold what they wrote; the handler names the span by the route.
func shown(r *http.Request) *http.Request {
	seen := r.WithContext(context.WithValue(r.Context(), asItCame{}, r))
	seen.URL, seen.RemoteAddr, seen.RequestURI, seen.Pattern = &url.URL{}, "", "", ""
	seen.Header = http.Header{}
	if parent := r.Header.Get(tracing.Header); parent != "" {
		seen.Header.Set(tracing.Header, parent)
	}
	return seen
}

// passingOn puts a request under the trace that its caller names.
func passingOn(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parent := r.Header.Get(tracing.Header); parent != "" {
			r = r.WithContext(tracing.From(r.Context(), parent))
		}
		handler.ServeHTTP(w, r)
	})
}
