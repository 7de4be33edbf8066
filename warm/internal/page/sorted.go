package page

import (
	"container/heap"
	"sort"
	"strings"

	"github.com/tierd/tierd/warm"
)

// place is where an item stands in the order: by value, equals by id.
type place struct {
	value warm.Value
	id    string
}

func (p place) compare(o place) int {
	if c := p.value.Compare(o.value); c != 0 {
		return c
	}
	return strings.Compare(p.id, o.id)
}

type found struct {
	at  place
	cur warm.Current
}

// sorted keeps the first limit items behind bound: a heap with the last of them
// on top. Descending is the same order from its other end.
type sorted struct {
	items      []found
	descending bool
	bounded    bool
	bound      place
	limit      int
}

// before reports whether a comes before b in the order.
func (s *sorted) before(a, b place) bool {
	if s.descending {
		a, b = b, a
	}
	return a.compare(b) < 0
}

func (s *sorted) offer(f found) {
	if s.bounded && !s.before(s.bound, f.at) {
		return
	}
	if len(s.items) == s.limit {
		if !s.before(f.at, s.items[0].at) {
			return
		}
		s.items[0] = f
		heap.Fix(s, 0)
		return
	}
	heap.Push(s, f)
}

// drain empties the page in its order.
func (s *sorted) drain() (items []warm.Current, at []place) {
	sort.Slice(s.items, func(i, j int) bool { return s.before(s.items[i].at, s.items[j].at) })
	for _, f := range s.items {
		items, at = append(items, f.cur), append(at, f.at)
	}
	return items, at
}

// Len, Less, Swap, Push and Pop are heap.Interface.
func (s *sorted) Len() int           { return len(s.items) }
func (s *sorted) Less(i, j int) bool { return s.before(s.items[j].at, s.items[i].at) }
func (s *sorted) Swap(i, j int)      { s.items[i], s.items[j] = s.items[j], s.items[i] }
func (s *sorted) Push(x any) {
	if f, ok := x.(found); ok { // offer pushes nothing else
		s.items = append(s.items, f)
	}
}
func (s *sorted) Pop() any {
	last := s.items[len(s.items)-1]
	s.items = s.items[:len(s.items)-1]
	return last
}
