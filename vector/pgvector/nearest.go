package pgvector

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/vector"
)

// slack is how many more vectors than asked for a search takes before it looks
// whether their memories stand: some may have ended, or expired.
const slack = 6

// Nearest implements vector.Index.
func (x *Index) Nearest(ctx context.Context, s vector.Scope, space string, v []float32, limit int, deep bool) ([]vector.Hit, error) {
	q := vector.Normalise(slices.Clone(v))
	if q == nil || limit <= 0 {
		return nil, ctx.Err()
	}
	nids, err := x.nids(ctx, s)
	if err != nil || len(nids) == 0 {
		return nil, err
	}
	sid, err := x.sid(ctx, space)
	if err != nil || sid == 0 {
		return nil, err
	}
	var all []vector.Hit
	for _, nid := range nids {
		hits, err := x.nearest(ctx, search{s, of{nid, sid}, q, limit, deep})
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
	if indexed == len(s.q) {
		some, err := x.estimate(ctx, s)
		if err != nil {
			return nil, err
		}
		if some > int64(x.opts.ExactUpTo) {
			hits, err := x.through(ctx, s)
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

// same is the condition of vectors of as many dimensions as the query.
func (x *Index) same(s search) string { return x.sql(fmt.Sprintf(`{{dims}}(v.v) = %d`, len(s.q))) }

// memoriesOf joins the memories of a few rows, one by one: a planner that knows
// little of the tables yet would read all of a namespace's.
func memoriesOf(rows string) string {
	return ` CROSS JOIN LATERAL (SELECT * FROM live_memory m WHERE m.kid = ` + rows + `.kid OFFSET 0) m`
}

// exact compares every vector in scope. At first the best of all are taken, and
// then those of them whose memories stand; when these are too few, or filters
// ask for more than a user, the memories come first. "OFFSET 0" keeps the planner
// from an index whose order is not exact.
func (x *Index) exact(ctx context.Context, s search) ([]vector.Hit, error) {
	if !narrows(s.scope) {
		hits, all, err := x.exactFirst(ctx, s)
		if err != nil || all || len(hits) == s.limit {
			return hits, err
		}
	}
	var a args
	q := a.add(s.q)
	within := x.within(&a, s.scope, s.nid) + keyed(&a, s.scope)
	var union string
	for _, t := range s.tables(true) {
		if union != "" {
			union += ` UNION ALL `
		}
		union += `SELECT v.kid, ` + x.apart(t, q) + ` AS d FROM ` + t + fmt.Sprintf(` v WHERE v.sid = %d AND `, s.sid) + x.same(s) + ` AND v.kid IN (SELECT kid FROM allowed)`
	}
	text := `WITH allowed AS MATERIALIZED (SELECT m.kid FROM live_memory m WHERE ` + within + `), near AS MATERIALIZED (SELECT * FROM (` + union + ` OFFSET 0) u ORDER BY d LIMIT ` + a.add(s.limit+slack) + `)
		SELECT near.d, 0, ` + hitColumns + ` FROM near` + memoriesOf(`near`)
	hits, _, err := x.hits(ctx, x.pool, text, a.values, s)
	return hits, err
}

// exactFirst is exact for a scope of a namespace or a user. all says that there
// are no more vectors than were taken.
func (x *Index) exactFirst(ctx context.Context, s search) (hits []vector.Hit, all bool, err error) {
	var a args
	text := `WITH near AS MATERIALIZED (` + x.nearestOf(&a, s, s.tables(true)) + `) SELECT near.d, (SELECT count(*) FROM near), ` + hitColumns + ` FROM near` + memoriesOf(`near`) + ` WHERE ` + x.alive(&a, s.scope)
	if s.scope.User != "" {
		text += ` AND m.owner = ` + a.add(s.scope.User)
	}
	hits, taken, err := x.hits(ctx, x.pool, text, a.values, s)
	return hits, taken < s.limit+slack, err
}

// nearestOf are the best of tables, compared one by one.
func (x *Index) nearestOf(a *args, s search, tables []string) string {
	q, limit := a.add(s.q), a.add(s.limit+slack)
	owner := ``
	if s.scope.User != "" {
		owner = ` AND v.owner = ` + a.add(s.scope.User)
	}
	union := ``
	for _, t := range tables {
		if union != "" {
			union += ` UNION ALL `
		}
		union += `SELECT v.kid, ` + x.apart(t, q) + ` AS d FROM ` + t + fmt.Sprintf(` v WHERE v.nid = %d AND v.sid = %d AND `, s.nid, s.sid) + x.same(s) + owner
	}
	return `SELECT * FROM (` + union + ` OFFSET 0) u ORDER BY d LIMIT ` + limit
}

// through searches with the namespace's index, and what is fresh one by one.
func (x *Index) through(ctx context.Context, s search) ([]vector.Hit, error) {
	var a args
	// Relaxed order needs more than is asked for, to put it in order.
	limit := s.limit + max(slack, s.limit/2)
	join := ``
	where := indexCondition(s.of, len(s.q), "v.", x)
	if s.scope.User != "" {
		where += ` AND v.owner = ` + a.add(s.scope.User)
	}
	if narrows(s.scope) {
		join, where = memoriesOf(`v`), where+` AND `+x.within(&a, s.scope, s.nid)+keyed(&a, s.scope)
	}
	column, operand, full := x.indexedColumn(len(s.q), "v.v"), x.indexedColumn(len(s.q), a.add(s.q)+`::real[]`), x.apart("memory_vector", a.add(s.q))
	text := `WITH near AS MATERIALIZED (SELECT v.kid, ` + full + ` AS d FROM memory_vector v` + join + ` WHERE ` + where + ` ORDER BY ` + column + x.sql(` {{near}} `) + operand + ` LIMIT ` + a.add(limit) + `),
		fresh AS MATERIALIZED (` + x.nearestOf(&a, s, s.tables(false)) + `)
		SELECT u.d, 0, ` + hitColumns + ` FROM (SELECT * FROM near UNION ALL SELECT * FROM fresh) u` + memoriesOf(`u`) + ` WHERE ` + x.within(&a, s.scope, s.nid) + keyed(&a, s.scope)
	if search := max(x.opts.Search, 2*s.limit); search > x.opts.Search || x.walks == nil {
		return x.throughOnce(ctx, s, search, text, a.values)
	}
	hits, _, err := x.hits(ctx, x.walks, text, a.values, s)
	return hits, err
}

// walking are the settings of a search through an index: it goes on until it has
// enough, and no other way may look cheaper.
func walking(search int) map[string]string {
	return map[string]string{
		"hnsw.ef_search": fmt.Sprint(min(1000, search)), "hnsw.iterative_scan": "relaxed_order", "hnsw.max_scan_tuples": "20000",
		"enable_sort": "off", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
	}
}

// throughOnce is a search with settings of its own.
func (x *Index) throughOnce(ctx context.Context, s search, wide int, text string, values []any) (hits []vector.Hit, err error) {
	var names, settings []string
	for name, value := range walking(wide) {
		names, settings = append(names, name), append(settings, value)
	}
	b := &pgx.Batch{}
	b.Queue(`BEGIN READ ONLY`)
	b.Queue(`SELECT set_config(t.name, t.value, true) FROM unnest($1::text[], $2::text[]) t(name, value)`, names, settings)
	b.Queue(text, values...).Query(func(rows pgx.Rows) (err error) {
		hits, _, err = scanHits(rows)
		return err
	})
	b.Queue(`COMMIT`)
	err = x.pool.SendBatch(ctx, b).Close()
	return best(hits, s.limit), err
}

// queries is a pool or a connection.
type queries interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// hits runs a search. taken is how many vectors it looked at last.
func (x *Index) hits(ctx context.Context, on queries, text string, values []any, s search) (hits []vector.Hit, taken int, err error) {
	rows, err := on.Query(ctx, text, values...)
	if err != nil {
		return nil, 0, err
	}
	hits, taken, err = scanHits(rows)
	return best(hits, s.limit), taken, err
}

// scanHits reads distances, counts and hitColumns.
func scanHits(rows pgx.Rows) (hits []vector.Hit, taken int, err error) {
	err = drain(rows, func(rows pgx.Rows) error {
		var d float64
		var r hitRow
		err := rows.Scan(append([]any{&d, &taken}, r.into()...)...)
		hits = append(hits, r.result(1-d))
		return err
	})
	return hits, taken, err
}
