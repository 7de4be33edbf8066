package postgres

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/warm/internal/column"
)

const projectPage = 500

// bareHeads reads a page of heads: which live documents lack a projection of their
// version, and what there is to make it of. Those that were demoted before
// projections had versions have theirs.
func bareHeads(after string) string {
	return `SELECT k.id, k.kid, k.version, k.flags, k.lacks, coalesce(v.coding, k.coding), coalesce(v.body, k.body)
	FROM (SELECT h.id, h.kid, h.version, h.flags, p.coding, CASE WHEN h.flags & 2 = 0 THEN p.body END AS body,
			h.op = 1 AND CASE WHEN h.flags & 2 = 2 OR p.kid IS NULL THEN p.version IS DISTINCT FROM h.version ELSE p.doc IS NULL AND p.body IS NOT NULL END AS lacks
		FROM (SELECT * FROM head WHERE nid = $1 AND id ` + after + ` $2 ORDER BY id LIMIT $3) h LEFT JOIN projection p ON p.kid = h.kid) k
	LEFT JOIN version v ON v.kid = k.kid AND v.version = k.version AND k.lacks ORDER BY k.id`
}

// addProjections leaves out what was written meanwhile: that has its own. Bytes
// that nothing else is made of stay.
const addProjections = `INSERT INTO projection AS p (kid, nid, version, doc)
	SELECT h.kid, h.nid, h.version, nullif(t.doc, '')::jsonb FROM unnest($1::bigint[], $2::bigint[], $3::text[]) t(kid, version, doc)
	JOIN head h ON h.kid = t.kid AND h.version = t.version AND h.op = 1 ORDER BY h.id FOR UPDATE OF h
	ON CONFLICT (kid) DO UPDATE SET nid = excluded.nid, version = excluded.version, doc = excluded.doc,
		body = CASE WHEN excluded.doc IS NULL THEN p.body END, coding = CASE WHEN excluded.doc IS NULL THEN p.coding ELSE 0 END`

// projectAll gives a projection to the live documents of a namespace that have
// none of their version. Those from before it was to be queried get an empty one:
// they stay out of what is found once their bytes left warm.
func (s *Store) projectAll(ctx context.Context, nid int32) error {
	after, from := ">=", []byte{}
	for {
		var last []byte
		var kids, versions []int64
		var docs []string
		err := s.read(ctx, func(q querier) error {
			last, kids, versions, docs = nil, nil, nil, nil
			return each(ctx, q, bareHeads(after), []any{nid, from, projectPage}, func(row pgx.Rows) error {
				var kid, version int64
				var flags int16
				var lacks bool
				var coding *int16
				var body []byte
				if err := row.Scan(&last, &kid, &version, &flags, &lacks, &coding, &body); err != nil || !lacks {
					return err
				}
				doc := ""
				if coding != nil && flags&column.FlagQuery != 0 {
					if plain := s.unpack(body, *coding); plain != nil {
						doc = *docText(plain)
					}
				}
				kids, versions, docs = append(kids, kid), append(versions, version), append(docs, doc)
				return nil
			})
		})
		if err != nil || last == nil {
			return err
		}
		err = s.refusing(docs, func(from, to int) error {
			_, err := s.exec(ctx, addProjections, kids[from:to], versions[from:to], docs[from:to])
			return err
		})
		if err != nil {
			return err
		}
		after, from = ">", bytes.Clone(last)
	}
}
