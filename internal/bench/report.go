package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a run measured.
type Report struct {
	ID         string    `json:"id"` // in the name of everything the run made
	Started    time.Time `json:"started"`
	Took       string    `json:"took"`
	CPUs       int       `json:"cpus"`
	Go         string    `json:"go"`
	Slice      string    `json:"slice"`
	Rounds     int       `json:"rounds"`
	LoadBefore string    `json:"load_before"` // load averages over 1, 5 and 15 minutes
	LoadAfter  string    `json:"load_after"`
	Rows       []Row     `json:"rows"`
}

// Row is one comparison.
type Row struct {
	Part Part   `json:"part"`
	Case string `json:"case"`
	// Measured is the median over rounds, Low and High the extremes.
	Measured float64 `json:"measured"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Target   *Target `json:"target,omitempty"`
	Met      *bool   `json:"met,omitempty"` // whether Measured meets Target
	// Processor is the ratio of operations by processor time, of the client
	// and both servers, in place of by the clock: what Measured comes to where
	// nothing else runs and processors are the limit. 0: not known.
	Processor float64 `json:"processor,omitempty"`
	// Elsewhere is how many processors other programs kept busy meanwhile.
	Elsewhere float64 `json:"elsewhere,omitempty"`
	// Figures are the absolute ones behind it, of this machine at this time.
	Figures string `json:"figures,omitempty"`
}

// Target is the bar of a row.
type Target struct {
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"at_least"` // else at most
}

func atLeast(bound float64) *Target { return &Target{Bound: bound, AtLeast: true} }
func atMost(bound float64) *Target  { return &Target{Bound: bound} }

func (t Target) met(x float64) bool {
	if t.AtLeast {
		return x >= t.Bound
	}
	return x <= t.Bound
}

func (t Target) String() string {
	if t.AtLeast {
		return fmt.Sprintf(">= %.4g", t.Bound)
	}
	return fmt.Sprintf("<= %.4g", t.Bound)
}

// add appends a row of one measurement a round.
func (r *Report) add(row Row, rounds ...float64) {
	row.Measured, row.Low, row.High = median(rounds), rounds[0], rounds[0]
	for _, x := range rounds {
		row.Low, row.High = min(row.Low, x), max(row.High, x)
	}
	if row.Target != nil {
		met := row.Target.met(row.Measured)
		row.Met = &met
	}
	r.Rows = append(r.Rows, row)
}

// versus adds what x and y spent to a row.
func (row Row) versus(x, y []sample) Row {
	row.Processor = median(ratios(x, y, thrift))
	busy, took := 0.0, 0.0
	for _, s := range slices.Concat(x, y) {
		busy, took = busy+s.spent.elsewhere, took+s.over.Seconds()
		if s.spent.total() == 0 {
			row.Processor = 0
			return row
		}
	}
	row.Elsewhere = busy / took
	return row
}

func (r *Report) ended() *Report {
	r.Took, r.LoadAfter = time.Since(r.Started).Round(time.Second).String(), load()
	return r
}

// Missed counts the rows that miss their target.
func (r *Report) Missed() (n int) {
	for _, row := range r.Rows {
		if row.Met != nil && !*row.Met {
			n++
		}
	}
	return n
}

// WriteTable prints the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %d processors, %s; slices of %s, %d rounds; load average %s before, %s after\n",
		r.Started.Format(time.RFC3339), r.Took, r.CPUs, r.Go, r.Slice, r.Rounds, r.LoadBefore, r.LoadAfter)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\t\tmeasured\tlow..high\ttarget\t\tby cpu\tbusy elsewhere\tfigures")
	part := Part("")
	for _, row := range r.Rows {
		name := ""
		if row.Part != part {
			part, name = row.Part, string(row.Part)
		}
		target, met := "", ""
		if row.Target != nil {
			target, met = row.Target.String(), "met"
			if !*row.Met {
				met = "MISSED"
			}
		}
		cpu, busy := "", ""
		if row.Processor > 0 {
			cpu, busy = fmt.Sprintf("%.3g", row.Processor), fmt.Sprintf("%.1f", row.Elsewhere)
		}
		fmt.Fprintf(t, "%s\t%s\t%.3g\t%.3g..%.3g\t%s\t%s\t%s\t%s\t%s\n", name, row.Case, row.Measured, row.Low, row.High, target, met, cpu, busy, row.Figures)
	}
	return t.Flush()
}

// load is the machine's load average, where there is one to read.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
