package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// AliasesOf implements warm.Aliases.
func (s *Store) AliasesOf(ctx context.Context, keys []tiering.Key) ([]warm.Alias, error) {
	out := make([]warm.Alias, len(keys))
	now := column.Micros(s.now())
	err := s.reader(ctx, func(c *conn) error {
		for i, k := range keys {
			err := c.each(ctx, `SELECT h.kid, h.created`+ofKey+whereKey+` AND `+liveHead, append(keyArgs(k), now), func(v []driver.Value) error {
				out[i] = column.AliasOf(*s.epoch.Load(), num(v[0]), num(v[1]))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Aliased implements warm.Aliases.
func (s *Store) Aliased(ctx context.Context, tenant string, aliases []warm.Alias) ([]tiering.Key, error) {
	out := make([]tiering.Key, len(aliases))
	now := column.Micros(s.now())
	err := s.reader(ctx, func(c *conn) error {
		for i, a := range aliases {
			number := column.AliasNumber(a)
			err := c.each(ctx, `SELECT n.name, h.id, h.created FROM head h JOIN namespace n ON n.nid = h.ns WHERE h.kid = ? AND n.tenant = ? AND `+liveHead,
				[]any{number, tenant, now}, func(v []driver.Value) error {
					if column.AliasOf(*s.epoch.Load(), number, num(v[2])) == a {
						out[i] = tiering.Key{Tenant: tenant, Namespace: text(v[0]), ID: string(blob(v[1]))}
					}
					return nil
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
