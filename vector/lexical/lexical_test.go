package lexical

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tierd/tierd/vector/text"
	"pgregory.net/rapid"
)

// near are words of like meaning, by hand.
type near map[string][]Neighbour

func (n near) Neighbours(term string) []Neighbour { return n[term] }

// corpus is a few documents with their counts.
type corpus struct {
	docs  []text.Document
	stats Stats
	df    map[string]int64
}

func index(texts ...string) corpus {
	c := corpus{df: map[string]int64{}}
	var a text.Analyzer
	for _, s := range texts {
		d := a.Terms(s)
		c.docs = append(c.docs, d)
		c.stats = c.stats.Add(Stats{1, int64(d.Length)})
		for _, t := range d.Terms {
			c.df[t.Text]++
		}
	}
	return c
}

func (c corpus) plan(q Query, o Options) *Plan {
	return q.Plan(c.stats, func(term string) int64 { return c.df[term] }, o)
}

func (c corpus) scores(question string, e Expander, o Options) []float64 {
	p := c.plan(Analyse(&text.Analyzer{}, question, e), o)
	var out []float64
	for _, d := range c.docs {
		out = append(out, p.ScoreDocument(d))
	}
	return out
}

func about(t *testing.T, name string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

func TestBM25ByHand(t *testing.T) {
	c := index("tea tea cup", "coffee cup", "milk")
	s := c.scores("tea cup", nil, Options{})
	average := 2.0
	sat := func(f, length float64) float64 { return f * 1.9 / (f + 0.9*(1-0.4+0.4*length/average)) }
	tea, cup := math.Log(1+2.5/1.5), math.Log(1+1.5/2.5)
	about(t, "both terms", s[0], tea*sat(2, 3)+cup*sat(1, 3))
	about(t, "one term", s[1], cup*sat(1, 2))
	about(t, "none", s[2], 0)
}

func TestExpansion(t *testing.T) {
	c := index("she jogs", "she sprints", "she runs", "a cat")
	e := near{"jog": {{"run", 0.9}, {"sprint", 0.6}, {"gallop", 0.5}}}
	s := c.scores("jogging", e, Options{})
	idf := c.stats.IDF(1)
	sat := Params{0.9, 0.4}.saturation(1, 1, float64(c.stats.TotalLength)/4)
	about(t, "the word itself", s[0], idf*sat)
	about(t, "a near word", s[2], 0.4*0.9*idf*sat)
	about(t, "a farther word", s[1], 0.4*0.6*idf*sat)
	about(t, "another", s[3], 0)

	s = c.scores("jogging", e, Options{MaxNeighbours: 1})
	about(t, "beyond the nearest that the corpus holds", s[1], 0)
	s = c.scores("jogging", e, Options{Soft: -1})
	about(t, "switched off", s[2], 0)
}

func TestTheLargerMatchCounts(t *testing.T) {
	e := near{"jog": {{"run", 0.9}}, "run": {{"jog", 0.9}}}
	c := index("jog", "jog run", "swim")
	one := c.scores("jog", e, Options{})
	exact := c.scores("jog", nil, Options{})
	about(t, "a word and its neighbour do not add up", one[1], exact[1])
}

func TestARareNeighbourDoesNotOutweighACommonWord(t *testing.T) {
	texts := []string{"gallop"}
	for range 9 {
		texts = append(texts, "run")
	}
	c := index(texts...)
	s := c.scores("run", near{"run": {{"gallop", 1}}}, Options{})
	if s[0] >= s[1] {
		t.Errorf("the neighbour scores %v, the word %v", s[0], s[1])
	}
}

func TestAWordThatNobodyHoldsIsFoundByItsNeighbours(t *testing.T) {
	c := index("she runs", "a cat")
	s := c.scores("jogging", near{"jog": {{"run", 0.9}}}, Options{})
	if s[0] <= 0 || s[1] != 0 {
		t.Errorf("got %v", s)
	}
}

func TestAQueryNamesATermOnce(t *testing.T) {
	q := Analyse(&text.Analyzer{}, "Tea, teas and more tea: 山, 山水", near{"tea": {{"cha", 0.9}}})
	want := "[{tea 1 [{cha 0.9}]} {山 1 []} {山水 1 []} {水 0.5 []}]"
	if got := fmt.Sprint(q.Terms); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := q.Vocabulary(); !slices.Equal(got, []string{"tea", "山", "山水", "水", "cha"}) {
		t.Errorf("vocabulary %v", got)
	}
}

func TestCountsThatDoNotAgree(t *testing.T) {
	s := Stats{Documents: 3, TotalLength: 0}
	if idf := s.IDF(5); math.IsNaN(idf) || idf <= 0 {
		t.Errorf("more holders than documents: %v", idf)
	}
	q := Analyse(&text.Analyzer{}, "tea", nil)
	p := q.Plan(s, func(string) int64 { return 1 }, Options{})
	if x := p.Score([]Hit{{0, 1}}, 4); math.IsNaN(x) || math.IsInf(x, 0) || x <= 0 {
		t.Errorf("no average length: %v", x)
	}
	p = q.Plan(Stats{}, func(string) int64 { return 0 }, Options{})
	if len(p.Terms()) != 0 {
		t.Errorf("an empty corpus is searched for %v", p.Terms())
	}
}

// TestScores holds the laws of the score: it does not depend on the order of
// hits, and one hit more never lowers it.
func TestScores(t *testing.T) {
	c := index("tea cup table", "coffee cup", "tea pot milk", "run jog", "jog")
	e := near{"tea": {{"coffe", 0.7}, {"milk", 0.5}}, "cup": {{"pot", 0.6}}, "run": {{"jog", 0.9}}}
	p := c.plan(Analyse(&text.Analyzer{}, "tea cup run", e), Options{})
	rapid.Check(t, func(t *rapid.T) {
		var hits []Hit
		for i := range p.Terms() {
			if f := rapid.IntRange(0, 4).Draw(t, "freq"); f > 0 {
				hits = append(hits, Hit{i, f})
			}
		}
		length := rapid.IntRange(1, 50).Draw(t, "length")
		all := p.Score(hits, length)
		if other := p.Score(rapid.Permutation(hits).Draw(t, "order"), length); other != all {
			t.Fatalf("%v in another order %v", all, other)
		}
		if len(hits) > 0 {
			if fewer := p.Score(hits[1:], length); fewer > all {
				t.Fatalf("a hit more lowers %v to %v", fewer, all)
			}
		}
	})
}

func TestAQueryOfManyTerms(t *testing.T) {
	var s string
	for i := range 100 {
		s += fmt.Sprintf("w%d ", i)
	}
	c := index(s, "other")
	if got := c.scores(s, nil, Options{}); got[0] <= 0 || got[1] != 0 {
		t.Errorf("got %v", got)
	}
}

func BenchmarkScore(b *testing.B) {
	c := index("tea cup table", "coffee cup", "tea pot milk", "run jog", "jog")
	p := c.plan(Analyse(&text.Analyzer{}, "tea cup run", near{"tea": {{"coffe", 0.7}}}), Options{})
	hits := []Hit{{0, 1}, {1, 2}, {2, 1}}
	b.ReportAllocs()
	for b.Loop() {
		p.Score(hits, 12)
	}
}
