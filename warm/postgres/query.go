package postgres

import (
	"container/heap"
	"context"
	"sort"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Query implements warm.Reader. It reads the current documents of the
// namespace in id order and matches each in Go, so that a filter means the
// same on every driver; an order by content keeps only the page in memory.
// Documents whose bytes left warm match by their projection.
func (s *Store) Query(ctx context.Context, q warm.Query) (items []warm.Current, next string, err error) {
	if q.Limit <= 0 {
		return nil, "", nil
	}
	p := &page{descending: q.Descending, limit: q.Limit + 1}
	if q.Cursor != "" {
		p.bounded = true
		if p.bound.value, p.bound.id, err = warm.DecodeCursor(q.Hash(), q.Cursor); err != nil {
			return nil, "", err
		}
	}
	sc := scan{tenant: q.Tenant, namespace: q.Namespace, spans: spans(q.Prefix, q.Prefixes), user: q.User, bodies: true, projections: true}
	sc.narrow(q.Filter)
	inIDOrder := q.OrderBy == "" && !q.Descending
	if inIDOrder {
		sc.after = p.bound.id
	}
	match := func(row scanned, now time.Time) (bool, error) {
		doc := row.body
		if doc == nil {
			doc = row.projection
		}
		if doc == nil && row.head.InWarm {
			return false, &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt, Key: row.head.Key, Detail: "a body in PostgreSQL can not be decompressed: reading the document mends it"}
		}
		if doc == nil {
			return true, nil // in cold, and not asked to stay queryable
		}
		if ok, err := q.Filter.Match(doc); err != nil || !ok {
			return true, err
		}
		at := place{id: row.head.Key.ID}
		if q.OrderBy != "" {
			if at.value, err = warm.SortKey(doc, q.OrderBy); err != nil {
				return false, err
			}
		}
		p.offer(found{at, warm.Current{Head: row.head, Body: row.body, Now: now}})
		return !inIDOrder || p.Len() < p.limit, nil
	}
	if err := s.matching(ctx, q, sc, p.limit, match); err != nil {
		return nil, "", err
	}
	items, last := p.sorted()
	if len(items) <= q.Limit {
		return items, "", nil
	}
	return items[:q.Limit], warm.EncodeCursor(q.Hash(), last[q.Limit-1].value, last[q.Limit-1].id), nil
}

// matching calls each for the documents that may match: those that an index
// names, or all.
func (s *Store) matching(ctx context.Context, q warm.Query, sc scan, first int, each func(scanned, time.Time) (bool, error)) error {
	if q.Indexed {
		ids, ok, err := s.candidates(ctx, &sc, q.Filter)
		if err != nil {
			return err
		}
		if ok {
			return s.listed(ctx, sc, ids, first, each)
		}
	}
	return s.live(ctx, sc, first, each)
}

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

// page keeps the first limit items behind bound: a heap with the last of them
// on top. Descending is the same order from its other end.
type page struct {
	items      []found
	descending bool
	bounded    bool
	bound      place
	limit      int
}

// before reports whether a comes before b on the page.
func (p *page) before(a, b place) bool {
	if p.descending {
		a, b = b, a
	}
	return a.compare(b) < 0
}

func (p *page) offer(f found) {
	if p.bounded && !p.before(p.bound, f.at) {
		return
	}
	if len(p.items) == p.limit {
		if !p.before(f.at, p.items[0].at) {
			return
		}
		p.items[0] = f
		heap.Fix(p, 0)
		return
	}
	heap.Push(p, f)
}

// sorted empties the page in its order.
func (p *page) sorted() (items []warm.Current, at []place) {
	sort.Slice(p.items, func(i, j int) bool { return p.before(p.items[i].at, p.items[j].at) })
	for _, f := range p.items {
		items, at = append(items, f.cur), append(at, f.at)
	}
	return items, at
}

// Len, Less, Swap, Push and Pop are heap.Interface.
func (p *page) Len() int           { return len(p.items) }
func (p *page) Less(i, j int) bool { return p.before(p.items[j].at, p.items[i].at) }
func (p *page) Swap(i, j int)      { p.items[i], p.items[j] = p.items[j], p.items[i] }
func (p *page) Push(x any) {
	if f, ok := x.(found); ok { // offer pushes nothing else
		p.items = append(p.items, f)
	}
}
func (p *page) Pop() any {
	last := p.items[len(p.items)-1]
	p.items = p.items[:len(p.items)-1]
	return last
}
