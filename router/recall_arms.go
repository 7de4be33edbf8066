package router

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/entry"
	"github.com/tierd/tierd/vector/lexical"
	"github.com/tierd/tierd/vector/rank"
)

// arms are the two searches of one recall.
type arms struct {
	*core
	scope   vector.Scope
	options rank.Options
	query   string
	now     time.Time
	deep    bool

	words  lexical.Query // without terms: no words to search
	space  string        // of vector
	vector []float32     // nil: no vector to search
	weight float64       // of the vectors' list
	// missing says which arm could not take part, and why.
	missing []string
}

func (a *arms) partial() bool { return len(a.missing) > 0 }

// newArms prepares both: the words' plan, and the query's vector.
func (r *Router) newArms(ctx context.Context, q tiering.Recall, s vector.Scope) (*arms, error) {
	a := &arms{core: r.core, scope: s, options: r.Memories.Rank.WithDefaults(), query: q.Query, now: r.Clock(), deep: q.Deep}
	words := lexical.Analyse(r.Memories.Entries.Analyzer, q.Query, r.Memories.Expander)
	if q.Mode != tiering.RecallVector {
		a.words = words
	}
	if q.Mode == tiering.RecallLexical {
		return a, nil
	}
	if q.Embedding != nil {
		a.space, a.weight = entry.OwnSpace(q.Model, len(q.Embedding)), 1
		a.vector = vector.Normalise(slices.Clone(q.Embedding))
		return a, nil
	}
	err := a.embed(ctx, q.Query, words)
	if err != nil && (q.Mode == tiering.RecallVector || ctx.Err() != nil) {
		return nil, err
	}
	if err != nil {
		a.missing = append(a.missing, "vectors: "+tiering.DetailOf(err))
	}
	if q.Mode == tiering.RecallVector {
		a.weight = 1
	}
	return a, nil
}

// embed makes the query's vector, in the space that is searched.
func (a *arms) embed(ctx context.Context, query string, words lexical.Query) error {
	if a.Memories.Embedders == nil {
		return nil
	}
	e, err := a.Memories.Embedders.Searched(ctx)
	if err != nil || e == nil || e.Weight() == 0 {
		return err
	}
	a.weight = e.Weight()
	if local, ok := e.(vector.LocalEmbedder); ok {
		rarity, err := a.rarity(ctx, words)
		if err != nil {
			return err
		}
		got, err := local.EmbedQuery(ctx, query, rarity)
		a.vector, a.space = got.Vector, e.Space().ID()
		return err
	}
	got, err := e.Embed(ctx, vector.Query, []string{query})
	if err != nil {
		return err
	}
	a.vector, a.space = got[0].Vector, e.Space().ID()
	return nil
}

// rarity is how rare the words of a query are where it looks.
func (a *arms) rarity(ctx context.Context, words lexical.Query) (func(term string) float64, error) {
	terms := make([]string, len(words.Terms))
	for i, t := range words.Terms {
		terms[i] = t.Term
	}
	stats, counts, err := a.Memories.Index.Frequencies(ctx, a.scope, terms)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Vector, tiering.Key{})
	}
	held := map[string]int64{}
	for i, n := range counts {
		held[terms[i]] = n
	}
	return func(term string) float64 { return stats.IDF(held[term]) }, nil
}

// ranked is a memory with its score.
type ranked struct {
	hit   vector.Hit
	score tiering.MatchScore
}

// search looks depth deep with each arm and ranks what they find; more is false
// when there is nothing else to find.
func (a *arms) search(ctx context.Context, depth int) (out []ranked, more bool, err error) {
	var words, near []vector.Hit
	g, gctx := errgroup.WithContext(ctx)
	if len(a.words.Terms) > 0 {
		g.Go(func() (err error) {
			words, err = a.Memories.Index.Words(gctx, a.scope, a.words, depth)
			return err
		})
	}
	if a.vector != nil {
		g.Go(func() (err error) {
			near, err = a.Memories.Index.Nearest(gctx, a.scope, a.space, a.vector, depth, a.deep)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, false, err
	}
	more = len(words) == depth || len(near) == depth
	out, err = a.rank(ctx, words, near)
	return out, more, err
}

// rank puts both arms together, in the context of their sessions.
func (a *arms) rank(ctx context.Context, words, near []vector.Hit) ([]ranked, error) {
	hits := map[string]vector.Hit{}
	at := map[string]int{}
	var candidates []rank.Candidate[string]
	candidate := func(h vector.Hit) *rank.Candidate[string] {
		id := h.Key.Namespace + "\x00" + h.Key.ID
		i, ok := at[id]
		if !ok {
			i = len(candidates)
			at[id], hits[id] = i, h
			candidates = append(candidates, rank.Candidate[string]{
				ID: id, Session: sessionOf(h), Position: h.At.UnixMicro(), Speaker: h.Speaker,
				Signals: rank.Signals{
					Ageless: h.Type == tiering.MemoryFact, Created: created(h), LastUsed: h.UsedAt, Uses: h.Uses, Importance: h.Importance,
				},
			})
		}
		return &candidates[i]
	}
	for _, h := range words {
		candidate(h).Lexical = h.Score
	}
	for _, h := range near {
		c := candidate(h)
		c.Similar, c.Similarity = true, h.Score
	}
	around, err := a.around(ctx, slices.Concat(words, near[:min(len(near), a.options.Depth)]))
	if err != nil {
		return nil, err
	}
	for _, adjacent := range around {
		for _, h := range []*vector.Hit{adjacent.Before, adjacent.After} {
			if h != nil {
				candidate(*h)
			}
		}
	}
	slices.SortFunc(candidates, func(x, y rank.Candidate[string]) int { return cmp.Compare(x.ID, y.ID) })
	matches := rank.Rank(rank.Query{Text: a.query, VectorWeight: a.weight, Now: a.now}, candidates, a.options)
	out := make([]ranked, 0, len(matches))
	for _, m := range matches {
		out = append(out, ranked{hit: hits[m.ID], score: tiering.MatchScore{
			Total: m.Total, Relevance: m.Relevance, Recency: m.Recency, Importance: m.Importance, Use: m.Use,
			Words: m.Lexical, WordsRank: m.LexicalRank, Vector: m.Similarity, VectorRank: m.VectorRank,
		}})
	}
	return out, nil
}

// around finds the neighbours of what has a session, where they matter.
func (a *arms) around(ctx context.Context, found []vector.Hit) ([]vector.Adjacent, error) {
	if a.options.Next < 0 && a.options.Previous < 0 {
		return nil, nil
	}
	found = slices.DeleteFunc(found, func(h vector.Hit) bool { return h.Session == "" })
	if len(found) == 0 {
		return nil, nil
	}
	return a.Memories.Index.Around(ctx, a.scope, found)
}

// sessionOf tells sessions of several namespaces apart.
func sessionOf(h vector.Hit) string {
	if h.Session == "" {
		return ""
	}
	return h.Key.Namespace + "\x00" + h.Session
}

// created is when a memory began to age: an event when it happened.
func created(h vector.Hit) time.Time {
	if !h.At.IsZero() {
		return h.At
	}
	return h.CreatedAt
}
