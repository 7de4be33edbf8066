package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tierd/tierd/tiering"
)

// Router takes the measurements of the request path: it is the Recorder that
// the router asks for. Its methods do not block.
type Router struct {
	tracer                trace.Tracer
	m                     *metrics
	hot, warm, cold, none prometheus.Observer // loads, by tier
	hit, miss             prometheus.Counter
}

// Router returns the recorder of the request path.
func (t *Telemetry) Router() *Router {
	load := func(tier string) prometheus.Observer { return t.m.loadDuration.WithLabelValues(tier) }
	return &Router{
		tracer: t.tracer, m: t.m,
		hot: load("hot"), warm: load("warm"), cold: load("cold"), none: load("none"),
		hit: t.m.hotLookups.WithLabelValues("hit"), miss: t.m.hotLookups.WithLabelValues("miss"),
	}
}

// Load records one document read by the tier that served it, "" for a default;
// with an error nothing was served and only the error counts.
func (r *Router) Load(tier tiering.Tier, took time.Duration, err error) {
	if err != nil {
		r.m.loadErrors.WithLabelValues(codeOf(err)).Inc()
		return
	}
	o := r.none
	switch tier {
	case tiering.Hot:
		o = r.hot
	case tiering.Warm:
		o = r.warm
	case tiering.Cold:
		o = r.cold
	}
	o.Observe(took.Seconds())
}

// Corrupt records a copy whose bytes did not match their digest.
func (r *Router) Corrupt(tier tiering.Tier) {
	r.m.corruptLoads.WithLabelValues(string(tier)).Inc()
}

// HotLookup records a look into hot by a cached get.
func (r *Router) HotLookup(hit bool) {
	if hit {
		r.hit.Inc()
		return
	}
	r.miss.Inc()
}

// HotMissed records a committed write that hot did not take.
func (r *Router) HotMissed() { r.m.hotWritesMissed.Inc() }

// StateSize records the size of a document written; warned says that it is
// above its namespace's warning size.
func (r *Router) StateSize(bytes int64, warned bool) {
	r.m.stateSize.Observe(float64(bytes))
	if warned {
		r.m.sizeWarnings.Inc()
	}
}

// Batch records the rows of one commit of warm.
func (r *Router) Batch(rows int) { r.m.batchRows.Observe(float64(rows)) }

// SummaryCall records one request to the chat server that makes summaries.
func (r *Router) SummaryCall(took time.Duration, err error) {
	if err != nil {
		r.m.summaryErrors.WithLabelValues(codeOf(err)).Inc()
	}
	r.m.summaryDuration.Observe(took.Seconds())
}

// ContextSummary records the kind of summary that a context holds.
func (r *Router) ContextSummary(kind string) { r.m.contextSummaries.WithLabelValues(kind).Inc() }

// Commit starts the span of one key's write; op is the verb, from a closed set.
// The function returned ends it, once, with the version made and the states
// under the policy's status_pointer, "" where there is none.
func (r *Router) Commit(ctx context.Context, op string, key tiering.Key) (context.Context, func(version int64, from, to string, err error)) {
	began := time.Now()
	var span trace.Span
	if r.tracer != nil {
		ctx, span = r.tracer.Start(ctx, spanCommit, trace.WithAttributes(
			attribute.String("tierd.op", op),
			attribute.String("entity.id", key.String()),
		))
	}
	return ctx, func(version int64, from, to string, err error) {
		r.m.writeDuration.WithLabelValues(op).Observe(time.Since(began).Seconds())
		code := ""
		if err != nil {
			code = codeOf(err)
			r.m.writeErrors.WithLabelValues(op, code).Inc()
		}
		if span != nil {
			span.SetAttributes(outcome(version, from, to)...)
			endSpan(span, code, err)
		}
	}
}

// spanCommit is the span around one key's write.
const spanCommit = "tierd.commit"

func outcome(version int64, from, to string) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if version != 0 {
		attrs = append(attrs, attribute.Int64("version", version))
	}
	if from != "" {
		attrs = append(attrs, attribute.String("state.from", from))
	}
	if to != "" {
		attrs = append(attrs, attribute.String("state.to", to))
	}
	return attrs
}
