package main

import (
	"math"
	"slices"
	"strings"

	"github.com/tierd/tierd/vector/text"
)

// entry is a number of a sparse row.
type entry struct {
	column int32
	value  float64
}

// matrix has a row for every stem and a column for every feature: a meaning, or
// a stem that stands in a definition. Rows have length 1.
type matrix struct {
	stems   []string // sorted
	rows    [][]entry
	columns int
}

// Weights of what a stem has to do with: they were chosen on conversations that
// are no part of the repository's own test set.
const (
	ownMeaning     = 3.0
	broaderMeaning = 2.0 // halved with each of three steps up
	likeMeaning    = 1.5 // derived, similar, entailing, causing
	partOfMeaning  = 0.7 // part, member, substance, topic
	synonym        = 2.0
	definition     = 1.0 // a stem of the gloss
	defined        = 0.5 // and the other way round
	rareSense      = 0.15
	unlistedSense  = 0.5
	fewestFeatures = 3
	fewestStems    = 2
)

func senseWeight(share float64) float64 { return max(rareSense, math.Sqrt(share)) }

// builder collects features of stems.
type builder struct {
	net      *wordnet
	analyzer text.Analyzer
	features map[string]int32
	names    []string
	rows     map[string]map[int32]float64
	glossDF  map[string]int // in how many glosses a stem stands
}

func newBuilder(net *wordnet) *builder {
	return &builder{net: net, features: map[string]int32{}, rows: map[string]map[int32]float64{}, glossDF: map[string]int{}}
}

func (b *builder) feature(name string) int32 {
	id, ok := b.features[name]
	if !ok {
		id = int32(len(b.names)) //nolint:gosec // some 200,000
		b.features[name] = id
		b.names = append(b.names, name)
	}
	return id
}

func (b *builder) add(stem, feature string, weight float64) {
	row := b.rows[stem]
	if row == nil {
		row = map[int32]float64{}
		b.rows[stem] = row
	}
	row[b.feature(feature)] += weight
}

// stem returns the stem of a dictionary word, "" for what is not one token.
func (b *builder) stem(word string) string {
	if len(word) < 2 || strings.Contains(word, "_") {
		return ""
	}
	toks := b.analyzer.Tokens(word)
	if len(toks) != 1 {
		return ""
	}
	return toks[0].Term
}

func (b *builder) stems(s *synset) []string {
	var out []string
	for _, w := range s.words {
		if st := b.stem(w); st != "" {
			out = append(out, st)
		}
	}
	return out
}

// collect reads every meaning.
func (b *builder) collect() {
	for _, s := range b.net.synsets {
		gloss := b.analyzer.Tokens(s.gloss)
		for _, t := range b.analyzer.Terms(s.gloss).Terms {
			b.glossDF[t.Text]++
		}
		together := b.stems(s)
		for _, w := range s.words {
			stem := b.stem(w)
			if stem == "" {
				continue
			}
			weight, ok := b.net.weight[sense{w, s.id}]
			if !ok {
				weight = unlistedSense
			}
			b.add(stem, "meaning "+s.id, ownMeaning*weight)
			for _, g := range gloss {
				b.add(stem, "stem "+g.Term, definition*weight)
				b.add(g.Term, "stem "+stem, defined*weight)
			}
			for _, other := range together {
				b.add(stem, "stem "+other, synonym*weight)
			}
			b.broader(stem, s, weight)
			b.related(stem, s, weight)
		}
	}
}

// broader adds the meanings above s, by the first way up.
func (b *builder) broader(stem string, s *synset, weight float64) {
	share := broaderMeaning
	for range 3 {
		i := slices.IndexFunc(s.pointers, func(p pointer) bool { return p.symbol == "@" || p.symbol == "@i" })
		if i < 0 {
			return
		}
		if s = b.net.byID[s.pointers[i].target]; s == nil {
			return
		}
		b.add(stem, "meaning "+s.id, share*weight)
		for _, other := range b.stems(s) {
			b.add(stem, "stem "+other, share*weight/2)
		}
		share /= 2
	}
}

// related adds the meanings beside s.
func (b *builder) related(stem string, s *synset, weight float64) {
	for _, p := range s.pointers {
		switch p.symbol {
		case "+", "&", "^", "$", "\\", "<", "*", ">":
			b.add(stem, "meaning "+p.target, likeMeaning*weight)
			if t := b.net.byID[p.target]; t != nil {
				for _, other := range b.stems(t) {
					b.add(stem, "stem "+other, weight)
				}
			}
		case "%p", "%m", "%s", "#p", "#m", "#s", ";c", "-c", "=":
			b.add(stem, "meaning "+p.target, partOfMeaning*weight)
		}
	}
}

// matrix weighs features by their rarity and normalises the rows. Stems with
// few features, and features of one stem, say nothing.
func (b *builder) matrix() *matrix {
	holders := make([]int, len(b.names))
	m := &matrix{}
	for stem, row := range b.rows {
		for f := range row {
			holders[f]++
		}
		if len(row) >= fewestFeatures {
			m.stems = append(m.stems, stem)
		}
	}
	slices.Sort(m.stems)
	column := make([]int32, len(b.names)) // 0: none yet
	for _, stem := range m.stems {
		ids := make([]int32, 0, len(b.rows[stem]))
		for f := range b.rows[stem] {
			if holders[f] >= fewestStems {
				ids = append(ids, f)
			}
		}
		slices.Sort(ids)
		row := make([]entry, 0, len(ids))
		norm := 0.0
		for _, f := range ids {
			if column[f] == 0 {
				m.columns++
				column[f] = int32(m.columns) //nolint:gosec // some 200,000
			}
			x := math.Log1p(b.rows[stem][f]) * math.Log(float64(len(m.stems))/float64(holders[f]))
			row = append(row, entry{column[f] - 1, x})
			norm += x * x
		}
		for i := range row {
			row[i].value /= math.Sqrt(norm)
		}
		m.rows = append(m.rows, row)
	}
	return m
}
