package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/tierd/tierd/internal/idrange"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/mention"
)

// selected returns up to limit keys of an id or a prefix above after that have
// a head or a location.
func (c *conn) selected(ctx context.Context, sel warm.Selector, after string, limit int) (keys []tiering.Key, err error) {
	if (tiering.Key{Namespace: sel.Namespace}).Reserved() {
		return nil, nil
	}
	in := idrange.IDOrPrefix(sel.ID, sel.Prefix)
	err = c.each(ctx, `SELECT * FROM (SELECT h.id`+ofKey+` WHERE n.tenant = ?1 AND n.name = ?2 AND h.id >= ?3 AND h.id < ?4 AND h.id > ?5 ORDER BY h.id LIMIT ?6)
		UNION SELECT * FROM (SELECT DISTINCT id FROM location WHERE tenant = ?1 AND namespace = ?2 AND id >= ?3 AND id < ?4 AND id > ?5 ORDER BY id LIMIT ?6)
		ORDER BY 1 LIMIT ?6`, []any{sel.Tenant, sel.Namespace, in.From, in.To, []byte(after), int64(limit)}, func(v []driver.Value) error {
		keys = append(keys, tiering.Key{Tenant: sel.Tenant, Namespace: sel.Namespace, ID: string(blob(v[0]))})
		return nil
	})
	return keys, err
}

// ownedBy adds the keys whose head or any version row is the user's.
func (c *conn) ownedBy(ctx context.Context, sel warm.Selector, to *mention.Subject) error {
	add := func(v []driver.Value) error {
		to.Add(tiering.Key{Tenant: sel.Tenant, Namespace: text(v[0]), ID: string(blob(v[1]))})
		return nil
	}
	if err := c.each(ctx, headsOf, []any{sel.Tenant, sel.User, int64(-1)}, add); err != nil {
		return err
	}
	last, err := c.number(`SELECT max(vid) FROM version`)
	if err != nil {
		return err
	}
	for vid := int64(0); vid < last; vid += walkWindow {
		if err := c.each(ctx, `SELECT n.name, h.id FROM version v CROSS JOIN head h ON h.kid = v.kid CROSS JOIN namespace n ON n.nid = h.ns
			WHERE v.vid > ?1 AND v.vid <= ?1 + ?2 AND v.user = ?3 AND n.tenant = ?4 AND substr(n.name, 1, 1) <> '_'`,
			[]any{vid, int64(walkWindow), sel.User, sel.Tenant}, add); err != nil {
			return err
		}
	}
	return nil
}

// headsOf finds the keys whose head is a user's.
const headsOf = `SELECT n.name, h.id FROM namespace n CROSS JOIN head h ON h.ns = n.nid
	WHERE n.tenant = ? AND substr(n.name, 1, 1) <> '_' AND h.user = ? AND h.user <> '' LIMIT ?`

// eachSelected calls fn for every key that an erase would take.
func (c *conn) eachSelected(ctx context.Context, sel warm.Selector, fn func(tiering.Key) error) error {
	if sel.User != "" {
		owned := mention.New(sel)
		if err := c.ownedBy(ctx, sel, owned); err != nil {
			return err
		}
		for key := range owned.Keys {
			if err := fn(key); err != nil {
				return err
			}
		}
		return nil
	}
	const page = 1000
	for after := ""; ; {
		keys, err := c.selected(ctx, sel, after, page)
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
