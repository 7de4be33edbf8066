package postgres

import (
	"context"
	"time"

	"github.com/tierd/tierd/internal/idrange"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/page"
)

// Query implements warm.Reader. It reads the current documents of the
// namespace in id order. Those that it had to read for want of a projection get
// one: the next query need not.
func (s *Store) Query(ctx context.Context, q warm.Query) (items []warm.Current, next string, err error) {
	if q.Limit <= 0 {
		return nil, "", nil
	}
	p, err := page.New(q, "PostgreSQL")
	if err != nil {
		return nil, "", err
	}
	sc := scan{tenant: q.Tenant, namespace: q.Namespace, spans: idrange.Prefixes(q.Prefix, q.Prefixes), user: q.User, after: p.After(), bodies: true, projections: true}
	sc.narrow(q.Filter)
	offer := func(row scanned, now time.Time) (bool, error) {
		if row.bare && sc.where != "" {
			s.projector.add(docAt{row.nid, row.head.Key.ID}, row.head.Version, row.stored)
		}
		return p.Offer(row.head, row.body, row.projection, now)
	}
	if err := s.matching(ctx, q, sc, p.Size(), offer); err != nil {
		return nil, "", err
	}
	items, next = p.Items()
	return items, next, nil
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
