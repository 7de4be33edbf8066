// Package page keeps a page of the documents that a query matches, for drivers of
// warm that read documents in the order of their ids.
package page

import (
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Page is the page that a query asks for. It matches each document in Go, so that a
// filter means the same on every driver, and keeps no more than the page in memory,
// whatever the order.
type Page struct {
	query  warm.Query
	store  string
	sorted sorted
}

// New returns an empty page of q, whose Limit is above 0. store names the database in
// errors.
func New(q warm.Query, store string) (*Page, error) {
	p := &Page{query: q, store: store, sorted: sorted{descending: q.Descending, limit: q.Limit + 1}}
	if q.Cursor != "" {
		bound := &p.sorted.bound
		var err error
		if bound.value, bound.id, err = warm.DecodeCursor(q.Hash(), q.Cursor); err != nil {
			return nil, err
		}
		p.sorted.bounded = true
	}
	return p, nil
}

// inIDOrder: the first documents that match are the page.
func (p *Page) inIDOrder() bool { return p.query.OrderBy == "" && !p.query.Descending }

// After is the id behind which documents may be on the page; "" for all.
func (p *Page) After() string {
	if p.inIDOrder() {
		return p.sorted.bound.id
	}
	return ""
}

// Size is how many documents the page holds at most: one more than it returns, which
// says that there is a next page.
func (p *Page) Size() int { return p.sorted.limit }

// Offer takes a current document onto the page if it matches, and reports whether
// those behind it in id order may be wanted. A document whose bytes left warm, body
// nil, matches by its projection; it does not where it has none.
func (p *Page) Offer(h warm.Head, body, projection []byte, now time.Time) (more bool, err error) {
	doc := body
	if doc == nil {
		doc = projection
	}
	if doc == nil && h.InWarm {
		return false, &tiering.Error{Tier: tiering.Warm, Code: tiering.CodeCorrupt, Key: h.Key, Detail: "a body in " + p.store + " can not be decompressed: reading the document mends it"}
	}
	if doc == nil {
		return true, nil // in cold, and not asked to stay queryable
	}
	if ok, err := p.query.Filter.Match(doc); err != nil || !ok {
		return true, err
	}
	at := place{id: h.Key.ID}
	if p.query.OrderBy != "" {
		if at.value, err = warm.SortKey(doc, p.query.OrderBy); err != nil {
			return false, err
		}
	}
	p.sorted.offer(found{at, warm.Current{Head: h, Body: body, Now: now}})
	return !p.inIDOrder() || p.sorted.Len() < p.sorted.limit, nil
}

// Items empties the page in its order, and returns the cursor of the next one, ""
// when there is none.
func (p *Page) Items() (items []warm.Current, next string) {
	items, at := p.sorted.drain()
	limit := p.query.Limit
	if len(items) <= limit {
		return items, ""
	}
	return items[:limit], warm.EncodeCursor(p.query.Hash(), at[limit-1].value, at[limit-1].id)
}
