package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/warm"
)

// traced returns a Telemetry without runtime metrics, and what it traced.
func traced(t *testing.T) (*Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tel, err := New(Options{
		NoRuntime:      true,
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tel, spans
}

func gather(t *testing.T, tel *Telemetry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := tel.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// value finds one series, written name{label="value",...} with labels in name
// order, and returns its value: of a histogram how often it was observed.
func value(t *testing.T, tel *Telemetry, series string) float64 {
	t.Helper()
	for name, f := range gather(t, tel) {
		for _, m := range f.GetMetric() {
			if seriesName(name, m) != series {
				continue
			}
			switch {
			case m.Histogram != nil:
				return float64(m.GetHistogram().GetSampleCount())
			case m.Counter != nil:
				return m.GetCounter().GetValue()
			}
			return m.GetGauge().GetValue()
		}
	}
	return 0
}

func seriesName(name string, m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		if l.GetValue() != "" {
			labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

func TestSeries(t *testing.T) {
	refused := errors.New("connection refused")
	conflict := tiering.Errorf(tiering.CodeVersionConflict, "version 3 stands")
	ctx := t.Context()
	tests := []struct {
		name   string
		do     func(*Telemetry)
		series string
		want   float64
	}{
		{"a call of hot is timed", func(tel *Telemetry) { _, _ = tel.Hot(stubHot{}).Get(ctx, tiering.Key{}, false) }, `tierd_tier_call_duration_seconds{op="get",tier="hot"}`, 1},
		{"calls that go together are timed each", func(tel *Telemetry) {
			tel.Hot(stubHot{}).(hot.Batcher).Together(ctx, []hot.Step{{Act: hot.ToMark}, {Act: hot.ToSet}, {Act: hot.ToMark}})
		}, `tierd_tier_call_duration_seconds{op="mark",tier="hot"}`, 2},
		{"a failed call is timed too", func(tel *Telemetry) { _, _ = tel.Hot(stubHot{err: refused}).Get(ctx, tiering.Key{}, false) }, `tierd_tier_call_duration_seconds{op="get",tier="hot"}`, 1},
		{"a failed call counts by code", func(tel *Telemetry) { _, _ = tel.Hot(stubHot{err: refused}).Get(ctx, tiering.Key{}, false) }, `tierd_tier_call_errors_total{code="other",op="get",tier="hot"}`, 1},
		{"a good call counts no error", func(tel *Telemetry) { _, _ = tel.Hot(stubHot{}).Get(ctx, tiering.Key{}, false) }, `tierd_tier_call_errors_total{code="other",op="get",tier="hot"}`, 0},
		{"an unknown outcome has a code of its own", func(tel *Telemetry) {
			_, _ = tel.Warm(stubWarm{err: fmt.Errorf("cut: %w", warm.ErrOutcomeUnknown)}).Commit(ctx, &warm.Batch{})
		}, `tierd_tier_call_errors_total{code="outcome_unknown",op="commit",tier="warm"}`, 1},
		{"the copies of cold are told apart", func(tel *Telemetry) {
			_ = tel.Bucket(stubBucket{}, tiering.Primary).Ping(ctx)
			_ = tel.Bucket(stubBucket{}, tiering.Backup).Ping(ctx)
		}, `tierd_tier_call_duration_seconds{copy="backup",op="ping",tier="cold"}`, 1},
		{"bytes written to cold", func(tel *Telemetry) { _ = tel.Bucket(stubBucket{}, tiering.Primary).Create(ctx, "o", nil, 70) }, `tierd_cold_bytes_total{copy="primary",direction="write"}`, 70},
		{"a failed write moved no bytes", func(tel *Telemetry) {
			_ = tel.Bucket(stubBucket{err: refused}, tiering.Primary).Create(ctx, "o", nil, 70)
		}, `tierd_cold_bytes_total{copy="primary",direction="write"}`, 0},
		{"bytes read from cold", func(tel *Telemetry) { _, _ = tel.Bucket(stubBucket{}, tiering.Backup).Read(ctx, "o", 0, 50) }, `tierd_cold_bytes_total{copy="backup",direction="read"}`, 50},
		{"a listing that breaks off counts once", func(tel *Telemetry) {
			for range tel.Bucket(stubBucket{err: refused}, tiering.Primary).List(ctx, "") {
				continue
			}
		}, `tierd_tier_call_errors_total{code="other",copy="primary",op="list",tier="cold"}`, 1},
		{"a listing that its reader leaves ends", func(tel *Telemetry) {
			for range tel.Bucket(stubBucket{err: refused}, tiering.Primary).List(ctx, "") {
				break
			}
		}, `tierd_tier_call_duration_seconds{copy="primary",op="list",tier="cold"}`, 1},
		{"a load by the tier that served it", func(tel *Telemetry) { tel.Router().Load(tiering.Cold, time.Second, nil) }, `tierd_load_duration_seconds{tier="cold"}`, 1},
		{"a default was served by no tier", func(tel *Telemetry) { tel.Router().Load("", time.Second, nil) }, `tierd_load_duration_seconds{tier="none"}`, 1},
		{"a load that served nothing is not timed", func(tel *Telemetry) { tel.Router().Load(tiering.Warm, time.Second, tiering.ErrNotFound) }, `tierd_load_duration_seconds{tier="warm"}`, 0},
		{"a load that served nothing counts by code", func(tel *Telemetry) { tel.Router().Load(tiering.Warm, time.Second, tiering.ErrNotFound) }, `tierd_load_errors_total{code="not_found"}`, 1},
		{"a corrupt copy", func(tel *Telemetry) { tel.Router().Corrupt(tiering.Cold) }, `tierd_corrupt_loads_total{tier="cold"}`, 1},
		{"a hit", func(tel *Telemetry) { tel.Router().HotLookup(true) }, `tierd_hot_lookups_total{outcome="hit"}`, 1},
		{"a miss", func(tel *Telemetry) { tel.Router().HotLookup(false) }, `tierd_hot_lookups_total{outcome="miss"}`, 1},
		{"a write that hot missed", func(tel *Telemetry) { tel.Router().HotMissed() }, `tierd_hot_writes_missed_total{}`, 1},
		{"a size within bounds warns nobody", func(tel *Telemetry) { tel.Router().StateSize(10, false) }, `tierd_size_warnings_total{}`, 0},
		{"a size above bounds warns", func(tel *Telemetry) { tel.Router().StateSize(10, true) }, `tierd_size_warnings_total{}`, 1},
		{"a batch", func(tel *Telemetry) { tel.Router().Batch(64) }, `tierd_commit_batch_rows{}`, 1},
		{"a write that lost", func(tel *Telemetry) {
			_, end := tel.Router().Commit(ctx, "put", tiering.Key{})
			end(0, "", "", conflict)
		}, `tierd_write_errors_total{code="version_conflict",op="put"}`, 1},
		{"the archive's age in seconds", func(tel *Telemetry) { tel.Lifecycle().ArchiveLag(2, 90*time.Second) }, `tierd_archive_lag_seconds{}`, 90},
		{"segments without a backup", func(tel *Telemetry) { tel.Lifecycle().MissingCopies(tiering.Backup, 3) }, `tierd_missing_copies{copy="backup"}`, 3},
		{"vectors that are not merged yet", func(tel *Telemetry) { tel.Lifecycle().Indexed(vector.Stats{Vectors: 5, Fresh: 2}, 0) }, `tierd_vectors{state="fresh"}`, 2},
		{"memories without their vector", func(tel *Telemetry) { tel.Lifecycle().Indexed(vector.Stats{}, 7) }, `tierd_vectors_pending{}`, 7},
		{"a move done", func(tel *Telemetry) { tel.Lifecycle().Moved(tiering.MoveDemote, true, nil) }, `tierd_moves_total{move="demote",outcome="done"}`, 1},
		{"a move overtaken", func(tel *Telemetry) { tel.Lifecycle().Moved(tiering.MoveDemote, false, nil) }, `tierd_moves_total{move="demote",outcome="moved_on"}`, 1},
		{"a move failed", func(tel *Telemetry) { tel.Lifecycle().Moved(tiering.MoveRetire, false, refused) }, `tierd_moves_total{move="retire",outcome="other"}`, 1},
		{"a request", func(tel *Telemetry) { tel.Server().Request("PUT /v1/x", "PUT", 201, 0) }, `tierd_http_requests_total{method="PUT",route="PUT /v1/x",status="201"}`, 1},
		{"a made-up method", func(tel *Telemetry) { tel.Server().Request("", "HACK", 405, 0) }, `tierd_http_requests_total{method="other",status="405"}`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tel, _ := traced(t)
			tt.do(tel)
			if got := value(t, tel, tt.series); got != tt.want {
				t.Errorf("%s = %v, want %v", tt.series, got, tt.want)
			}
		})
	}
}

func TestCodeOf(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{fmt.Errorf("get: %w", cold.ErrNotExist), "not_found"},
		{cold.ErrExist, "exists"},
		{tiering.Wrap(context.Canceled, "get", tiering.Warm, tiering.Key{}), "canceled"},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), "deadline"},
		{io.ErrUnexpectedEOF, "truncated"},
		{tiering.ErrCorrupt, "corrupt"},
		{tiering.Wrap(errors.New("refused"), "get", tiering.Warm, tiering.Key{}), "unavailable"},
		{errors.New("anything, with a tenant's data in it"), "other"},
	}
	for _, tt := range tests {
		if got := codeOf(tt.err); got != tt.want {
			t.Errorf("codeOf(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestResultsPassThrough(t *testing.T) {
	tel, _ := traced(t)
	h := tel.Hot(stubHot{})
	if l, err := h.Get(t.Context(), tiering.Key{}, false); err != nil || l.State != hot.Deleted {
		t.Errorf("Get = %v, %v", l, err)
	}
	boom := errors.New("boom")
	if _, err := tel.Warm(stubWarm{err: boom}).Load(t.Context(), tiering.Key{}); err != boom { //nolint:errorlint // the very error
		t.Errorf("Load's error = %v, want it unwrapped", err)
	}
	if u, ok := h.(interface{ Unwrap() hot.Store }); !ok || u.Unwrap() != (stubHot{}) {
		t.Error("the store within cannot be had back")
	}
}

// finds is a stub that answers a version and its places in one look-up.
type finds struct{ stubWarm }

func (finds) Find(_ context.Context, _ tiering.Key, version int64) (warm.Version, bool, []tiering.Location, error) {
	return warm.Version{Version: version}, true, nil, nil
}

// A power that a store may have is kept, and no store gains one.
func TestAFinderIsMeasuredAndStaysOne(t *testing.T) {
	tel, _ := traced(t)
	if _, ok := tel.Warm(stubWarm{}).(warm.Finder); ok {
		t.Error("a store that is no Finder became one")
	}
	s, ok := tel.Warm(finds{}).(warm.Finder)
	if !ok {
		t.Fatal("a Finder is none any more: what it answers at once would be asked for twice")
	}
	if v, ok, _, err := s.Find(t.Context(), tiering.Key{}, 7); err != nil || !ok || v.Version != 7 {
		t.Errorf("Find = %+v, %v, %v", v, ok, err)
	}
	if n := value(t, tel, `tierd_tier_call_duration_seconds{op="version",tier="warm"}`); n != 1 {
		t.Errorf("%v look-ups of a version were measured", n)
	}
}

func TestSpans(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name   string
		do     func(context.Context, *Telemetry)
		span   string
		attrs  map[string]string
		status codes.Code
	}{
		{
			"a commit of warm says how many rows it carried",
			func(ctx context.Context, tel *Telemetry) {
				_, _ = tel.Warm(stubWarm{}).Commit(ctx, &warm.Batch{Changes: []warm.Change{{Rows: make([]warm.Row, 2)}, {Rows: make([]warm.Row, 3)}}})
			},
			"warm.commit", map[string]string{"tierd.tier": "warm", "tierd.batch.size": "5"}, codes.Unset,
		},
		{
			"a failure is an error of the span",
			func(ctx context.Context, tel *Telemetry) { _ = tel.Hot(stubHot{err: boom}).Ping(ctx) },
			"hot.ping", map[string]string{"tierd.tier": "hot", "tierd.code": "other"}, codes.Error,
		},
		{
			"absence is an answer, not an error",
			func(ctx context.Context, tel *Telemetry) {
				_, _ = tel.Bucket(stubBucket{err: cold.ErrNotExist}, tiering.Backup).Stat(ctx, "seg/1")
			},
			"cold.stat", map[string]string{"tierd.tier": "cold", "tierd.copy": "backup", "tierd.object": "seg/1", "tierd.code": "not_found"}, codes.Unset,
		},
		{
			"a write names the entity and the states it moved between",
			func(ctx context.Context, tel *Telemetry) {
				_, end := tel.Router().Commit(ctx, "patch", tiering.Key{Tenant: "t", Namespace: "orders", ID: "7"})
				end(12, "open", "paid", nil)
			},
			"tierd.commit", map[string]string{"tierd.op": "patch", "entity.id": "orders/7", "version": "12", "state.from": "open", "state.to": "paid"}, codes.Unset,
		},
		{
			"a write without states carries none",
			func(ctx context.Context, tel *Telemetry) {
				_, end := tel.Router().Commit(ctx, "put", tiering.Key{Namespace: "a", ID: "b"})
				end(0, "", "", tiering.ErrVersionConflict)
			},
			"tierd.commit", map[string]string{"tierd.op": "put", "entity.id": "a/b", "tierd.code": "version_conflict"}, codes.Error,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tel, spans := traced(t)
			tt.do(t.Context(), tel)
			ended := spans.Ended()
			if len(ended) != 1 || ended[0].Name() != tt.span {
				t.Fatalf("spans = %v, want one %s", ended, tt.span)
			}
			got := map[string]string{}
			for _, a := range ended[0].Attributes() {
				got[string(a.Key)] = a.Value.String()
			}
			if !maps.Equal(got, tt.attrs) {
				t.Errorf("attributes = %v, want %v", got, tt.attrs)
			}
			if ended[0].Status().Code != tt.status {
				t.Errorf("status = %v, want %v", ended[0].Status(), tt.status)
			}
		})
	}
}

// parentSeen is a hot store that opens a span of its own, as a driver's client
// library would.
type parentSeen struct {
	hot.Store
	tp *sdktrace.TracerProvider
}

func (p parentSeen) Ping(ctx context.Context) error {
	_, s := p.tp.Tracer("driver").Start(ctx, "driver")
	s.End()
	return nil
}

// The text of an error may quote a document or a filter.
func TestSpansDoNotQuoteErrors(t *testing.T) {
	tel, spans := traced(t)
	secret := errors.New("invalid input: 'a user's words'")
	callAll(t.Context(), tel, fmt.Errorf("query: %w", secret))
	for _, s := range spans.Ended() {
		text := s.Status().Description + fmt.Sprint(s.Attributes(), s.Events())
		if strings.Contains(text, "words") {
			t.Errorf("%s quotes the error: %s", s.Name(), text)
		}
		if s.Status().Description != "other: *errors.errorString" {
			t.Errorf("%s: status %q does not tell the cause's type", s.Name(), s.Status().Description)
		}
	}
}

func TestSpansNest(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	tel, err := New(Options{TracerProvider: tp, NoRuntime: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := tel.Router().Commit(t.Context(), "put", tiering.Key{})
	_ = tel.Hot(parentSeen{tp: tp}).Ping(ctx)
	end(1, "", "", nil)

	parent := map[string]string{} // span -> name of its parent
	names := map[string]string{}
	for _, s := range spans.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range spans.Ended() {
		parent[s.Name()] = names[s.Parent().SpanID().String()]
	}
	want := map[string]string{"driver": "hot.ping", "hot.ping": "tierd.commit", "tierd.commit": ""}
	if !maps.Equal(parent, want) {
		t.Errorf("parents = %v, want %v", parent, want)
	}
}

func TestNoSpansWithoutProvider(t *testing.T) {
	tel, err := New(Options{NoRuntime: true})
	if err != nil {
		t.Fatal(err)
	}
	callAll(t.Context(), tel, nil)
	callAll(t.Context(), tel, errors.New("boom"))
	if got := value(t, tel, `tierd_tier_call_duration_seconds{op="commit",tier="warm"}`); got != 2 {
		t.Errorf("commits = %v, want 2: metrics do not need a tracer", got)
	}
}

func TestTwoNodesDoNotMix(t *testing.T) {
	a, _ := traced(t)
	b, _ := traced(t)
	a.Router().HotMissed()
	if got := value(t, b, `tierd_hot_writes_missed_total{}`); got != 0 {
		t.Errorf("the other node counts %v", got)
	}
}

// A label that users fill would make a series for each of them.
func TestLabelsAreBounded(t *testing.T) {
	allowed := []string{"tier", "copy", "op", "code", "direction", "outcome", "move", "state", "route", "method", "status", "version", "revision", "goversion"}
	tel, _ := traced(t)
	callAll(t.Context(), tel, errors.New("tenant-7 chat/a/b"))
	for name, f := range gather(t, tel) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(allowed, l.GetName()) {
					t.Errorf("%s has the label %s", name, l.GetName())
				}
				if strings.Contains(l.GetValue(), "chat") || strings.Contains(l.GetValue(), "tenant") {
					t.Errorf("%s carries user text: %s=%q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
}

func TestHandler(t *testing.T) {
	tel, err := New(Options{Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	tel.Router().HotLookup(true)
	rec := httptest.NewRecorder()
	tel.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d", rec.Code)
	}
	for _, want := range []string{`tierd_hot_lookups_total{outcome="hit"} 1`, `version="v1.2.3"`, "go_goroutines", "process_open_fds"} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
