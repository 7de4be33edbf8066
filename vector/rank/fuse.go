package rank

import (
	"cmp"
	"slices"
)

// List is one arm's answer: its memories, best first, and what the arm counts
// for. A weight of 0 or less leaves the list out.
type List[ID cmp.Ordered] struct {
	Weight float64
	IDs    []ID
}

// Fused is a memory of at least one list.
type Fused[ID cmp.Ordered] struct {
	ID    ID
	Score float64
	Ranks []int // in each list, from 1; 0 where it is not in the list
}

// Fuse joins lists by weighted reciprocal rank (Cormack, Clarke and Buettcher,
// 2009): the sum of weight/(K+rank). The best come first, equal scores in order
// of the ID. At most Depth of each list take part.
func Fuse[ID cmp.Ordered](o Options, lists ...List[ID]) []Fused[ID] {
	o = o.WithDefaults()
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
			out[i].Score += list.Weight / (o.K + float64(r+1))
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
