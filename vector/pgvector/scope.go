package pgvector

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/idrange"
	"github.com/tierd/tierd/internal/memoryhash"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// attributes are what a scope asks for that a hash finds. narrow leaves out the
// user, whom vectors know by themselves.
func attributes(s vector.Scope, nid int32, narrow bool) (tids []int64) {
	for _, a := range []struct {
		kind memoryhash.Kind
		text string
	}{{memoryhash.User, s.User}, {memoryhash.Agent, s.Agent}, {memoryhash.App, s.App}, {memoryhash.Session, s.Session}} {
		if a.text != "" && !(narrow && a.kind == memoryhash.User) {
			tids = append(tids, memoryhash.Of(nid, a.kind, a.text))
		}
	}
	if len(s.Types) == 1 && s.Types[0] != "" {
		tids = append(tids, memoryhash.Of(nid, memoryhash.Type, string(s.Types[0])))
	}
	return tids
}

// narrows reports whether a scope asks for more than a namespace and a user.
func narrows(s vector.Scope) bool {
	return s.Agent != "" || s.App != "" || s.Session != "" || len(s.Types) > 0 || len(s.Prefixes) > 0 || s.Keys != nil || !s.Since.IsZero() || !s.Until.IsZero()
}

// alive are the conditions of a row m of live_memory that depend on the clock.
func (x *Index) alive(a *args, s vector.Scope) string {
	now := x.now(a)
	c := `(m.expires = 0 OR m.expires > ` + now + `)`
	if !s.Superseded {
		c += ` AND (m.ends IS NULL OR m.ends > ` + now + `)`
	}
	return c
}

// within are all conditions of a scope on a row m of live_memory.
func (x *Index) within(a *args, s vector.Scope, p place) string {
	nid := p.nid
	n := a.add(nid)
	c := []string{`m.nid = ` + n, `m.of = ` + n, x.alive(a, s)}
	for _, is := range []struct{ column, want string }{{"owner", s.User}, {"agent", s.Agent}, {"app", s.App}, {"session", s.Session}} {
		if is.want != "" {
			c = append(c, `m.`+is.column+` = `+a.add(is.want))
		}
	}
	if len(s.Types) > 0 {
		types := make([]string, len(s.Types))
		for i, t := range s.Types {
			types[i] = string(t)
		}
		c = append(c, `m.type = ANY (`+a.add(types)+`::text[])`)
	}
	if tids := attributes(s, nid, false); tids != nil {
		c = append(c, `m.tids @> `+a.add(tids)+`::bigint[]`)
	}
	if !s.Since.IsZero() {
		c = append(c, `m.until >= `+a.add(s.Since.UnixMicro()))
	}
	if !s.Until.IsZero() {
		c = append(c, `m.at <= `+a.add(s.Until.UnixMicro()))
	}
	if len(s.Prefixes) > 0 {
		var any []string
		for _, p := range s.Prefixes {
			any = append(any, prefixed(a, p))
		}
		c = append(c, `(`+strings.Join(any, ` OR `)+`)`)
	}
	if s.Keys != nil {
		ids := [][]byte{}
		for _, k := range s.Keys {
			if k.Tenant == s.Tenant && k.Namespace == p.name {
				ids = append(ids, []byte(k.ID))
			}
		}
		c = append(c, `m.id = ANY (`+a.add(ids)+`::bytea[])`)
	}
	return strings.Join(c, ` AND `)
}

// prefixed is the condition that an id starts with p.
func prefixed(a *args, p string) string {
	r := idrange.Prefix(p)
	from := `m.id >= ` + a.add(r.From)
	if r.To == nil {
		return from
	}
	return `(` + from + ` AND m.id < ` + a.add(r.To) + `)`
}

// memoriesOf joins the memories of a few rows, one by one: a planner that knows
// little of the tables yet would read all of a namespace's. They are rows of
// live_memory without what the search knows, the names of tenant and namespace:
// one more look-up for each row would be a tenth of a short search.
func memoriesOf(rows, join, where string) string {
	return ` ` + join + ` LATERAL (SELECT * FROM (SELECT m.kid, m.nid, h.nid AS of, h.id, h.version, h.owner, h.created, CASE WHEN h.flags & 1 = 1 THEN 0 ELSE h.expires END AS expires,
			m.type, m.agent, m.app, m.session, m.speaker, coalesce(m.at, h.created) AS at, coalesce(m.until, m.at, h.created) AS until, m.ends, m.used, m.uses, m.importance, m.tids
		FROM memory m JOIN head h ON h.kid = m.kid WHERE h.op = 1) m WHERE m.kid = ` + rows + `.kid` + where + ` OFFSET 0) m ON true`
}

// hitColumns are read by hitRow, of a row m of live_memory.
const hitColumns = `m.id, m.version, m.owner, m.created, m.type, m.session, m.speaker, m.at, m.importance, m.uses, m.used`

// hitRow receives hitColumns.
type hitRow struct {
	hit         vector.Hit
	id          []byte
	created, at int64
	used        *int64
}

func (r *hitRow) into(before ...any) []any {
	h := &r.hit
	return append(before, &r.id, &h.Version, &h.User, &r.created, &h.Type, &h.Session, &h.Speaker, &r.at, &h.Importance, &h.Uses, &r.used)
}

func (r *hitRow) result(tenant string, p place, score float64) vector.Hit {
	h := r.hit
	h.Key, h.Score, h.CreatedAt, h.At = tiering.Key{Tenant: tenant, Namespace: p.name, ID: string(r.id)}, score, time.UnixMicro(r.created).UTC(), time.UnixMicro(r.at).UTC()
	if r.used != nil {
		h.UsedAt = time.UnixMicro(*r.used).UTC()
	}
	return h
}

// best are the best of hits, in order; of equal scores the lower keys.
func best(hits []vector.Hit, limit int) []vector.Hit {
	slices.SortFunc(hits, func(a, b vector.Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return a.Key.Compare(b.Key)
	})
	return hits[:min(limit, len(hits))]
}

// Count implements vector.Index.
func (x *Index) Count(ctx context.Context, s vector.Scope, upTo int) (n int, err error) {
	places, err := x.places(ctx, s)
	if err != nil {
		return 0, err
	}
	for _, p := range places {
		if n >= upTo {
			break
		}
		var a args
		within := x.within(&a, s, p)
		var some int
		if err := x.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM live_memory m WHERE `+within+` LIMIT `+a.add(upTo-n)+`) c`, a.values...).Scan(&some); err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

// each calls scan for every row.
func (x *Index) each(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := x.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return drain(rows, scan)
}

func drain(rows pgx.Rows, scan func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
