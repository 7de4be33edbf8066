package rank

import (
	"cmp"
	"slices"
	"strings"
)

// Turn is a memory with its place in its session.
type Turn struct {
	Session  string // empty: it has none, and no neighbours
	Position int64  // grows within the session, in the order of remembering
	Score    float64
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
		out[after] += o.Next * turns[before].Score
		out[before] += o.Previous * turns[after].Score
	}
	return out
}
