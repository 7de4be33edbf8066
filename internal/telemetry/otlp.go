package telemetry

import (
	"context"
	"fmt"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// OTLP returns a tracer provider that sends spans over HTTP to endpoint, the
// base URL of a collector as OTEL_EXPORTER_OTLP_ENDPOINT has it: spans go to
// v1/traces below it. The other OTEL_ variables (headers, timeout, sampler,
// service name, resource attributes) are read by the OpenTelemetry SDK itself.
//
// Spans are sent in batches in the background; a collector that is away costs
// spans and never a request. Shutdown sends what is left.
func OTLP(ctx context.Context, endpoint string) (*sdktrace.TracerProvider, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("OTLP endpoint: %w", err)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("OTLP endpoint %q: use http://host:port or https://host:port", u.Redacted())
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()))
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter: %w", err)
	}
	// Later options win, so the environment can name the service otherwise.
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "tierd")),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("OTLP resource: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res)), nil
}
