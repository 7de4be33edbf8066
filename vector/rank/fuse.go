package rank

import (
	"cmp"
	"slices"
)

// Fusion is a way to join lists.
type Fusion uint8

// The ways. Scores adds up the scores of each list, as a share of its best, times
// its weight: how much better one memory is than the next is kept, so that what
// recency and importance add later is small beside it. Ranks is weighted
// reciprocal rank (Cormack, Clarke and Buettcher, 2009): weight/(K+rank).
const (
	Scores Fusion = iota
	Ranks
)

// List is one arm's answer, best first, and what the arm counts for. A weight of
// 0 or less leaves the list out.
type List[ID cmp.Ordered] struct {
	Weight float64
	IDs    []ID
	// Scores are those of IDs, from 0. Where a list has none all are joined by
	// Ranks.
	Scores []float64
}

// Fused is a memory of at least one list.
type Fused[ID cmp.Ordered] struct {
	ID    ID
	Score float64
	Ranks []int // in each list, from 1; 0 where it is not in the list
}

// Fuse joins the first Depth of each list. The best come first, equal scores in
// order of the ID.
func Fuse[ID cmp.Ordered](o Options, lists ...List[ID]) []Fused[ID] {
	o = o.WithDefaults()
	byRank := o.Fusion == Ranks || slices.ContainsFunc(lists, func(l List[ID]) bool { return len(l.Scores) != len(l.IDs) })
	var out []Fused[ID]
	at := map[ID]int{}
	for l, list := range lists {
		if list.Weight <= 0 {
			continue
		}
		for r, id := range list.IDs[:min(o.Depth, len(list.IDs))] {
			i, ok := at[id]
			if !ok {
				i = len(out)
				at[id] = i
				out = append(out, Fused[ID]{ID: id, Ranks: make([]int, len(lists))})
			}
			if out[i].Ranks[l] != 0 {
				continue // a list names a memory once
			}
			out[i].Ranks[l] = r + 1
			switch {
			case byRank:
				out[i].Score += list.Weight / (on(o.K) + float64(r+1))
			case list.Scores[0] > 0:
				out[i].Score += list.Weight * max(list.Scores[r], 0) / list.Scores[0]
			}
		}
	}
	slices.SortFunc(out, func(a, b Fused[ID]) int {
		if c := cmp.Compare(b.Score, a.Score); c != 0 {
			return c
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return out
}
