package pgvector

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/vector"
)

// slack is how many more vectors than asked for a search takes before it looks
// whether their memories stand: some may have ended, or expired. Each costs two
// look-ups.
const slack = 4

// Nearest implements vector.Index.
func (x *Index) Nearest(ctx context.Context, s vector.Scope, space string, v []float32, limit int, deep bool) ([]vector.Hit, error) {
	q := vector.Normalise(slices.Clone(v))
	if q == nil || limit <= 0 {
		return nil, ctx.Err()
	}
	places, err := x.places(ctx, s)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	sid, err := x.sid(ctx, space)
	if err != nil || sid == 0 {
		return nil, err
	}
	var all []vector.Hit
	for _, p := range places {
		hits, err := x.nearest(ctx, search{s, p, of{p.nid, sid}, q, limit, deep})
		if err != nil {
			return nil, err
		}
		all = append(all, hits...)
	}
	return best(all, limit), nil
}

// search is one search in one namespace.
type search struct {
	scope vector.Scope
	place place
	of
	q     []float32
	limit int
	deep  bool
}

// nearest chooses the way of a search: through the index, where there is one
// and the filters let more through than is worth comparing; else one by one.
func (x *Index) nearest(ctx context.Context, s search) ([]vector.Hit, error) {
	indexed, err := x.indexed(ctx, s.of)
	if err != nil {
		return nil, err
	}
	if indexed.dims == len(s.q) {
		some, err := x.estimate(ctx, s)
		if err != nil {
			return nil, err
		}
		if some > int64(x.opts.ExactUpTo) {
			hits, err := x.through(ctx, s, x.width(s, indexed))
			if err != nil || len(hits) == s.limit {
				return hits, err
			}
		}
	}
	return x.exact(ctx, s)
}

// estimate is about how many memories a search may find, at most: what an
// attribute or keys let through.
func (x *Index) estimate(ctx context.Context, s search) (int64, error) {
	if s.scope.Keys != nil {
		return int64(len(s.scope.Keys)), nil
	}
	tids := attributes(s.scope, s.nid, false)
	if tids == nil {
		return 1 << 40, nil
	}
	// Hashes that the counts do not know yet are rare.
	var n int64
	err := x.pool.QueryRow(ctx, `SELECT coalesce(min(coalesce(f.n, 0)), 0) FROM unnest($1::bigint[]) t(tid) LEFT JOIN memory_frequency f ON f.tid = t.tid`, tids).Scan(&n)
	return n, err
}

// tables are those that a search looks at one by one.
func (s search) tables(alsoIndexed bool) []string {
	t := []string{"memory_fresh"}
	if alsoIndexed {
		t = append(t, "memory_vector")
	}
	if s.deep {
		t = append(t, "memory_dormant")
	}
	return t
}

// apart is the distance of a vector of a table to the query at a place, which a
// plan for any query makes a vector once that way, and not for each row.
func (x *Index) apart(table, q string) string {
	q = `(SELECT ` + q + `::real[]::{{vector}})`
	if table == "memory_dormant" {
		return x.sql(`(v.v::{{vector}} {{near}} ` + q + `)`)
	}
	return x.sql(`(v.v {{near}} ` + q + `)`)
}

// oneByOne are the vectors of tables that meet a condition, with their distances to
// the query at q; beside is what is joined with them.
func (x *Index) oneByOne(tables []string, q, beside, where string) string {
	all := make([]string, len(tables))
	for i, t := range tables {
		all[i] = `SELECT v.kid, ` + x.apart(t, q) + ` AS d FROM ` + t + ` v` + beside + ` WHERE ` + where
	}
	return strings.Join(all, ` UNION ALL `)
}

// standing takes the best of some vectors, and of their memories those that
// stand and meet a condition; rows of the others are NULL. "OFFSET 0" keeps the
// planner from an index whose order is not exact.
func (x *Index) standing(a *args, s search, some, where string) string {
	return `SELECT near.d, ` + hitColumns + ` FROM (SELECT * FROM (` + some + ` OFFSET 0) u ORDER BY d LIMIT ` + a.add(s.limit+slack) + `) near` + memoriesOf(`near`, `LEFT JOIN`, where)
}

// exact compares every vector in scope. At first the best of all are taken, and
// then those of them whose memories stand; when these are too few, or filters
// ask for more than a user, the memories come first.
func (x *Index) exact(ctx context.Context, s search) ([]vector.Hit, error) {
	if !narrows(s.scope) {
		hits, all, err := x.exactFirst(ctx, s)
		if err != nil || all || len(hits) == s.limit {
			return hits, err
		}
	}
	var a args
	q, within := a.add(s.q), x.within(&a, s.scope, s.place)
	some := x.oneByOne(s.tables(true), q, ``, x.condition(s.of, len(s.q), "v.")+` AND v.kid IN (SELECT kid FROM allowed)`)
	text := `WITH allowed AS MATERIALIZED (SELECT m.kid FROM live_memory m WHERE ` + within + `) ` + x.standing(&a, s, some, ``)
	hits, _, err := x.hits(ctx, x.pool, text, a.values, s)
	return hits, err
}

// exactFirst is exact for a scope of a namespace or a user. all says that there
// are no more vectors than were taken.
func (x *Index) exactFirst(ctx context.Context, s search) (hits []vector.Hit, all bool, err error) {
	var a args
	q := a.add(s.q)
	where, owned := x.ofUser(&a, s)
	text := x.standing(&a, s, x.oneByOne(s.tables(true), q, ``, where), ` AND `+x.alive(&a, s.scope)+owned)
	hits, taken, err := x.hits(ctx, x.pool, text, a.values, s)
	return hits, taken < s.limit+slack, err
}

// ofUser are the conditions on vectors and on memories of a namespace, of a user
// if the scope has one.
func (x *Index) ofUser(a *args, s search) (vectors, memories string) {
	vectors = x.condition(s.of, len(s.q), "v.")
	if s.scope.User == "" {
		return vectors, ``
	}
	is := `owner = ` + a.add(s.scope.User)
	return vectors + ` AND v.` + is, ` AND m.` + is
}

// queries is a pool or a connection.
type queries interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// hits runs a search. taken is how many vectors it took.
func (x *Index) hits(ctx context.Context, on queries, text string, values []any, s search) (hits []vector.Hit, taken int, err error) {
	rows, err := on.Query(ctx, text, values...)
	if err != nil {
		return nil, 0, err
	}
	hits, taken, err = scanHits(rows, s)
	return best(hits, s.limit), taken, err
}

// scanHits reads distances and hitColumns.
func scanHits(rows pgx.Rows, s search) (hits []vector.Hit, taken int, err error) {
	var d float64
	var r hitRow
	into := r.into(&d)
	err = drain(rows, func(rows pgx.Rows) error {
		taken++
		if rows.RawValues()[1] == nil { // its memory does not stand
			return nil
		}
		err := rows.Scan(into...)
		hits = append(hits, r.result(s.scope.Tenant, s.place, 1-d))
		return err
	})
	return hits, taken, err
}
