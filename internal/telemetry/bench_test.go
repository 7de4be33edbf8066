package telemetry

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// BenchmarkHotGet tells what wrapping costs: bare is a store that does nothing.
func BenchmarkHotGet(b *testing.B) {
	measured, err := New(Options{NoRuntime: true})
	if err != nil {
		b.Fatal(err)
	}
	provider := func(s sdktrace.Sampler) Options {
		return Options{NoRuntime: true, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(s))}
	}
	unsampled, err := New(provider(sdktrace.NeverSample()))
	if err != nil {
		b.Fatal(err)
	}
	sampled, err := New(provider(sdktrace.AlwaysSample()))
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name  string
		store hot.Store
	}{
		{"store=bare", stubHot{}},
		{"store=measured", measured.Hot(stubHot{})},
		{"store=measured/trace=unsampled", unsampled.Hot(stubHot{})},
		{"store=measured/trace=sampled", sampled.Hot(stubHot{})},
	} {
		b.Run(bb.name, func(b *testing.B) {
			ctx, key := context.Background(), tiering.Key{Tenant: "t", Namespace: "n", ID: "i"}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = bb.store.Get(ctx, key, true)
			}
		})
	}
}
