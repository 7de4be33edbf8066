package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

const (
	rowsOfKeys = `SELECT t.n, h.kid, h.created FROM unnest($2::text[], $3::text[], $4::bytea[]) WITH ORDINALITY t(tenant, name, id, n)
		JOIN LATERAL (SELECT * FROM head h WHERE h.nid = (SELECT n.nid FROM namespace n WHERE n.tenant = t.tenant AND n.name = t.name) AND h.id = t.id LIMIT 1) h ON ` + standingNow
	keysOfRows = `SELECT t.n, n.name, h.id, h.created FROM unnest($3::bigint[]) WITH ORDINALITY t(kid, n)
		JOIN LATERAL (SELECT * FROM head h WHERE h.kid = t.kid LIMIT 1) h ON ` + standingNow + ` JOIN namespace n ON n.nid = h.nid AND n.tenant = $2`
)

// AliasesOf implements warm.Aliases.
func (s *Store) AliasesOf(ctx context.Context, keys []tiering.Key) (out []warm.Alias, err error) {
	tenants, names, ids := make([]string, len(keys)), make([]string, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		tenants[i], names[i], ids[i] = k.Tenant, k.Namespace, []byte(k.ID)
	}
	err = s.read(ctx, func(q querier) error {
		out = make([]warm.Alias, len(keys))
		return each(ctx, q, rowsOfKeys, []any{s.fixedNow(), tenants, names, ids}, func(row pgx.Rows) error {
			var n, kid, created int64
			err := row.Scan(&n, &kid, &created)
			if err == nil {
				out[n-1] = column.AliasOf(s.life(), kid, created)
			}
			return err
		})
	})
	return out, err
}

// Aliased implements warm.Aliases.
func (s *Store) Aliased(ctx context.Context, tenant string, aliases []warm.Alias) (out []tiering.Key, err error) {
	kids := make([]int64, len(aliases))
	for i, a := range aliases {
		kids[i] = column.AliasNumber(a)
	}
	err = s.read(ctx, func(q querier) error {
		out = make([]tiering.Key, len(aliases))
		return each(ctx, q, keysOfRows, []any{s.fixedNow(), tenant, kids}, func(row pgx.Rows) error {
			var n, created int64
			var name string
			var id []byte
			err := row.Scan(&n, &name, &id, &created)
			if err == nil && column.AliasOf(s.life(), kids[n-1], created) == aliases[n-1] {
				out[n-1] = tiering.Key{Tenant: tenant, Namespace: name, ID: string(id)}
			}
			return err
		})
	})
	return out, err
}
