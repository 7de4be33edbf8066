package rank

import (
	"cmp"
	"slices"
	"time"
)

// Candidate is a memory that an arm found, or one beside such a one in its
// session. Every memory that an arm found comes with the one before and the one
// after it in its session, if there are such. All of them may be answered: they
// are the asker's, live, and pass the filter.
type Candidate[ID cmp.Ordered] struct {
	ID       ID
	Session  string
	Position int64 // grows within the session, in the order of remembering
	Speaker  string
	// Lexical is the score of lexical.Plan, 0 for none.
	Lexical float64
	// Similarity is the cosine with the query, of memories that the vector arm
	// found (Similar): at least the nearest Options.Depth, or all within the filter
	// if there are fewer.
	Similar    bool
	Similarity float64
	Signals    Signals
}

// Query is what is asked.
type Query struct {
	Text string
	// VectorWeight is vector.Embedder's Weight; 1 for a caller's own vector.
	VectorWeight float64
	Now          time.Time
}

// Match is a memory of the answer with everything its score is made of.
type Match[ID cmp.Ordered] struct {
	ID ID
	Parts
	Lexical     float64 // as in Candidate
	Similarity  float64 // as in Candidate
	LexicalRank int     // in the lexical arm, in context; from 1, 0 for none
	VectorRank  int     // in the vector arm, in context; from 1, 0 for none
}

// Rank orders candidates, best first, equal ones by ID. Left out are those that
// neither arm found, also not through the turns beside them.
func Rank[ID cmp.Ordered](q Query, candidates []Candidate[ID], o Options) []Match[ID] {
	o = o.WithDefaults()
	named := NewSpeakers(q.Text, o)
	turns := make([]Turn, len(candidates))
	for i, c := range candidates {
		turns[i] = Turn{c.Session, c.Position, c.Speaker, max(c.Lexical, 0)}
	}
	lexical := list(candidates, InContext(turns, named, o), 1, false)
	floor := similarityFloor(candidates, o.Depth)
	for i, c := range candidates {
		turns[i].Score = 0
		if c.Similar {
			turns[i].Score = max(c.Similarity-floor, 0)
		}
	}
	vectors := list(candidates, InContext(turns, named, o), q.VectorWeight, true)

	at := make(map[ID]int, len(candidates))
	for i, c := range candidates {
		at[c.ID] = i
	}
	o.Depth = max(len(candidates), 1)
	fused := Fuse(o, lexical, vectors)
	best := 0.0
	if len(fused) > 0 {
		best = fused[0].Score
	}
	out := make([]Match[ID], 0, len(fused))
	for _, f := range fused {
		c := candidates[at[f.ID]]
		out = append(out, Match[ID]{
			ID: f.ID, Parts: Final(f.Score, best, c.Signals, q.Now, o),
			Lexical: c.Lexical, Similarity: c.Similarity, LexicalRank: f.Ranks[0], VectorRank: f.Ranks[1],
		})
	}
	slices.SortStableFunc(out, func(a, b Match[ID]) int { return cmp.Compare(b.Total, a.Total) })
	return out
}

// list is one arm's answer: the candidates with a score, and of the vector arm
// also those it found whose similarity is at the floor.
func list[ID cmp.Ordered](candidates []Candidate[ID], scores []float64, weight float64, similar bool) List[ID] {
	var order []int
	for i, c := range candidates {
		if scores[i] > 0 || similar && c.Similar {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		if c := cmp.Compare(scores[b], scores[a]); c != 0 {
			return c
		}
		return cmp.Compare(candidates[a].ID, candidates[b].ID)
	})
	l := List[ID]{Weight: weight}
	for _, i := range order {
		l.IDs = append(l.IDs, candidates[i].ID)
		l.Scores = append(l.Scores, scores[i])
	}
	return l
}

// similarityFloor is the similarity of the last of the nearest. What so many have
// in common says nothing: with many models no two texts are below 0.6.
func similarityFloor[ID cmp.Ordered](candidates []Candidate[ID], depth int) float64 {
	var all []float64
	for _, c := range candidates {
		if c.Similar {
			all = append(all, c.Similarity)
		}
	}
	slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(b, a) })
	switch {
	case len(all) == 0:
		return 0
	case len(all) == 1:
		return min(all[0], 0)
	}
	return all[min(depth, len(all))-1]
}
