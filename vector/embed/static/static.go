// Package static is the default embedder: no model to download, no server to
// run, pure Go. A vector is made of two halves.
//
// The first has 768 dimensions and is hashed: the terms of the text, and the
// runs of three to five characters of its words, so that what is misspelt, or
// inflected in a way that the stemmer does not know, is near all the same. It
// works for every language.
//
// The second has 256 and knows English: the mean of the vectors of the words.
// They were trained from WordNet 3.0 by the command in the folder train, and are
// part of the binary. WORDNET-LICENSE is their licence.
package static

import (
	"context"
	_ "embed" // the word vectors
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/embed/wordvec"
	"github.com/tierd/tierd/vector/lexical"
	"github.com/tierd/tierd/vector/text"
)

// The dimensions of a vector.
const (
	hashed     = 768
	Dimensions = hashed + 256
)

// version changes with the analysis of text, the hashing, and the word vectors.
const version = "1"

// Weight is what the static embedder counts for in a fusion: little, since what
// it knows of meaning the lexical arm knows too.
const Weight = 0.2

const (
	meaningShare = 0.8 // length of the second half beside the first
	characters   = 0.3 // weight of a run of characters beside a term
	shortestRun  = 3
	longestRun   = 5
)

//go:embed words.bin
var file []byte

// words is a constant that is decoded when it is first needed, in a fifth of a
// second.
var words = sync.OnceValues(func() (*wordvec.Table, error) { return wordvec.Read(file) })

// Embedder embeds. It does not change and is safe for concurrent use.
type Embedder struct {
	analyzer *text.Analyzer
	near     *wordvec.Cache[[]lexical.Neighbour]
}

var _ vector.LocalEmbedder = (*Embedder)(nil)
var _ lexical.Expander = (*Embedder)(nil)

// New returns an embedder of texts that the analyzer cuts up; nil means the
// English one.
func New(a *text.Analyzer) *Embedder {
	if a == nil {
		a = &text.Analyzer{}
	}
	return &Embedder{analyzer: a, near: wordvec.NewCache[[]lexical.Neighbour](rememberedNeighbours)}
}

// Space implements vector.Embedder.
func (e *Embedder) Space() vector.Space {
	return vector.Space{Name: "static", Model: "wordnet-3.0", Version: version + "/" + e.analyzer.ID(), Dimensions: Dimensions}
}

// Weight implements vector.Embedder.
func (e *Embedder) Weight() float64 { return Weight }

// Bytes returns the memory that the word vectors take once they are decoded.
func (e *Embedder) Bytes() (int, error) {
	t, err := words()
	if err != nil {
		return 0, err
	}
	return t.Bytes(), nil
}

// Embed implements vector.Embedder. It fails when the context has ended.
func (e *Embedder) Embed(ctx context.Context, kind vector.Kind, texts []string) ([]vector.Embedding, error) {
	out := make([]vector.Embedding, len(texts))
	for i, s := range texts {
		var err error
		if kind == vector.Query {
			out[i], err = e.EmbedQuery(ctx, s, nil)
		} else {
			out[i], err = e.EmbedTokens(ctx, e.analyzer.Tokens(s))
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// EmbedTokens embeds a document that was cut up already, by the analyzer of the
// embedder.
func (e *Embedder) EmbedTokens(ctx context.Context, tokens []text.Token) (vector.Embedding, error) {
	return embed(ctx, tokens, func(string) float64 { return 1 })
}

// EmbedQuery implements vector.LocalEmbedder.
func (e *Embedder) EmbedQuery(ctx context.Context, s string, rarity func(term string) float64) (vector.Embedding, error) {
	if rarity == nil {
		rarity = general
	}
	return embed(ctx, e.analyzer.Tokens(s), rarity)
}

// unknownRarity is the rarity of a word that the table does not have.
const unknownRarity = 9

// general is the rarity of a term in general.
func general(term string) float64 {
	t, err := words()
	if err != nil {
		return 1 // embed tells
	}
	i, ok := t.Find(term)
	if !ok {
		return unknownRarity
	}
	return t.Rarity(i)
}

func embed(ctx context.Context, tokens []text.Token, rarity func(string) float64) (vector.Embedding, error) {
	if err := ctx.Err(); err != nil {
		return vector.Embedding{}, err
	}
	table, err := words()
	if err != nil {
		return vector.Embedding{}, tiering.Errorf(tiering.CodeCorrupt, "the static embedder: %v", err)
	}
	tokens = slices.Clone(tokens)
	slices.SortFunc(tokens, func(a, b text.Token) int {
		if c := strings.Compare(a.Term, b.Term); c != 0 {
			return c
		}
		return strings.Compare(a.Word, b.Word)
	})
	v := make([]float32, Dimensions)
	for len(tokens) > 0 {
		n := 1
		for n < len(tokens) && tokens[n].Term == tokens[0].Term {
			n++
		}
		addTerm(v, table, tokens[:n], rarity(tokens[0].Term))
		tokens = tokens[n:]
	}
	vector.Normalise(v[:hashed])
	if half := vector.Normalise(v[hashed:]); half != nil {
		for i := range half {
			half[i] *= meaningShare
		}
	}
	return vector.Embedding{Vector: vector.Normalise(v)}, nil
}

// addTerm adds the tokens of one term.
func addTerm(v []float32, table *wordvec.Table, tokens []text.Token, weight float64) {
	term := tokens[0]
	if weight *= 1 + math.Log(float64(len(tokens))); weight <= 0 {
		return
	}
	switch {
	case term.Part: // a character alone means as much as a word elsewhere
		addHashed(v, runSeed, term.Term, weight)
		return
	case term.Unspaced:
		addHashed(v, termSeed, term.Term, weight)
		return
	}
	addHashed(v, termSeed, term.Term, weight)
	forms := 0 // of the term in the text
	for i, t := range tokens {
		if i == 0 || t.Word != tokens[i-1].Word {
			forms++
		}
	}
	for i, t := range tokens {
		if i == 0 || t.Word != tokens[i-1].Word {
			addRuns(v, t.Word, weight*characters/float64(forms))
		}
	}
	if i, ok := table.Find(term.Term); ok {
		table.Add(i, float32(weight), v[hashed:])
	}
}
