package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"text/tabwriter"
)

// Mode is a way to search.
type Mode string

// The modes that are measured side by side.
const (
	Words   Mode = "bm25"    // BM25 of the exact terms, and nothing else
	Vectors Mode = "vector"  // the embedder's cosine, and nothing else
	Default Mode = "default" // what a user gets who says nothing
)

// Modes returns all modes, in the order of a report.
func Modes() []Mode { return []Mode{Words, Vectors, Default} }

// Search is one question to a Searcher.
type Search struct {
	Conversation string
	Text         string
	Mode         Mode
	K            int
	Now          time.Time // when it is asked; zero where times are not known
}

// Searcher is what is measured.
type Searcher interface {
	// Remember stores the memories of a conversation apart from those of others,
	// and returns once they can be found.
	Remember(ctx context.Context, c Conversation) error
	// Search returns the IDs of the best K memories of the conversation, best first.
	Search(ctx context.Context, s Search) ([]string, error)
}

// Depths are the numbers of results at which recall is measured.
func Depths() []int { return []int{5, 10, 20} }

// Figure is the mean recall over some questions, in percent, at each of Depths.
type Figure struct {
	Questions int
	Recall    []float64
}

// Row is one line of a report.
type Row struct {
	Mode     Mode
	Category string // empty: all questions
	Figure
}

// Report is what was measured.
type Report struct {
	Rows    []Row // by mode, then category, with that of all questions last
	Set     Set
	Elapsed time.Duration // of all searches
}

// Overall returns the figure of a mode over all questions.
func (r Report) Overall(m Mode) Figure {
	for _, row := range r.Rows {
		if row.Mode == m && row.Category == "" {
			return row.Figure
		}
	}
	return Figure{}
}

// Measure remembers the set and asks all its questions in each of the modes.
func Measure(ctx context.Context, set Set, s Searcher, modes ...Mode) (Report, error) {
	for _, c := range set.Conversations {
		if err := s.Remember(ctx, c); err != nil {
			return Report{}, fmt.Errorf("remember conversation %s: %w", c.ID, err)
		}
	}
	report := Report{Set: set}
	start := time.Now()
	for _, mode := range modes {
		sums := map[string]*Figure{}
		for _, c := range set.Conversations {
			if err := ask(ctx, c, s, mode, sums); err != nil {
				return Report{}, err
			}
		}
		for category, sum := range sums {
			for i := range sum.Recall {
				sum.Recall[i] *= 100 / float64(sum.Questions)
			}
			report.Rows = append(report.Rows, Row{mode, category, *sum})
		}
	}
	report.Elapsed = time.Since(start)
	slices.SortFunc(report.Rows, func(a, b Row) int {
		if c := cmp.Compare(slices.Index(modes, a.Mode), slices.Index(modes, b.Mode)); c != 0 {
			return c
		}
		if (a.Category == "") != (b.Category == "") {
			return cmp.Compare(b.Category, a.Category)
		}
		return cmp.Compare(a.Category, b.Category)
	})
	return report, nil
}

// ask asks the questions of one conversation and adds their recall to the sums.
func ask(ctx context.Context, c Conversation, s Searcher, mode Mode, sums map[string]*Figure) error {
	depths := Depths()
	now := c.End()
	for _, q := range c.Questions {
		found, err := s.Search(ctx, Search{c.ID, q.Text, mode, slices.Max(depths), now})
		if err != nil {
			return fmt.Errorf("question %s: %w", q.ID, err)
		}
		for _, category := range slices.Compact([]string{"", q.Category}) {
			f := sums[category]
			if f == nil {
				f = &Figure{Recall: make([]float64, len(depths))}
				sums[category] = f
			}
			f.Questions++
			for i, k := range depths {
				f.Recall[i] += Recall(q.Evidence, found[:min(k, len(found))])
			}
		}
	}
	return nil
}

// Recall is the share of the evidence that was found, 0 to 1.
func Recall(evidence, found []string) float64 {
	n := 0
	for _, e := range evidence {
		if slices.Contains(found, e) {
			n++
		}
	}
	return float64(n) / float64(len(evidence))
}

// Print writes the report as a table.
func (r Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "mode\tcategory\tquestions\t")
	for _, k := range Depths() {
		fmt.Fprintf(w, "recall@%d\t", k)
	}
	fmt.Fprintln(w)
	for _, row := range r.Rows {
		category := row.Category
		if category == "" {
			category = "all"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t", row.Mode, category, row.Questions)
		for _, x := range row.Recall {
			fmt.Fprintf(w, "%.1f\t", x)
		}
		fmt.Fprintln(w)
	}
	if r.Set.Unanswerable > 0 || r.Set.Disputed > 0 {
		fmt.Fprintf(w, "left out: %d questions without valid evidence, %d whose labels are disputed\n", r.Set.Unanswerable, r.Set.Disputed)
	}
	return w.Flush()
}
