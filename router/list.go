package router

import (
	"context"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The bounds of a page.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

func pageLimit(n int) (int, error) {
	switch {
	case n == 0:
		return defaultLimit, nil
	case n < 0 || n > maxLimit:
		return 0, tiering.Invalidf("limit %d: use 1 to %d", n, maxLimit)
	}
	return n, nil
}

// List returns live documents in id order.
func (r *Router) List(ctx context.Context, ns string, o *tiering.ListOptions) (*tiering.Page, error) {
	p, err := r.list(ctx, ns, orZero(o))
	return p, tiering.Wrap(err, "list", "", tiering.Key{Namespace: ns})
}

func (r *Router) list(ctx context.Context, ns string, o tiering.ListOptions) (*tiering.Page, error) {
	user, limit, err := r.admitPage(ctx, ns, o.User, o.Limit)
	if err != nil {
		return nil, err
	}
	l := warm.List{
		Tenant: r.who.Tenant, Namespace: ns, Prefix: o.Prefix, Prefixes: r.who.Scope.Prefixes, User: user,
		Limit: limit + 1, Bodies: o.Data,
	}
	if o.Cursor != "" {
		if l.After, err = warm.DecodeIDCursor(l.Hash(), o.Cursor); err != nil {
			return nil, err
		}
	}
	rows, err := r.Warm.List(ctx, l)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	page := &tiering.Page{Items: make([]tiering.Item, 0, len(rows))}
	if len(rows) > limit {
		rows = rows[:limit]
		page.NextCursor = warm.EncodeIDCursor(l.Hash(), rows[limit-1].Head.Key.ID)
	}
	for _, cur := range rows {
		page.Items = append(page.Items, item(cur, o.Data))
	}
	return page, nil
}

// admitPage is the admission of every call that pages through documents.
func (r *Router) admitPage(ctx context.Context, ns, askedUser string, askedLimit int) (user string, limit int, err error) {
	if err := r.admitNamespace(tiering.VerbRead, ns); err != nil {
		return "", 0, err
	}
	if user, err = r.ownerOf(askedUser); err != nil {
		return "", 0, err
	}
	if limit, err = pageLimit(askedLimit); err != nil {
		return "", 0, err
	}
	p, err := r.policyOf(ctx, r.who.Tenant, ns)
	if err != nil {
		return "", 0, err
	}
	if !p.Durable() {
		return "", 0, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it cannot be listed", ns)
	}
	return user, limit, nil
}

func item(cur warm.Current, data bool) tiering.Item {
	it := tiering.Item{Meta: cur.Head.Meta()}
	if data {
		it.Body, it.Cold = cur.Body, cur.Body == nil
	}
	return it
}

// Query returns the live documents that match a filter.
func (r *Router) Query(ctx context.Context, ns string, q *tiering.Query) (*tiering.Page, error) {
	p, err := r.query(ctx, ns, orZero(q))
	return p, tiering.Wrap(err, "query", "", tiering.Key{Namespace: ns})
}

func (r *Router) query(ctx context.Context, ns string, q tiering.Query) (*tiering.Page, error) {
	user, limit, err := r.admitPage(ctx, ns, q.User, q.Limit)
	if err != nil {
		return nil, err
	}
	p, err := r.policyOf(ctx, r.who.Tenant, ns)
	if err != nil {
		return nil, err
	}
	if p.KeepsAll() {
		return nil, wrongKind(ns, p.Kind, tiering.KindState)
	}
	if !*p.Query {
		return nil, tiering.Errorf(tiering.CodeUnsupported, `namespace %q has "query": false in its policy`, ns)
	}
	filter, err := warm.ParseFilter(q.Filter)
	if err != nil {
		return nil, err
	}
	order, desc := orderOf(q.OrderBy)
	rows, next, err := r.Warm.Query(ctx, warm.Query{
		Tenant: r.who.Tenant, Namespace: ns, Prefix: q.Prefix, Prefixes: r.who.Scope.Prefixes, User: user,
		Filter: filter, OrderBy: order, Descending: desc, Cursor: q.Cursor, Limit: limit, Indexed: p.Indexed(),
	})
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	page := &tiering.Page{Items: make([]tiering.Item, 0, len(rows)), NextCursor: next}
	for _, cur := range rows {
		page.Items = append(page.Items, item(cur, true))
	}
	return page, nil
}

// orderOf reads order_by: a JSON Pointer or a bare name, "-" before it for
// descending.
func orderOf(s string) (pointer string, descending bool) {
	if s != "" && s[0] == '-' {
		s, descending = s[1:], true
	}
	if s != "" && s[0] != '/' {
		s = "/" + s
	}
	return s, descending
}
