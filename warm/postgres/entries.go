package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// The sum ends a page by its bytes: bodies too long for their rows are not
// fetched behind it.
const (
	entriesFrom = `SELECT ` + versionColumns + `, v.coding, v.body FROM (
		SELECT v.*, sum(v.size) OVER (ORDER BY v.version`
	entriesWhere = ` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ahead FROM (
			SELECT v.* FROM version v WHERE v.kid = (SELECT h.kid FROM head h JOIN namespace n ON n.nid = h.nid WHERE n.tenant = $1 AND n.name = $2 AND h.id = $3)
			AND v.version > $4 AND v.version < $5 AND v.at >= $6 AND v.at < $7 AND v.op = 1 ORDER BY v.version`
	entriesLimit = ` LIMIT $8) v) v WHERE coalesce(v.ahead, 0) < $9 ORDER BY v.version`
	entriesUp    = entriesFrom + entriesWhere + entriesLimit
	entriesDown  = entriesFrom + ` DESC` + entriesWhere + ` DESC` + entriesLimit + ` DESC`
)

// Entries implements warm.EntryReader.
func (s *Store) Entries(ctx context.Context, r warm.EntryRange) (out []warm.Version, err error) {
	before, since, until := r.Bounds()
	sql := entriesUp
	if r.Descending {
		sql = entriesDown
	}
	err = s.read(ctx, func(q querier) error {
		out = nil
		return each(ctx, q, sql, []any{r.Key.Tenant, r.Key.Namespace, []byte(r.Key.ID), r.After, before, since, until, r.Limit, max(r.MaxBytes, 1)}, func(row pgx.Rows) error {
			var v versionScan
			var coding int16
			var body []byte
			err := row.Scan(append(v.into(), &coding, &body)...)
			e := v.row(r.Key)
			e.Body = s.unpack(body, coding)
			out = append(out, e)
			return err
		})
	})
	return out, err
}

const manyHeads = `SELECT t.n, ` + headColumns + ` FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY t(tenant, name, id, n)
	JOIN LATERAL (SELECT * FROM head h WHERE h.nid = (SELECT n.nid FROM namespace n WHERE n.tenant = t.tenant AND n.name = t.name) AND h.id = t.id AND h.version > 0 LIMIT 1) h ON true`

// Heads implements warm.EntryReader.
func (s *Store) Heads(ctx context.Context, keys []tiering.Key) (out []warm.Current, err error) {
	tenants, names, ids := make([]string, len(keys)), make([]string, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		tenants[i], names[i], ids[i] = k.Tenant, k.Namespace, []byte(k.ID)
	}
	err = s.read(ctx, func(q querier) error {
		out = make([]warm.Current, len(keys))
		now, err := number(ctx, q, `SELECT `+nowFrom, s.fixedNow())
		if err != nil {
			return err
		}
		for i := range out {
			out[i].Now = column.Time(now)
		}
		return each(ctx, q, manyHeads, []any{tenants, names, ids}, func(row pgx.Rows) error {
			var n int64
			var h headRow
			err := row.Scan(append([]any{&n}, h.into()...)...)
			if err == nil {
				out[n-1].Head = h.entry(keys[n-1]).head
			}
			return err
		})
	})
	return out, err
}
