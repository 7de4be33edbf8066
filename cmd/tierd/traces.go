package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tierd/tierd/internal/telemetry"
)

// traces sends spans where OTEL_EXPORTER_OTLP_ENDPOINT says; nil sends none.
type traces struct{ sdk *sdktrace.TracerProvider }

func openTraces(ctx context.Context) (traces, error) {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" {
		return traces{}, nil
	}
	sdk, err := telemetry.OTLP(ctx, endpoint)
	if err != nil {
		return traces{}, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	return traces{sdk}, nil
}

func (t traces) provider() trace.TracerProvider {
	if t.sdk == nil {
		return nil
	}
	return t.sdk
}

// flushGrace is how long the last spans may take to be sent.
const flushGrace = 5 * time.Second

// shutdown sends what is left, last of all, so that closing the node is seen.
func (t traces) shutdown(log *slog.Logger) {
	if t.sdk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushGrace)
	defer cancel()
	if err := t.sdk.Shutdown(ctx); err != nil {
		log.Warn("the last spans were not sent", "err", err)
	}
}
