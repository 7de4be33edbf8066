package router

import (
	"cmp"
	"context"
	"maps"
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
	query   string
	scope   vector.Scope
	options rank.Options
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
	a := &arms{core: r.core, query: q.Query, scope: s, options: r.Memories.Rank.WithDefaults(), now: r.Clock(), deep: q.Deep}
	expander := r.Memories.Expander
	if q.Plain {
		expander, a.options = nil, plainRank()
	}
	words := lexical.Analyse(r.Memories.Entries.Analyzer, q.Query, expander)
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

// plainRank switches off what is ranked by besides the arms themselves.
func plainRank() rank.Options {
	return rank.Options{Next: -1, Previous: -1, Session: -1, Speaker: -1, Recency: -1, Importance: -1, Use: -1}.WithDefaults()
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

// wordsDepth is how much deeper the words' arm looks than the answer: memories
// beside one another add to each other's scores.
const wordsDepth = 5

// search looks depth deep with each arm and ranks what they find; more is false
// when there is nothing else to find.
func (a *arms) search(ctx context.Context, depth int) (out []ranked, more bool, err error) {
	var words, near []vector.Hit
	g, gctx := errgroup.WithContext(ctx)
	if len(a.words.Terms) > 0 {
		g.Go(func() (err error) {
			words, err = a.Memories.Index.Words(gctx, a.scope, a.words, wordsDepth*depth)
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
	found := merge(words, near)
	if err := a.addNeighbours(ctx, found); err != nil {
		return nil, false, err
	}
	more = len(words) == wordsDepth*depth || len(near) == depth
	return a.rank(found, depth), more, nil
}

// candidate is a memory with what each arm says of it.
type candidate struct {
	vector.Hit
	words  float64
	near   bool
	cosine float64
}

// merge joins what the arms found, by key.
func merge(words, near []vector.Hit) map[tiering.Key]*candidate {
	found := map[tiering.Key]*candidate{}
	for _, h := range words {
		found[h.Key] = &candidate{Hit: h, words: h.Score}
	}
	for _, h := range near {
		c := found[h.Key]
		if c == nil {
			c = &candidate{Hit: h}
			found[h.Key] = c
		}
		c.near, c.cosine = true, h.Score
	}
	return found
}

// addNeighbours adds the memories before and after each one in its session.
func (a *arms) addNeighbours(ctx context.Context, found map[tiering.Key]*candidate) error {
	var hits []vector.Hit
	for _, c := range found {
		if c.Session != "" {
			hits = append(hits, c.Hit)
		}
	}
	if len(hits) == 0 || a.options.Next < 0 && a.options.Previous < 0 {
		return nil
	}
	slices.SortFunc(hits, func(x, y vector.Hit) int { return x.Key.Compare(y.Key) })
	around, err := a.Memories.Index.Around(ctx, a.scope, hits)
	if err != nil {
		return err
	}
	for _, adjacent := range around {
		for _, h := range []*vector.Hit{adjacent.Before, adjacent.After} {
			if h != nil && found[h.Key] == nil {
				found[h.Key] = &candidate{Hit: *h}
			}
		}
	}
	return nil
}

// rank orders what was found.
func (a *arms) rank(found map[tiering.Key]*candidate, depth int) []ranked {
	sorted := slices.SortedFunc(maps.Values(found), func(x, y *candidate) int {
		return cmp.Or(x.At.Compare(y.At), x.Key.Compare(y.Key)) // in the order of remembering
	})
	at := make(map[string]*candidate, len(sorted))
	candidates := make([]rank.Candidate[string], len(sorted))
	for i, c := range sorted {
		id := c.Key.Namespace + "\x00" + c.Key.ID
		at[id] = c
		candidates[i] = rank.Candidate[string]{
			ID: id, Session: sessionOf(c.Hit), Position: c.At.UnixMicro(), Speaker: c.Speaker,
			Lexical: c.words, Similar: c.near, Similarity: c.cosine,
			Signals: rank.Signals{Ageless: c.Type == tiering.MemoryFact, Created: c.At, LastUsed: c.UsedAt, Uses: c.Uses, Importance: c.Importance},
		}
	}
	o := a.options
	o.Depth = max(o.Depth, depth)
	matches := rank.Rank(rank.Query{Text: a.query, VectorWeight: a.weight, Now: a.now}, candidates, o)
	out := make([]ranked, len(matches))
	for i, m := range matches {
		out[i] = ranked{hit: at[m.ID].Hit, score: tiering.MatchScore{
			Total: m.Total, Relevance: m.Relevance, Recency: m.Recency, Importance: m.Importance, Use: m.Use,
			Words: m.Lexical, WordsRank: m.LexicalRank, Vector: m.Similarity, VectorRank: m.VectorRank,
		}}
	}
	return out
}

// sessionOf tells sessions of several namespaces apart.
func sessionOf(h vector.Hit) string {
	if h.Session == "" {
		return ""
	}
	return h.Key.Namespace + "\x00" + h.Session
}
