package lexical

import (
	"testing"

	"pgregory.net/rapid"
)

// TestUpperBoundsEveryScore: no memory scores above the bound of its terms.
func TestUpperBoundsEveryScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Query{Terms: []QueryTerm{
			{Term: "a", Weight: 1, Neighbours: []Neighbour{{Term: "c", Similarity: 0.9}}}, {Term: "b", Weight: 0.3}, {Term: "c", Weight: 1, Neighbours: []Neighbour{{Term: "b", Similarity: 0.5}}},
		}}
		p := q.Plan(Stats{Documents: 100, TotalLength: 1000}, func(term string) int64 { return int64(term[0]-'a')*40 + 1 }, Options{})
		var hits []Hit
		var terms []int
		for i := range p.Terms() {
			if rapid.Bool().Draw(t, "held") {
				hits, terms = append(hits, Hit{i, rapid.IntRange(1, 1000).Draw(t, "freq")}), append(terms, i)
			}
		}
		if score, bound := p.Score(hits, rapid.IntRange(0, 500).Draw(t, "length")), p.Upper(terms...); score > bound {
			t.Fatalf("%v score %v, above the bound %v", hits, score, bound)
		}
	})
}
