package sqlite

import (
	"context"

	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/page"
)

// Query implements warm.Reader. It reads the current documents of the
// namespace in id order.
func (s *Store) Query(ctx context.Context, q warm.Query) (items []warm.Current, next string, err error) {
	if q.Limit <= 0 {
		return nil, "", nil
	}
	p, err := page.New(q, s.path)
	if err != nil {
		return nil, "", err
	}
	sc := scan{tenant: q.Tenant, namespace: q.Namespace, prefix: q.Prefix, prefixes: q.Prefixes, user: q.User, after: p.After(), bodies: true, projections: true}
	now := s.now()
	err = s.reader(ctx, func(c *conn) error {
		return s.live(ctx, c, sc, now, func(row scanned) (bool, error) { return p.Offer(row.head, row.body, row.projection, now) })
	})
	if err != nil {
		return nil, "", err
	}
	items, next = p.Items()
	return items, next, nil
}
