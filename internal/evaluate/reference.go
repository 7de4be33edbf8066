package evaluate

import (
	"cmp"
	"context"
	"slices"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/lexical"
	"github.com/tierd/tierd/vector/rank"
	"github.com/tierd/tierd/vector/text"
)

// Reference is recall in memory, by looking at everything: what the stores are
// held against, and what options are tried on. The zero value searches by words
// alone.
type Reference struct {
	Analyzer text.Analyzer
	Embedder vector.Embedder  // nil: no vectors
	Expander lexical.Expander // nil: no soft expansion
	Lexical  lexical.Options
	Rank     rank.Options

	corpora map[string]*corpus
}

// corpus is one conversation, indexed.
type corpus struct {
	memories []Memory
	docs     []text.Document
	vectors  []vector.Embedding
	stats    lexical.Stats
	df       map[string]int64
}

// Remember implements Searcher.
func (r *Reference) Remember(ctx context.Context, c Conversation) error {
	x := &corpus{memories: c.Memories, df: map[string]int64{}}
	texts := make([]string, len(c.Memories))
	for i, m := range c.Memories {
		texts[i] = text.Spoken(m.Speaker, m.Text)
		d := r.Analyzer.Terms(texts[i])
		x.docs = append(x.docs, d)
		x.stats = x.stats.Add(lexical.Stats{Documents: 1, TotalLength: int64(d.Length)})
		for _, t := range d.Terms {
			x.df[t.Text]++
		}
	}
	if r.Embedder != nil {
		var err error
		if x.vectors, err = r.Embedder.Embed(ctx, vector.Document, texts); err != nil {
			return err
		}
	}
	if r.corpora == nil {
		r.corpora = map[string]*corpus{}
	}
	r.corpora[c.ID] = x
	return nil
}

// scored is a memory of a corpus with a score.
type scored struct {
	index int
	score float64
}

// best returns the memories with a positive score, best first; equal scores in
// the order of remembering.
func best(scores []float64) []int {
	var list []scored
	for i, s := range scores {
		if s > 0 {
			list = append(list, scored{i, s})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := make([]int, len(list))
	for i, s := range list {
		out[i] = s.index
	}
	return out
}

// Search implements Searcher.
func (r *Reference) Search(ctx context.Context, s Search) ([]string, error) {
	c, ok := r.corpora[s.Conversation]
	if !ok {
		return nil, tiering.ErrNotFound
	}
	var order []int
	switch s.Mode {
	case Words:
		order = best(c.score(lexical.Analyse(&r.Analyzer, s.Text, nil), r.Lexical))
	case Vectors:
		scores, err := r.similarities(ctx, c, s.Text)
		if err != nil {
			return nil, err
		}
		order = best(scores)
	default:
		var err error
		if order, err = r.ranked(ctx, c, s); err != nil {
			return nil, err
		}
	}
	var ids []string
	for _, i := range order[:min(s.K, len(order))] {
		ids = append(ids, c.memories[i].ID)
	}
	return ids, nil
}

// score is the lexical arm.
func (c *corpus) score(q lexical.Query, o lexical.Options) []float64 {
	plan := q.Plan(c.stats, func(term string) int64 { return c.df[term] }, o)
	out := make([]float64, len(c.docs))
	for i, d := range c.docs {
		out[i] = plan.ScoreDocument(d)
	}
	return out
}

// similarities is the vector arm.
func (r *Reference) similarities(ctx context.Context, c *corpus, question string) ([]float64, error) {
	if r.Embedder == nil {
		return nil, nil
	}
	var q vector.Embedding
	var err error
	if local, ok := r.Embedder.(vector.LocalEmbedder); ok {
		q, err = local.EmbedQuery(ctx, question, func(term string) float64 { return c.stats.IDF(c.df[term]) })
	} else {
		var all []vector.Embedding
		if all, err = r.Embedder.Embed(ctx, vector.Query, []string{question}); err == nil {
			q = all[0]
		}
	}
	if err != nil || q.Vector == nil {
		return nil, err
	}
	out := make([]float64, len(c.vectors))
	for i, v := range c.vectors {
		if v.Vector != nil {
			out[i] = vector.Dot(q.Vector, v.Vector)
		}
	}
	return out, nil
}

// ranked is the default: both arms, in context, fused and weighted.
func (r *Reference) ranked(ctx context.Context, c *corpus, s Search) ([]int, error) {
	words := c.score(lexical.Analyse(&r.Analyzer, s.Text, r.Expander), r.Lexical)
	similar, err := r.similarities(ctx, c, s.Text)
	if err != nil {
		return nil, err
	}
	q := rank.Query{Text: s.Text, Now: s.Now}
	candidates := make([]rank.Candidate[int], len(c.memories))
	for i, m := range c.memories {
		candidates[i] = rank.Candidate[int]{
			ID: i, Session: m.Session, Position: int64(i), Speaker: m.Speaker, Lexical: words[i],
			Signals: rank.Signals{Created: m.Time, Ageless: s.Now.IsZero()},
		}
	}
	if r.Embedder != nil {
		q.VectorWeight = r.Embedder.Weight()
	}
	nearest := best(similar)
	for _, i := range nearest[:min(len(nearest), r.Rank.WithDefaults().Depth)] {
		candidates[i].Similar, candidates[i].Similarity = true, similar[i]
	}
	var order []int
	for _, m := range rank.Rank(q, candidates, r.Rank) {
		order = append(order, m.ID)
	}
	return order, nil
}
