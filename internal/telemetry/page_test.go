package telemetry

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/tierd/tierd/tiering"
)

var update = flag.Bool("update", false, "write docs/METRICS.md again")

const pagePath = "../../docs/METRICS.md"

// TestMetricsPage keeps docs/METRICS.md equal to what the registry holds and
// the wrappers trace.
func TestMetricsPage(t *testing.T) {
	want := page(t)
	if *update {
		if err := os.MkdirAll("../../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(pagePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/METRICS.md is not what the code says: run make docs")
	}
}

// TestEveryMetricIsOnThePage: the page is made of metrics that were used, so
// one that nothing in callAll uses would be missing from it.
func TestEveryMetricIsOnThePage(t *testing.T) {
	tel, _ := traced(t)
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		tel.registry.Describe(described)
	}()
	text := page(t)
	n := 0
	for d := range described {
		n++
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		if !strings.Contains(text, "| `"+name+"` |") {
			t.Errorf("%s is not on the page: use it in callAll", name)
		}
	}
	if n < 20 {
		t.Errorf("only %d metrics are described", n)
	}
}

func TestMetricNamesFollowTheConvention(t *testing.T) {
	problems, err := promlint.NewWithMetricFamilies(usedFamilies(t)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// usedFamilies is every metric after one call of everything, good and bad.
func usedFamilies(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	tel, _ := traced(t)
	callAll(t.Context(), tel, nil)
	callAll(t.Context(), tel, errors.New("boom"))
	families, err := tel.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func page(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Metrics and traces

Written by ` + "`make docs`" + ` from the code; ` + "`make docs-check`" + ` fails when they differ.

` + "`GET /metrics`" + ` serves the Prometheus text format. Beside the metrics below it serves those of the Go runtime
(` + "`go_*`" + `) and of the process (` + "`process_*`" + `). Labels are bounded: a tenant, a namespace or an id is never one.

| metric | type | unit | labels | what |
|---|---|---|---|---|
`)
	families := usedFamilies(t)
	for _, f := range families {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), unit(f), strings.Join(labelsOf(f), ", "), f.GetHelp())
	}
	b.WriteString("\nBuckets of the histograms, upper bounds:\n\n")
	for _, f := range families {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			fmt.Fprintf(&b, "- `%s`: %s\n", f.GetName(), boundsOf(f))
		}
	}
	b.WriteString(`
## Values of the labels

- ` + "`tier`" + `: hot, warm, cold. ` + "`copy`" + `: primary, backup.
- ` + "`op`" + ` of a tier's calls:
`)
	for _, tier := range []string{"hot", "warm", "cold"} {
		fmt.Fprintf(&b, "  - %s: %s\n", tier, strings.Join(opsOf(families, tier), ", "))
	}
	b.WriteString("- `code`: a code of the API (")
	for i, c := range tiering.Codes() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(c))
	}
	fmt.Fprintf(&b, "), or for an error without one: %s.\n",
		strings.Join([]string{codeExists, codeUnknown, codeCanceled, codeDeadline, codeShort, codeOther}, ", "))
	b.WriteString(`
## Traces

Spans are sent over OTLP/HTTP when ` + "`OTEL_EXPORTER_OTLP_ENDPOINT`" + ` is set (` + "`http://host:4318`" + `); the other
` + "`OTEL_`" + ` variables of the OpenTelemetry SDK apply. Every call of a tier is a span. One with an error carries
` + "`tierd.code`" + `; a failed one has the status error with the code and the type of the cause. Spans name keys and
objects, never content and never the text of an error, which may quote it.

| span | attributes |
|---|---|
`)
	b.WriteString(spanRows(t))
	b.WriteString("\n`version`, `state.from` and `state.to` are there when a version was made and the policy names a `status_pointer`.\n")
	return b.String()
}

// unit reads the unit from the name, where the convention puts it.
func unit(f *dto.MetricFamily) string {
	name := strings.TrimSuffix(f.GetName(), "_total")
	for _, u := range []string{"seconds", "bytes", "rows", "entries"} {
		if strings.HasSuffix(name, "_"+u) {
			return u
		}
	}
	return "1"
}

func labelsOf(f *dto.MetricFamily) []string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	return names
}

func boundsOf(f *dto.MetricFamily) string {
	var bounds []string
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		bounds = append(bounds, strconv.FormatFloat(b.GetUpperBound(), 'f', -1, 64))
	}
	return strings.Join(bounds, " ")
}

func opsOf(families []*dto.MetricFamily, tier string) []string {
	var ops []string
	for _, f := range families {
		if f.GetName() != "tierd_tier_call_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["tier"] == tier {
				ops = append(ops, labels["op"])
			}
		}
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}

// spanRows lists the spans of callAll with their attributes, without the code
// of an error, which all may carry.
func spanRows(t *testing.T) string {
	t.Helper()
	tel, spans := traced(t)
	callAll(t.Context(), tel, nil)
	attrs := map[string][]string{}
	for _, s := range spans.Ended() {
		var keys []string
		for _, a := range s.Attributes() {
			keys = append(keys, "`"+string(a.Key)+"`")
		}
		attrs[s.Name()] = keys
	}
	type row struct{ name, attrs string }
	var rows []row
	for name, keys := range attrs {
		rows = append(rows, row{name, strings.Join(keys, ", ")})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.name, b.name) })
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.name, r.attrs)
	}
	return b.String()
}
