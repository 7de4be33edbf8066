package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Figures is what Measure found.
type Figures struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Took    string    `json:"took"`
	CPUs    int       `json:"cpus"`
	Go      string    `json:"go"`
	For     string    `json:"for"` // of each figure
	// Tiers are the schemes of what was measured: hot, warm, cold, backup.
	Tiers      []string `json:"tiers"`
	LoadBefore string   `json:"load_before"`
	LoadAfter  string   `json:"load_after"`
	Rows       []Figure `json:"rows"`
	// Left says what was not measured, or not as meant, and why.
	Left []string `json:"left,omitempty"`
}

// Figure is one contestant in one case.
type Figure struct {
	Tier   string `json:"tier"` // hot, warm, cold; all for what takes them all
	Case   string `json:"case"`
	AtOnce int    `json:"at_once"`
	Who    string `json:"who"` // tierd, by hand, article or raw
	Done   int    `json:"done"`
	// PerSecond is the rate; 0 where there is none.
	PerSecond float64 `json:"per_second"`
	P50Micros float64 `json:"p50_us"`
	P99Micros float64 `json:"p99_us"`
	// Beside are ratios of rates, tierd over each other contestant: the median of
	// turns that were taken one after the other. Of tierd's rows alone.
	Beside map[string]float64 `json:"beside,omitempty"`
	// ByProcessor are the same by the processor time of this process, Redis and
	// PostgreSQL for an operation: what Beside comes to where nothing else runs and
	// processors are the limit. Left out where it cannot be read.
	ByProcessor map[string]float64 `json:"beside_by_processor,omitempty"`
	// Field is what the tier is expected to do, in the words of the trade.
	Field string `json:"field,omitempty"`
}

// The contestants of Measure.
const (
	whoTierd   = "tierd"
	whoHand    = "by hand"
	whoArticle = "article"
	whoRaw     = "raw"
)

// fieldFigures is what is expected of a tier.
func fieldFigures(tier string) string {
	switch tier {
	case "hot":
		return "under 5 ms, over 100,000/s"
	case "warm":
		return "10 to 50 ms, 5,000/s"
	case "cold":
		return "100 to 500 ms, 1,000/s"
	}
	return ""
}

// add appends the rows of a case: tierd's first, then those beside it.
func (f *Figures) add(tier, name string, atOnce int, samples map[string][]sample) {
	for _, who := range []string{whoTierd, whoHand, whoArticle, whoRaw} {
		of := samples[who]
		if len(of) == 0 || slices.ContainsFunc(of, func(s sample) bool { return s.n == 0 }) {
			continue // it has no part in the case, or a turn was too short for one
		}
		mid, done := middle(of), 0
		for _, s := range of {
			done += s.n
		}
		row := Figure{
			Tier: tier, Case: name, AtOnce: atOnce, Who: who, Done: done,
			PerSecond: mid.rate, P50Micros: micros(mid.p50), P99Micros: micros(mid.p99), Field: fieldFigures(tier),
		}
		if who == whoTierd {
			row.Beside, row.ByProcessor = beside(of, samples)
		}
		f.Rows = append(f.Rows, row)
	}
}

// beside compares tierd with each of the others.
func beside(of []sample, others map[string][]sample) (byRate, byProcessor map[string]float64) {
	byRate, byProcessor = map[string]float64{}, map[string]float64{}
	for who, theirs := range others {
		if who == whoTierd || slices.ContainsFunc(theirs, func(s sample) bool { return s.n == 0 }) {
			continue
		}
		byRate[who] = median(ratios(of, theirs, rate))
		if !slices.ContainsFunc(slices.Concat(of, theirs), func(s sample) bool { return s.spent.total() == 0 }) {
			byProcessor[who] = median(ratios(of, theirs, thrift))
		}
	}
	return byRate, byProcessor
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// WriteTable prints the figures for people.
func (f *Figures) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s on %s, %s; %d processors, %s, %s a figure; load average %s before, %s after\n\n",
		strings.Join(f.Tiers, ", "), f.Started.Format(time.RFC3339), f.Took, f.CPUs, f.Go, f.For, f.LoadBefore, f.LoadAfter)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIER\tCASE\tAT ONCE\tWHO\tOPS/S\tP50\tP99\tTIERD OVER IT\tBY CPU\tTHE FIELD")
	last := ""
	for _, row := range f.Rows {
		tier, name, field := row.Tier, row.Case, row.Field
		if key := tier + name; key == last {
			tier, name, field = "", "", ""
		} else {
			last = key
		}
		over, thrifty := "-", "-"
		if tierd := f.tierd(row); row.Who != whoTierd {
			over = fmt.Sprintf("%.2f", tierd.Beside[row.Who])
			if x, ok := tierd.ByProcessor[row.Who]; ok {
				thrifty = fmt.Sprintf("%.2f", x)
			}
		}
		rate := "-"
		if row.PerSecond > 0 {
			rate = thousands(row.PerSecond)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", tier, name, row.AtOnce, row.Who, rate, took(row.P50Micros), took(row.P99Micros), over, thrifty, field)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, left := range f.Left {
		if _, err := fmt.Fprintf(w, "note: %s\n", left); err != nil {
			return err
		}
	}
	return nil
}

// took writes microseconds.
func took(us float64) string {
	if us < 1 {
		return "<1µs"
	}
	return short(time.Duration(us * float64(time.Microsecond)))
}

// tierd is tierd's row of the same case.
func (f *Figures) tierd(of Figure) Figure {
	for _, row := range f.Rows {
		if row.Who == whoTierd && row.Tier == of.Tier && row.Case == of.Case && row.AtOnce == of.AtOnce {
			return row
		}
	}
	return Figure{}
}
