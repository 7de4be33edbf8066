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
	scope    vector.Scope
	options  rank.Options
	speakers *rank.Speakers
	now      time.Time
	deep     bool

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
	a := &arms{core: r.core, scope: s, options: r.Memories.Rank.WithDefaults(), now: r.Clock(), deep: q.Deep}
	a.speakers = rank.NewSpeakers(q.Query, a.options)
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
	if words, err = a.inSessions(ctx, words); err != nil {
		return nil, false, err
	}
	return a.fuse(words, near, depth), more, nil
}

// inSessions gives each memory that words were found in a share of its
// neighbours' scores, and prefers the speakers that the query names.
func (a *arms) inSessions(ctx context.Context, words []vector.Hit) ([]vector.Hit, error) {
	if slices.ContainsFunc(words, func(h vector.Hit) bool { return h.Session != "" }) && a.options.Next+a.options.Previous > 0 {
		around, err := a.Memories.Index.Around(ctx, a.scope, words)
		if err != nil {
			return nil, err
		}
		words = shareScores(words, around, a.options)
	}
	for i := range words {
		words[i].Score *= a.speakers.Boost(words[i].Speaker)
	}
	slices.SortFunc(words, func(x, y vector.Hit) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), x.Key.Compare(y.Key))
	})
	return words, nil
}

// shareScores adds the neighbours to what was found, and the shares of their scores
// to both.
func shareScores(words []vector.Hit, around []vector.Adjacent, o rank.Options) []vector.Hit {
	known := map[tiering.Key]bool{}
	for _, h := range words {
		known[h.Key] = true
	}
	for _, adjacent := range around {
		for _, h := range []*vector.Hit{adjacent.Before, adjacent.After} {
			if h != nil && !known[h.Key] {
				known[h.Key] = true
				silent := *h
				silent.Score = 0
				words = append(words, silent)
			}
		}
	}
	slices.SortStableFunc(words, func(x, y vector.Hit) int {
		return cmp.Or(x.At.Compare(y.At), x.Key.Compare(y.Key))
	})
	turns := make([]rank.Turn, len(words))
	for i, h := range words {
		turns[i] = rank.Turn{Session: sessionOf(h), Position: h.At.UnixMicro(), Score: h.Score}
	}
	for i, score := range rank.Spread(turns, o) {
		words[i].Score = score
	}
	return slices.DeleteFunc(words, func(h vector.Hit) bool { return h.Score <= 0 })
}

// sessionOf tells sessions of several namespaces apart.
func sessionOf(h vector.Hit) string {
	if h.Session == "" {
		return ""
	}
	return h.Key.Namespace + "\x00" + h.Session
}

// fuse joins the arms by reciprocal rank, and weighs what comes of it.
func (a *arms) fuse(words, near []vector.Hit, depth int) []ranked {
	hits := map[string]vector.Hit{}
	scores := [2]map[string]float64{{}, {}}
	lists := [2][]string{}
	for i, list := range [2][]vector.Hit{words, near} {
		for _, h := range list {
			id := h.Key.Namespace + "\x00" + h.Key.ID
			hits[id], scores[i][id] = h, h.Score
			lists[i] = append(lists[i], id)
		}
	}
	o := a.options
	o.Depth = max(o.Depth, depth)
	fused := rank.Fuse(o, rank.List[string]{Weight: 1, IDs: lists[0]}, rank.List[string]{Weight: a.weight, IDs: lists[1]})
	out := make([]ranked, 0, len(fused))
	for _, f := range fused {
		h := hits[f.ID]
		parts := rank.Final(f.Score, fused[0].Score, rank.Signals{
			Ageless: h.Type == tiering.MemoryFact, Created: created(h), LastUsed: h.UsedAt, Uses: h.Uses, Importance: h.Importance,
		}, a.now, a.options)
		out = append(out, ranked{hit: h, score: tiering.MatchScore{
			Total: parts.Total, Relevance: parts.Relevance, Recency: parts.Recency, Importance: parts.Importance, Use: parts.Use,
			Words: scores[0][f.ID], WordsRank: f.Ranks[0], Vector: scores[1][f.ID], VectorRank: f.Ranks[1],
		}})
	}
	slices.SortStableFunc(out, func(x, y ranked) int { return cmp.Compare(y.score.Total, x.score.Total) })
	return out
}

// created is when a memory began to age: an event when it happened.
func created(h vector.Hit) time.Time {
	if !h.At.IsZero() {
		return h.At
	}
	return h.CreatedAt
}
