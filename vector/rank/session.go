package rank

import (
	"cmp"
	"slices"
	"strings"
)

// Turn is a memory with its score by one arm and its place in its conversation.
type Turn struct {
	Session  string // empty: it has none, and no neighbours
	Position int64  // grows within the session, in the order of remembering
	Speaker  string // empty: nobody in particular
	Score    float64
}

// InContext returns the scores of one arm, in the order of turns, as the
// conversations around them make them: Spread, then the boost of the speakers
// that the query names, then Session.
func InContext(turns []Turn, named *Speakers, o Options) []float64 {
	scores := Spread(turns, o)
	for i, t := range turns {
		scores[i] *= named.Boost(t.Speaker)
	}
	return Session(turns, scores, o)
}

// Session returns the scores with the share of the best of each one's session
// added. A memory without a session is one of its own. One without a score stays
// without.
func Session(turns []Turn, scores []float64, o Options) []float64 {
	o = o.WithDefaults()
	best := map[string]float64{}
	for i, t := range turns {
		best[t.Session] = max(best[t.Session], scores[i])
	}
	out := make([]float64, len(scores))
	for i, t := range turns {
		switch {
		case scores[i] <= 0:
		case t.Session == "":
			out[i] = scores[i] * (1 + on(o.Session))
		default:
			out[i] = scores[i] + on(o.Session)*best[t.Session]
		}
	}
	return out
}

// Spread returns the score of each turn with the shares of its neighbours'
// added, in the order of turns. The input holds, for every turn with a score,
// the one before and the one after it in its session, if there are such; more of
// them do no harm. Two turns of one session with equal positions keep the order
// of the input.
func Spread(turns []Turn, o Options) []float64 {
	o = o.WithDefaults()
	out := make([]float64, len(turns))
	order := make([]int, len(turns))
	for i, t := range turns {
		out[i], order[i] = t.Score, i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if c := strings.Compare(turns[a].Session, turns[b].Session); c != 0 {
			return c
		}
		return cmp.Compare(turns[a].Position, turns[b].Position)
	})
	for n := 1; n < len(order); n++ {
		before, after := order[n-1], order[n]
		if turns[after].Session == "" || turns[before].Session != turns[after].Session {
			continue
		}
		out[after] += on(o.Next) * turns[before].Score
		out[before] += on(o.Previous) * turns[after].Score
	}
	return out
}
