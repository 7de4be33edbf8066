package pgvector

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/vector"
)

// walking are the settings of a search through an index: it goes on until it has
// enough, and no other way may look cheaper.
var walking = map[string]string{
	"hnsw.iterative_scan": "relaxed_order", "hnsw.max_scan_tuples": "20000",
	"enable_sort": "off", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
}

// searchSetting is how many candidates a search through an index keeps.
const searchSetting = "hnsw.ef_search"

// width is how many candidates a search through an index keeps. What was measured
// is for few matches without a filter: more of them, and what a filter takes
// away, need more.
func (x *Index) width(s search, i hnsw) int {
	n := i.search
	if n == 0 || s.scope.User != "" || narrows(s.scope) {
		n = max(n, x.opts.Search)
	}
	return min(1000, n+2*max(0, s.limit-tunedFor))
}

// through searches with the namespace's index, and what is fresh one by one.
// The index knows half vectors, and gives what it finds in an order that is
// about right: so it is asked for more, and the whole vectors decide.
func (x *Index) through(ctx context.Context, s search, wide int) ([]vector.Hit, error) {
	var a args
	q := a.add(s.q)
	where, owned := x.ofUser(&a, s)
	stands, beside := ` AND `+x.alive(&a, s.scope)+owned, ``
	if narrows(s.scope) {
		stands = ` AND ` + x.within(&a, s.scope, s.place)
		beside = memoriesOf(`v`, `JOIN`, stands)
	}
	some := `SELECT * FROM (` + x.oneByOne([]string{"memory_vector"}, q, beside, where) + ` ORDER BY ` + x.indexedColumn(len(s.q), "v.v") + x.sql(` {{near}} `) + x.indexedColumn(len(s.q), q+`::real[]`) +
		` LIMIT ` + a.add(s.limit+max(20, s.limit/2)) + `) i UNION ALL ` + x.oneByOne(s.tables(false), q, beside, where)
	return x.walk(ctx, s, wide, x.standing(&a, s, some, stands), a.values)
}

// walk runs a search through an index. The width of the last one is left on its
// connection, and set with the search where it is another.
func (x *Index) walk(ctx context.Context, s search, wide int, text string, values []any) (hits []vector.Hit, err error) {
	if x.walks == nil {
		return x.walkOnce(ctx, s, wide, text, values)
	}
	c, err := x.walks.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	is := c.Conn().PgConn().CustomData()
	if is[searchSetting] == wide {
		hits, _, err = x.hits(ctx, c, text, values, s)
		return hits, err
	}
	delete(is, searchSetting)
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config($1, $2, false)`, searchSetting, strconv.Itoa(wide))
	queueHits(b, s, text, values, &hits)
	if err := c.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	is[searchSetting] = wide
	return best(hits, s.limit), nil
}

// walkOnce is walk where a pooler keeps no settings.
func (x *Index) walkOnce(ctx context.Context, s search, wide int, text string, values []any) (hits []vector.Hit, err error) {
	settings := maps.Clone(walking)
	settings[searchSetting] = fmt.Sprint(wide)
	var names, to []string
	for name, value := range settings {
		names, to = append(names, name), append(to, value)
	}
	b := &pgx.Batch{}
	b.Queue(`BEGIN READ ONLY`)
	b.Queue(`SELECT set_config(t.name, t.value, true) FROM unnest($1::text[], $2::text[]) t(name, value)`, names, to)
	queueHits(b, s, text, values, &hits)
	b.Queue(`COMMIT`)
	err = x.pool.SendBatch(ctx, b).Close()
	return best(hits, s.limit), err
}

func queueHits(b *pgx.Batch, s search, text string, values []any, to *[]vector.Hit) {
	b.Queue(text, values...).Query(func(rows pgx.Rows) (err error) {
		*to, _, err = scanHits(rows, s)
		return err
	})
}
