// Package lexical scores memories by their words: BM25, and words of like
// meaning where the words themselves are not there. It is arithmetic over
// counts, so that every store that keeps the counts gives the same scores:
//
//	q := lexical.Analyse(analyzer, "Where does she jog?", expander)
//	df := (document frequency of each of q.Vocabulary() in the namespaces asked)
//	plan := q.Plan(stats, df)
//	for each memory that holds any of plan.Terms(): plan.Score(hits, length)
package lexical

import "math"

// Stats are the counts of the memories that a query is asked of: those of its
// tenant and namespaces, before any filter.
type Stats struct {
	Documents   int64
	TotalLength int64 // sum of text.Document.Length
}

// Add returns the counts of both.
func (s Stats) Add(t Stats) Stats {
	return Stats{s.Documents + t.Documents, s.TotalLength + t.TotalLength}
}

// IDF is the inverse document frequency of a term that df memories hold. It is
// positive, also for a term that all of them hold. A df beyond the number of
// memories, as counts read at different moments may have it, is that number.
func (s Stats) IDF(df int64) float64 {
	n, d := float64(s.Documents), float64(min(max(df, 0), s.Documents))
	return math.Log(1 + (n-d+0.5)/(d+0.5))
}

// Params are those of BM25. The zero value means K1 0.9 and B 0.4, which suit
// texts as short as turns of a conversation. A negative number means 0.
type Params struct {
	K1 float64 // how soon repetition stops counting
	B  float64 // how much a long text is held against it, 0 to 1
}

func (p Params) orDefault() Params {
	return Params{K1: orDefault(p.K1, 0.9), B: orDefault(p.B, 0.4)}
}

func orDefault(x, otherwise float64) float64 {
	switch {
	case x == 0:
		return otherwise
	case x < 0:
		return 0
	}
	return x
}

// saturation is the part of BM25 that does not depend on the term: freq
// occurrences in a text of the given length among texts of the average one.
func (p Params) saturation(freq, length int, average float64) float64 {
	f := float64(freq)
	relative := 1.0
	if average > 0 {
		relative = float64(length) / average
	}
	return f * (p.K1 + 1) / (f + p.K1*(1-p.B+p.B*relative))
}
