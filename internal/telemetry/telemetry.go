// Package telemetry measures a node from outside: it wraps the tiers, and it
// implements the recorders that the router, the lifecycle and the server ask
// for. Nothing it wraps knows of metrics or spans.
//
// Everything belongs to one Telemetry: there is no global registry and no
// global tracer, so two nodes in one process do not mix. docs/METRICS.md
// describes every metric and span; a test keeps it true.
//
// Labels are bounded: tier, copy, op, code, move, route. A tenant, a namespace
// or an id is never a label.
package telemetry

import (
	"fmt"
	"net/http"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
)

// scope names this instrumentation in traces.
const scope = "github.com/tierd/tierd"

// Options shapes a Telemetry. The zero value measures everything and traces
// nothing.
type Options struct {
	// Version of the program, for tierd_build_info; "" means what the Go
	// toolchain recorded.
	Version string
	// TracerProvider receives spans; nil means none are made. OTLP returns one.
	// Whoever made it shuts it down.
	TracerProvider trace.TracerProvider
	// NoRuntime leaves out the metrics of the Go runtime and the process.
	NoRuntime bool
}

// Telemetry owns the metrics of one node. Make it with New. Its methods, and
// everything it returns, are safe for concurrent use.
type Telemetry struct {
	registry *prometheus.Registry
	tracer   trace.Tracer // nil: no spans
	m        *metrics
}

// New returns a Telemetry with a registry of its own. It fails only when the
// metrics contradict each other, which a test rules out.
func New(o Options) (*Telemetry, error) {
	t := &Telemetry{registry: prometheus.NewRegistry(), m: newMetrics()}
	if o.TracerProvider != nil {
		t.tracer = o.TracerProvider.Tracer(scope)
	}
	cs := append(t.m.all(), buildInfo(o.Version))
	if !o.NoRuntime {
		cs = append(cs,
			// What the last collection left in the heap: the other sizes of the heap
			// move with the collector's phase.
			collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)})),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		)
	}
	for _, c := range cs {
		if err := t.registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return t, nil
}

// Handler serves the metrics in the Prometheus text formats, compressed when
// the client takes it. A metric that cannot be collected is left out; the
// others are served.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
}

// Gatherer gives the metrics to a program that embeds a node and serves them
// with its own.
func (t *Telemetry) Gatherer() prometheus.Gatherer { return t.registry }
