package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/idrange"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/rules"
)

// readFootprint looks at a key that sel takes. A user takes a key whole that is
// his, be it deleted; of any other he takes his versions.
func readFootprint(ctx context.Context, q querier, sel warm.Selector, key tiering.Key) (f rules.Footprint, err error) {
	f.Whole = sel.User == ""
	args := []any{key.Tenant, key.Namespace, []byte(key.ID)}
	err = each(ctx, q, `SELECT k.kid, k.version, k.whole, v.n, v.bytes FROM (SELECT h.kid, h.version, $4 = '' OR h.owner = $4 AS whole`+
		ofKey+` WHERE n.tenant = $1 AND n.name = $2 AND h.id = $3) k
		CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(sum(size), 0)::bigint AS bytes FROM version v WHERE v.kid = k.kid AND (k.whole OR v.owner = $4)) v`,
		append(args, sel.User), func(row pgx.Rows) error {
			return row.Scan(&f.Kid, &f.Top, &f.Whole, &f.Versions, &f.Bytes)
		})
	if err != nil {
		return f, err
	}
	err = each(ctx, q, `SELECT segment, max_version FROM location WHERE tenant = $1 AND namespace = $2 AND id = $3`, args, func(row pgx.Rows) error {
		var name string
		var top int64
		err := row.Scan(&name, &top)
		f.Segments, f.Top = append(f.Segments, name), max(f.Top, top)
		return err
	})
	return f, err
}

// selected returns up to limit keys of an id or a prefix above after that have
// a head or a location.
func selected(ctx context.Context, q querier, sel warm.Selector, after string, limit int) (keys []tiering.Key, err error) {
	if (tiering.Key{Namespace: sel.Namespace}).Reserved() {
		return nil, nil
	}
	in := idrange.IDOrPrefix(sel.ID, sel.Prefix)
	err = each(ctx, q, `SELECT id FROM (
			(SELECT h.id FROM head h WHERE `+inSpace("$1", "$2")+` AND h.id >= $3 AND h.id < $4 AND h.id > $5 ORDER BY h.id LIMIT $6)
			UNION (SELECT DISTINCT id FROM location WHERE tenant = $1 AND namespace = $2 AND id >= $3 AND id < $4 AND id > $5 ORDER BY id LIMIT $6)) k
		ORDER BY id LIMIT $6`, []any{sel.Tenant, sel.Namespace, in.From, in.To, []byte(after), limit}, func(row pgx.Rows) error {
		var id []byte
		err := row.Scan(&id)
		keys = append(keys, tiering.Key{Tenant: sel.Tenant, Namespace: sel.Namespace, ID: string(id)})
		return err
	})
	return keys, err
}

// eachSelected calls fn for every key that an erase would take, but for those
// that only the feed knows of.
func eachSelected(ctx context.Context, q querier, sel warm.Selector, fn func(tiering.Key) error) error {
	if sel.User != "" {
		owned, err := ownedBy(ctx, q, sel)
		if err != nil {
			return err
		}
		for key := range owned {
			if err := fn(key); err != nil {
				return err
			}
		}
		return nil
	}
	const page = 1000
	for after := ""; ; {
		keys, err := selected(ctx, q, sel, after, page)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := fn(key); err != nil {
				return err
			}
			after = key.ID
		}
		if len(keys) < page {
			return nil
		}
	}
}

// ownedBy finds the keys whose head or any version row is the user's.
func ownedBy(ctx context.Context, q querier, sel warm.Selector) (map[tiering.Key]struct{}, error) {
	out := map[tiering.Key]struct{}{}
	add := func(row pgx.Rows) error {
		k, err := scanKey(row)
		out[k] = struct{}{}
		return err
	}
	if err := each(ctx, q, headsOf, []any{sel.Tenant, sel.User}, add); err != nil {
		return nil, err
	}
	for at := int64(0); ; {
		next, err := number(ctx, q, `SELECT min(kid) FROM version WHERE kid > $1`, at)
		if err != nil || next == 0 {
			return out, err
		}
		end := next + walkWindow
		if err := each(ctx, q, ownedWindow, []any{sel.Tenant, sel.User, at, end}, add); err != nil {
			return nil, err
		}
		at = end
	}
}
