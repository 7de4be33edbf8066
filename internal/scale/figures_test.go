package scale

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// What a million documents may do.
const (
	growth     = 1.3 // of p50 of gets and puts beside a store of a tenth
	residentMB = 200
	passCost   = 1.5 // of p99 of puts while documents are demoted
	startMost  = time.Second
	listGets   = 10 // gets that a page of 1,000 may cost
	passRow    = "p99 of puts while documents are demoted"
)

// figures is what a run measured, of the small store first.
type figures struct {
	shape
	began                 time.Time
	took                  time.Duration
	loadBefore, loadAfter string
	starts                [2][]time.Duration
	calls                 [2]map[string][]window
	afterFill, resident   [2]float64 // MB
	idles                 [2]float64 // processors
	hot, lost             time.Duration
	first, middle         time.Duration // of pages
	pass                  pass
	rows                  []row
}

// window is what the calls of one kind took in one turn.
type window struct {
	p50, p99 time.Duration
	calls    int
}

// row is one figure beside its target; no target: 0.
type row struct {
	what             string
	small, large     string
	measured, target float64
	unit             string
}

func (r row) verdict() string {
	switch {
	case r.target == 0:
		return ""
	case r.measured <= r.target:
		return "held"
	}
	return "MISSED"
}

func (f *figures) add(r row) { f.rows = append(f.rows, r) }

// judge makes the rows.
func (f *figures) judge() {
	for _, kind := range []string{hotGet, warmGet, anyPut} {
		f.grown("p50 of a "+kind, kind, growth, func(w window) time.Duration { return w.p50 })
	}
	for _, kind := range []string{hotGet, warmGet, anyPut} {
		f.grown("p99 of a "+kind, kind, 0, func(w window) time.Duration { return w.p99 })
	}
	memory := residentMB
	if f.embedded {
		memory = 0 // hot is in the process
	}
	mb := func(x float64) string { return fmt.Sprintf("%.0f MB", x) }
	f.add(row{"resident memory after the fill", mb(f.afterFill[0]), mb(f.afterFill[1]), f.afterFill[1], float64(memory), "MB"})
	most := max(f.resident[1], f.pass.resident)
	f.add(row{"resident memory under load and in the pass", mb(f.resident[0]), mb(most), most, float64(memory), "MB"})
	if f.shape.idle > 0 {
		f.add(row{"processors of a daemon that nobody calls", fmt.Sprintf("%.3f", f.idles[0]), fmt.Sprintf("%.3f", f.idles[1]), f.idles[1], 0, ""})
	}
	slowest := func(all []time.Duration) time.Duration { return slices.Max(all) }
	f.add(row{"start to ready, the slowest of several", short(slowest(f.starts[0])), short(slowest(f.starts[1])), slowest(f.starts[1]).Seconds(), startMost.Seconds(), "s"})
	for _, page := range []struct {
		what string
		took time.Duration
	}{{"the first 1,000", f.first}, {"1,000 from the middle", f.middle}} {
		f.add(row{"a list of " + page.what + ", in gets from warm", "", short(page.took) + " to " + short(f.lost), ratio(page.took, f.lost), listGets, ""})
		f.add(row{"a list of " + page.what + ", in gets from hot", "", short(page.took) + " to " + short(f.hot), ratio(page.took, f.hot), listGets, ""})
	}
	during, beside := quantile(f.pass.during, 0.99), quantile(f.pass.beside, 0.99)
	f.add(row{passRow, "", short(during) + " to " + short(beside), ratio(during, beside), passCost, ""})
	perSecond := f.pass.moved / max(f.pass.over.Seconds(), 1e-9)
	f.add(row{"documents demoted a second", "", fmt.Sprintf("%.0f in %v", f.pass.moved, f.pass.over.Round(time.Millisecond)), perSecond, 0, "/s"})
}

// grown adds the growth of one kind of call: the median over turns.
func (f *figures) grown(what, kind string, target float64, of func(window) time.Duration) {
	small, large := f.calls[0][kind], f.calls[1][kind]
	var ratios, a, b []float64
	for i := range min(len(small), len(large)) {
		ratios = append(ratios, ratio(of(large[i]), of(small[i])))
		a, b = append(a, of(small[i]).Seconds()), append(b, of(large[i]).Seconds())
	}
	spent := func(x []float64) string { return short(time.Duration(median(x) * float64(time.Second))) }
	f.add(row{what, spent(a), spent(b), median(ratios), target, ""})
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / max(b.Seconds(), 1e-9) }

func short(d time.Duration) string {
	if d >= 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// String is the table.
func (f *figures) String() string {
	var out strings.Builder
	tiers := "redis, postgres, s3, s3"
	if f.embedded {
		tiers = "memory, sqlite, dir, dir"
	}
	fmt.Fprintf(&out, "%s with %d and %d documents, %s, %v; %d processors, %s; load average %s before, %s after\n\n",
		tiers, f.keys/10, f.keys, f.began.UTC().Format(time.RFC3339), f.took, runtime.NumCPU(), runtime.Version(), f.loadBefore, f.loadAfter)
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\t%d\t%d\tMEASURED\tTARGET\t\n", f.keys/10, f.keys)
	for _, r := range f.rows {
		target := ""
		if r.target != 0 {
			target = fmt.Sprintf("<= %g %s", r.target, r.unit)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.3g %s\t%s\t%s\n", r.what, r.small, r.large, r.measured, r.unit, target, r.verdict())
	}
	_ = t.Flush()
	return out.String()
}

// machineLoad is the load average, where there is one to read.
func machineLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}
