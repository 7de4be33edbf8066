package lexical

import (
	"github.com/tierd/tierd/vector/text"
)

// Neighbour is a term of like meaning.
type Neighbour struct {
	Term       string
	Similarity float64 // cosine, below 1
}

// Expander knows terms of like meaning. Neighbours returns those of a term,
// nearest first and without the term itself; the slice is shared and not to be
// changed. It is safe for concurrent use.
type Expander interface {
	Neighbours(term string) []Neighbour
}

// Query is a question as terms. It depends on the question alone, and not on
// what is stored.
type Query struct {
	Terms []QueryTerm // in order of first occurrence, each once
}

// QueryTerm is one term of a query. Weight is what the term counts for beside
// its rarity: 1, and less for a single character of a longer run, which stands
// in for the bigrams around it.
type QueryTerm struct {
	Term       string
	Weight     float64
	Neighbours []Neighbour // nearest first
}

// PartWeight is the weight of a token that is marked as a part. Without parts a
// question in Chinese that says a thing in other words finds next to nothing.
const PartWeight = 0.5

// Analyse makes a query of a question. A nil expander means the exact terms
// alone.
func Analyse(a *text.Analyzer, question string, e Expander) Query {
	var q Query
	at := map[string]int{}
	for _, tok := range a.Tokens(question) {
		weight := 1.0
		if tok.Part {
			weight = PartWeight
		}
		if i, ok := at[tok.Term]; ok {
			q.Terms[i].Weight = max(q.Terms[i].Weight, weight)
			continue
		}
		at[tok.Term] = len(q.Terms)
		t := QueryTerm{Term: tok.Term, Weight: weight}
		if e != nil && !tok.Part {
			t.Neighbours = e.Neighbours(tok.Term)
		}
		q.Terms = append(q.Terms, t)
	}
	return q
}

// Vocabulary returns every term whose document frequency Plan asks for, each
// once: the terms of the query and all their neighbours. It may be some
// thousand.
func (q Query) Vocabulary() []string {
	var out []string
	seen := map[string]struct{}{}
	add := func(term string) {
		if _, ok := seen[term]; !ok {
			seen[term] = struct{}{}
			out = append(out, term)
		}
	}
	for _, t := range q.Terms {
		add(t.Term)
	}
	for _, t := range q.Terms {
		for _, n := range t.Neighbours {
			add(n.Term)
		}
	}
	return out
}
