package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// op measures one method of one tier. Its series are looked up once, so that
// a call pays for two clock readings and one observation.
type op struct {
	tracer  trace.Tracer // nil: no spans
	name    string       // of the span: tier.op
	start   []trace.SpanStartOption
	latency prometheus.Observer
	errors  *prometheus.CounterVec // by code
}

// op makes the measure of a method of a tier; copyName is "" except for cold.
func (t *Telemetry) op(tier tiering.Tier, copyName, name string) *op {
	attrs := []attribute.KeyValue{attribute.String("tierd.tier", string(tier))}
	if copyName != "" {
		attrs = append(attrs, attribute.String("tierd.copy", copyName))
	}
	return &op{
		tracer:  t.tracer,
		name:    string(tier) + "." + name,
		start:   []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...)},
		latency: t.m.callDuration.WithLabelValues(string(tier), copyName, name),
		errors:  t.m.callErrors.MustCurryWith(prometheus.Labels{"tier": string(tier), "copy": copyName, "op": name}),
	}
}

// call is one running call.
type call struct {
	op    *op
	began time.Time
	span  trace.Span // nil: not traced
}

// begin starts a call. The context carries its span to the driver.
func (o *op) begin(ctx context.Context) (context.Context, call) {
	c := call{op: o}
	if o.tracer != nil {
		ctx, c.span = o.tracer.Start(ctx, o.name, o.start...) //nolint:spancheck // end ends it
	}
	c.began = time.Now()
	return ctx, c
}

// end finishes the call with its error, and with attributes that were not
// known before.
func (c call) end(err error, attrs ...attribute.KeyValue) {
	c.op.latency.Observe(time.Since(c.began).Seconds())
	code := ""
	if err != nil {
		code = codeOf(err)
		c.op.errors.WithLabelValues(code).Inc()
	}
	if c.span != nil {
		c.span.SetAttributes(attrs...)
		endSpan(c.span, code, err)
	}
}

// endSpan ends a span with the outcome. The text of an error may quote what a
// user stored or asked for, so a span gets the type of the cause in its place.
func endSpan(span trace.Span, code string, err error) {
	if err != nil {
		span.SetAttributes(attribute.String("tierd.code", code))
		if code != codeNotFound && code != codeExists {
			span.SetStatus(codes.Error, fmt.Sprintf("%s: %T", code, cause(err)))
		}
	}
	span.End()
}

// cause returns the innermost error.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Codes of errors that have none of tiering's.
const (
	codeNotFound = string(tiering.CodeNotFound)
	codeExists   = "exists"
	codeUnknown  = "outcome_unknown"
	codeCanceled = "canceled"
	codeDeadline = "deadline"
	codeShort    = "truncated"
	codeOther    = "other"
)

// codeOf sorts an error into a closed set, for a label.
func codeOf(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return codeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return codeDeadline
	case errors.Is(err, cold.ErrNotExist):
		return codeNotFound
	case errors.Is(err, cold.ErrExist):
		return codeExists
	case errors.Is(err, warm.ErrOutcomeUnknown):
		return codeUnknown
	case errors.Is(err, io.ErrUnexpectedEOF):
		return codeShort
	}
	if c := tiering.CodeOf(err); c != "" {
		return string(c)
	}
	return codeOther
}
