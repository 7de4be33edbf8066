package postgres

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// An index of a namespace's documents is a GIN index of its projections. Every
// insert into projection looks at the condition of each of them, so there are
// few.
const (
	maxQueryIndexes  = 32
	queryIndexPrefix = "query_"
	// indexedDoc is what is indexed. A projection without a document, of one that
	// PostgreSQL refused, or that is not to stay queryable, is a candidate always:
	// all of them are found under a value of their own.
	unlike     = `'{"\ufffd": true}'::jsonb`
	indexedDoc = `coalesce(p.doc, ` + unlike + `)`
	// maxCandidates is from how many documents on an index saves no work.
	maxCandidates = 5000
)

var _ warm.QueryIndexer = (*Store)(nil)

// ListEverywhere implements warm.QueryIndexer.
func (s *Store) ListEverywhere(ctx context.Context, namespace string, after tiering.Key, limit int) (out []warm.Current, err error) {
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, `SELECT `+nowFrom+`, n.tenant, h.id, `+headColumns+`, v.coding, v.body FROM namespace n JOIN head h ON h.nid = n.nid
			LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version WHERE n.name = $2 AND h.op = 1 AND (h.expires = 0 OR h.expires > `+nowFrom+` OR h.flags & 1 = 1) AND (n.tenant, h.id) > ($3, $4) ORDER BY n.tenant, h.id LIMIT $5`,
			[]any{s.fixedNow(), namespace, after.Tenant, []byte(after.ID), limit}, func(row pgx.Rows) error {
				var now int64
				var tenant string
				var id, body []byte
				var h headRow
				var coding *int16
				if err := row.Scan(append(append([]any{&now, &tenant, &id}, h.into()...), &coding, &body)...); err != nil {
					return err
				}
				cur := warm.Current{Head: h.entry(tiering.Key{Tenant: tenant, Namespace: namespace, ID: string(id)}).head, Now: column.Time(now)}
				if coding != nil {
					cur.Body = s.unpack(body, *coding)
				}
				out = append(out, cur)
				return nil
			})
	})
	return out, err
}

// IndexQueries implements warm.QueryIndexer. Of more than 32 namespaces the
// others go without.
func (s *Store) IndexQueries(ctx context.Context, wanted []tiering.Key) error {
	nids, err := s.numbered(ctx, wanted)
	if err != nil {
		return err
	}
	want := numbers(nids)
	want = want[:min(len(want), maxQueryIndexes)]
	have, busy, err := s.queryIndexes(ctx)
	if err != nil || busy {
		return err
	}
	if _, err := s.exec(ctx, `WITH q AS (DELETE FROM query_index WHERE NOT nid = ANY ($1::int[]))
		UPDATE namespace SET indexed = false WHERE indexed AND NOT nid = ANY ($1::int[])`, want); err != nil {
		return err
	}
	if len(want) == 0 && len(have) == 0 {
		return nil
	}
	// An index is built over what is there already: that is cheaper than to fill it,
	// and the planner learns how much it is.
	token := make(map[int32]int64, len(want))
	for _, nid := range want {
		if token[nid], err = s.prepareQueryIndex(ctx, nid); err != nil {
			return err
		}
	}
	// Outside a transaction, on a connection that no statement timeout cuts short.
	err = s.leisurely(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.Exec(ctx, askLife, s.life()); err != nil {
			return err
		}
		for _, nid := range slices.Sorted(maps.Keys(have)) {
			if have[nid] && slices.Contains(want, nid) {
				continue
			}
			// One that is not valid was left by a build that died.
			if _, err := c.Exec(ctx, `DROP INDEX CONCURRENTLY IF EXISTS `+queryIndexName(nid)); err != nil {
				return err
			}
		}
		for _, nid := range want {
			if have[nid] {
				continue
			}
			if _, err := c.Exec(ctx, createQueryIndex(nid)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s.explain(err)
	}
	for _, nid := range want {
		if _, err := s.exec(ctx, `UPDATE query_index SET ready = true WHERE nid = $1 AND token = $2 AND NOT ready`, nid, token[nid]); err != nil {
			return err
		}
	}
	return nil
}

func queryIndexName(nid int32) string { return queryIndexPrefix + strconv.Itoa(int(nid)) }

// ofSpace is the condition of an index: word by word that of the look into it.
func ofSpace(nid int32) string { return fmt.Sprintf(`(nid = %d OR nid IS NULL)`, nid) }

func createQueryIndex(nid int32) string {
	return `CREATE INDEX CONCURRENTLY ` + queryIndexName(nid) + ` ON projection USING gin ((coalesce(doc, ` + unlike + `)) jsonb_path_ops) WHERE ` + ofSpace(nid)
}

// queryIndexes returns the indexes that are there, and whether each is whole.
// busy: one is being built.
func (s *Store) queryIndexes(ctx context.Context) (have map[int32]bool, busy bool, err error) {
	err = s.read(ctx, func(q querier) error {
		have = map[int32]bool{}
		err := each(ctx, q, `SELECT substr(c.relname, $1)::int, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indrelid = 'projection'::regclass AND c.relname ~ $2`, []any{len(queryIndexPrefix) + 1, "^" + queryIndexPrefix + "[0-9]+$"}, func(row pgx.Rows) error {
			var nid int32
			var valid bool
			err := row.Scan(&nid, &valid)
			have[nid] = valid
			return err
		})
		if err != nil {
			return err
		}
		return q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_progress_create_index WHERE relid = 'projection'::regclass)`).Scan(&busy)
	})
	return have, busy, err
}

// prepareQueryIndex sees to it that every document of a namespace has a projection
// to be found by, from now on. token is 0 where that is so already.
func (s *Store) prepareQueryIndex(ctx context.Context, nid int32) (token int64, err error) {
	if ready, err := s.queryIndexReady(ctx, nid); err != nil || ready {
		return 0, err
	}
	// Every commit that made no projection has ended once this one has.
	err = s.write(ctx, func(t *txn) (err error) {
		if _, err := t.exec(lockSpace, s.lockClass, nid); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE namespace SET indexed = true WHERE nid = $1 AND NOT indexed`, nid); err != nil {
			return err
		}
		token, err = t.number(`INSERT INTO query_index (nid, ready) VALUES ($1, false) ON CONFLICT (nid) DO UPDATE SET ready = false RETURNING token`, nid)
		return err
	})
	if err != nil {
		return 0, err
	}
	return token, s.projectAll(ctx, nid)
}

// StopQueryIndex implements warm.QueryIndexer.
func (s *Store) StopQueryIndex(ctx context.Context, tenant, namespace string) error {
	_, err := s.exec(ctx, `WITH q AS (DELETE FROM query_index WHERE nid = (SELECT nid FROM namespace WHERE tenant = $1 AND name = $2))
		UPDATE namespace SET indexed = false WHERE tenant = $1 AND name = $2 AND indexed`, tenant, namespace)
	return err
}

// QueryIndexed implements warm.QueryIndexer.
func (s *Store) QueryIndexed(ctx context.Context, tenant, namespace string) (bool, error) {
	_, ready, err := s.indexOf(ctx, tenant, namespace)
	return ready, err
}

func (s *Store) indexOf(ctx context.Context, tenant, namespace string) (nid int32, ready bool, err error) {
	names, err := s.numbered(ctx, []tiering.Key{{Tenant: tenant, Namespace: namespace}})
	if err != nil {
		return 0, false, err
	}
	nid = names[nsKey{tenant, namespace}].nid
	if nid == 0 {
		return 0, false, nil
	}
	ready, err = s.queryIndexReady(ctx, nid)
	return nid, ready, err
}

func (s *Store) queryIndexReady(ctx context.Context, nid int32) (ready bool, err error) {
	err = s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM query_index WHERE nid = $1 AND ready)`, nid).Scan(&ready)
	})
	return ready, err
}

// candidates returns the ids, in order, of all documents that may match, as an
// index tells them. ok is false when there is none, or it tells too little.
func (s *Store) candidates(ctx context.Context, sc *scan, f *warm.Filter) (ids [][]byte, ok bool, err error) {
	if f == nil || len(sc.spans) == 0 {
		return nil, false, nil
	}
	c := containsOf(f.Root)
	if c.nothing() {
		return nil, false, nil
	}
	nid, ready, err := s.indexOf(ctx, sc.tenant, sc.namespace)
	if err != nil || !ready {
		return nil, false, err
	}
	q, args := candidatesStatement(nid, sc, &c)
	total := 0
	err = s.read(ctx, func(conn querier) error {
		ids = nil
		return each(ctx, conn, q, args, func(row pgx.Rows) error {
			var id []byte
			err := row.Scan(&total, &id)
			if id != nil && sc.spanned(id) {
				ids = append(ids, id)
			}
			return err
		})
	})
	switch {
	case refusedData(err): // what can not be jsonb: nothing the index could say
		return nil, false, nil
	case err != nil || total > maxCandidates:
		return nil, false, err
	}
	// Had it been stopped meanwhile, a row might have come that it does not know.
	ok, err = s.queryIndexReady(ctx, nid)
	return ids, ok, err
}

// candidatesStatement reads the index first, whatever the planner thinks of the
// heads. The number of the namespace is written out, for the condition of the
// index to be known when the plan is made.
func candidatesStatement(nid int32, sc *scan, c *contains) (sql string, args []any) {
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprint("$", len(args))
	}
	var q strings.Builder
	fmt.Fprintf(&q, `WITH c AS MATERIALIZED (SELECT p.kid FROM projection p WHERE %s AND (%s OR %s @> %s) LIMIT %d)
		SELECT n.total, h.id FROM (SELECT count(*)::int AS total FROM c) n LEFT JOIN (c CROSS JOIN LATERAL (SELECT h.id FROM head h WHERE h.kid = c.kid AND h.nid = %d AND h.op = 1`,
		ofSpace(nid), c.sql(arg), indexedDoc, unlike, maxCandidates+1, nid)
	if sc.user != "" {
		q.WriteString(` AND h.owner = ` + arg(sc.user))
	}
	q.WriteString(` OFFSET 0) h) ON n.total <= ` + strconv.Itoa(maxCandidates) + ` ORDER BY h.id`)
	return q.String(), args
}

// spanned reports whether a scan looks at an id.
func (sc *scan) spanned(id []byte) bool {
	if sc.after != "" && string(id) <= sc.after {
		return false
	}
	for _, sp := range sc.spans {
		if bytes.Compare(id, sp.From) >= 0 && (sp.To == nil || bytes.Compare(id, sp.To) < 0) {
			return true
		}
	}
	return false
}

// listed is live for the ids that an index named.
func (s *Store) listed(ctx context.Context, sc scan, ids [][]byte, first int, each func(scanned, time.Time) (more bool, err error)) error {
	size := min(max(first, 1), scanPage)
	for chunk := range slices.Chunk(ids, scanPage) {
		for len(chunk) > 0 {
			part := chunk[:min(len(chunk), size)]
			chunk, size = chunk[len(part):], scanPage
			of := sc
			of.where += pick(of.where == "", "", " AND ") + "h.id = ANY (\x00::bytea[])"
			of.args = append(slices.Clip(of.args), part)
			page, now, err := s.page(ctx, &of, part[0], false, nil, len(part))
			if err != nil {
				return err
			}
			for _, row := range page {
				if more, err := each(row, now); err != nil || !more {
					return err
				}
			}
		}
	}
	return nil
}
