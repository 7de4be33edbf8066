package pgvector

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// Sides of a hit in its session.
const (
	before = -1
	_      = 0 // itself
	after  = 1
)

// Around implements vector.Index. A session is read from each hit on, in both
// directions, for as far as it takes to meet one in scope.
func (x *Index) Around(ctx context.Context, s vector.Scope, hits []vector.Hit) (out []vector.Adjacent, err error) {
	ids := map[string][][]byte{} // by namespace
	for _, h := range hits {
		if h.Key.Tenant == s.Tenant && h.Session != "" {
			ids[h.Key.Namespace] = append(ids[h.Key.Namespace], []byte(h.Key.ID))
		}
	}
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	places, err := x.places(ctx, s)
	if err != nil {
		return nil, err
	}
	of := map[tiering.Key]*vector.Adjacent{}
	for _, p := range places {
		if ids[p.name] == nil {
			continue
		}
		var a args
		rows, err := x.walker().Query(ctx, x.aroundSQL(&a, s, p, ids[p.name]), a.values...)
		if err != nil {
			return nil, err
		}
		if err := drain(rows, func(rows pgx.Rows) error {
			var id []byte
			var side int
			var r hitRow
			err := rows.Scan(r.into(&id, &side)...)
			h := r.result(s.Tenant, p, 0)
			key := h.Key
			key.ID = string(id)
			if of[key] == nil {
				of[key] = &vector.Adjacent{Of: key}
			}
			switch side {
			case before:
				of[key].Before = &h
			case after:
				of[key].After = &h
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	for _, h := range hits {
		if found := of[h.Key]; found != nil {
			out = append(out, *found)
		}
	}
	return out, nil
}

// walker is where searches run that go through an index in its order.
func (x *Index) walker() queries {
	if x.walks != nil {
		return x.walks
	}
	return x.pool
}

// aroundSQL finds, of memories of a namespace that have a session, each itself
// and its neighbours in scope.
func (x *Index) aroundSQL(a *args, s vector.Scope, p place, ids [][]byte) string {
	n, within := a.add(p.nid), x.within(a, s, p)
	next := func(side, than, order string) string {
		return ` UNION ALL SELECT q.id, ` + side + `, ` + hitColumns + ` FROM q CROSS JOIN LATERAL (SELECT m.* FROM memory c` + memoriesOf(`c`, `JOIN`, ``) + `
			WHERE c.nid = ` + n + ` AND c.session = q.session AND c.session <> '' AND c.begun ` + than + `= q.at AND (c.begun ` + than + ` q.at OR m.id ` + than + ` q.id) AND ` + within + `
			ORDER BY c.begun ` + order + `, m.id ` + order + ` LIMIT 1) m`
	}
	return `WITH q AS MATERIALIZED (SELECT ` + hitColumns + ` FROM unnest(` + a.add(ids) + `::bytea[]) t(id)
			JOIN head h ON h.nid = ` + n + ` AND h.id = t.id` + memoriesOf(`h`, `JOIN`, ``) + ` WHERE m.session <> '')
		SELECT m.id, 0, ` + hitColumns + ` FROM q m` + next(`-1`, `<`, `DESC`) + next(`1`, `>`, `ASC`)
}
