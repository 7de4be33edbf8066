package telemetry_test

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/cold/dir"
	"github.com/tierd/tierd/internal/telemetry"
	"github.com/tierd/tierd/tiering"
)

// A wrapped tier must pass the suite that the bare one passes.

// traced returns a Telemetry that makes spans and sends them nowhere.
func traced(t testing.TB) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New(telemetry.Options{NoRuntime: true, TracerProvider: sdktrace.NewTracerProvider()})
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func TestWrappedBucketConforms(t *testing.T) {
	tel := traced(t)
	coldtest.Run(t, coldtest.Harness{Many: 100, New: func(t *testing.T) func() (cold.Bucket, error) {
		path := t.TempDir()
		return func() (cold.Bucket, error) {
			b, err := dir.Open(path, nil)
			if err != nil {
				return nil, err
			}
			return tel.Bucket(b, tiering.Primary), nil
		}
	}})
}
