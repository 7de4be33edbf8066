package lexical

import (
	"github.com/tierd/tierd/vector/text"
)

// Options configure how a query is scored. The zero value means the defaults.
type Options struct {
	Params Params
	// Soft is what a neighbour's match counts for, times its similarity: 0 means
	// 0.4, below 0 none at all.
	Soft float64
	// MaxNeighbours of one query term are used: the nearest of those that the
	// corpus holds. 0 means 20.
	MaxNeighbours int
}

// Plan is a query for one corpus: the terms to look up, and how they score. It
// does not change and is safe for concurrent use.
type Plan struct {
	params  Params
	average float64
	terms   []string
	uses    [][]use
	groups  int
}

// use is what a term does for one term of the query: its group.
type use struct {
	group  int
	factor float64 // what BM25's saturation is multiplied by
}

// Plan weighs the query by the counts of a corpus. Df returns the number of
// memories that hold a term, and is asked for terms of Vocabulary alone.
func (q Query) Plan(stats Stats, df func(term string) int64, o Options) *Plan {
	soft := orDefault(o.Soft, 0.4)
	most := o.MaxNeighbours
	if most <= 0 {
		most = 20
	}
	p := &Plan{params: o.Params.orDefault(), groups: len(q.Terms)}
	if stats.Documents > 0 {
		p.average = float64(stats.TotalLength) / float64(stats.Documents)
	}
	index := map[string]int{}
	add := func(term string, u use) {
		i, ok := index[term]
		if !ok {
			i = len(p.terms)
			index[term] = i
			p.terms = append(p.terms, term)
			p.uses = append(p.uses, nil)
		}
		p.uses[i] = append(p.uses[i], u)
	}
	for g, t := range q.Terms {
		n := df(t.Term)
		idf := stats.IDF(n)
		if n > 0 {
			add(t.Term, use{g, t.Weight * idf})
		}
		if soft == 0 {
			continue
		}
		left := most
		for _, nb := range t.Neighbours {
			if left == 0 {
				break
			}
			n := df(nb.Term)
			if n <= 0 || nb.Term == t.Term {
				continue
			}
			left--
			// A rare neighbour of a common word must not outweigh the word.
			add(nb.Term, use{g, t.Weight * soft * nb.Similarity * min(stats.IDF(n), idf)})
		}
	}
	return p
}

// Terms returns the terms to look up, each once. A memory that holds none of
// them scores 0. The slice is not to be changed.
func (p *Plan) Terms() []string { return p.terms }

// Hit says that a memory holds Terms()[Term] Freq times.
type Hit struct {
	Term int
	Freq int
}

// Score is the score of a memory of the given length (text.Document.Length)
// with these hits, in any order, each term at most once. For every term of the
// query the best of its own match and its neighbours' counts.
func (p *Plan) Score(hits []Hit, length int) float64 {
	var few [32]float64
	best := few[:]
	if p.groups > len(few) {
		best = make([]float64, p.groups)
	}
	for _, h := range hits {
		s := p.params.saturation(h.Freq, length, p.average)
		for _, u := range p.uses[h.Term] {
			best[u.group] = max(best[u.group], u.factor*s)
		}
	}
	sum := 0.0
	for _, b := range best[:p.groups] {
		sum += b
	}
	return sum
}

// ScoreDocument is Score of a whole document.
func (p *Plan) ScoreDocument(d text.Document) float64 {
	var hits []Hit
	for i, term := range p.terms {
		if f := d.Freq(term); f > 0 {
			hits = append(hits, Hit{i, f})
		}
	}
	if len(hits) == 0 {
		return 0
	}
	return p.Score(hits, d.Length)
}

// Upper bounds Score of memories whose hits are all of these terms, whatever
// their length: a store leaves out those that cannot be among the best by it.
func (p *Plan) Upper(terms ...int) float64 {
	best := make([]float64, p.groups)
	for _, t := range terms {
		for _, u := range p.uses[t] {
			best[u.group] = max(best[u.group], u.factor*(p.params.K1+1))
		}
	}
	sum := 0.0
	for _, b := range best {
		sum += b
	}
	return sum
}
