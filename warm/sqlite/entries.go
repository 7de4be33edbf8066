package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

const (
	entriesUp = `SELECT ` + versionColumns + `, +v.coding, +v.body` + ofKey + ` JOIN version v ON v.kid = h.kid` + whereKey + `
		AND v.version > ? AND v.version < ? AND v.at >= ? AND v.at < ? AND v.op = 1 ORDER BY v.version LIMIT ?`
	entriesDown = `SELECT ` + versionColumns + `, +v.coding, +v.body` + ofKey + ` JOIN version v ON v.kid = h.kid` + whereKey + `
		AND v.version > ? AND v.version < ? AND v.at >= ? AND v.at < ? AND v.op = 1 ORDER BY v.version DESC LIMIT ?`
)

// Entries implements warm.EntryReader.
func (s *Store) Entries(ctx context.Context, r warm.EntryRange) (out []warm.Version, err error) {
	before, since, until := r.Bounds()
	sql := entriesUp
	if r.Descending {
		sql = entriesDown
	}
	var bytes int64
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, sql, append(keyArgs(r.Key), r.After, before, since, until, int64(r.Limit)), func(v []driver.Value) error {
			if len(out) > 0 && bytes >= r.MaxBytes {
				return errStop
			}
			e := scanVersion(r.Key, v)
			e.Body = s.unpack(blob(v[versionColumnCount+1]), num(v[versionColumnCount]))
			out = append(out, e)
			bytes += e.Size
			return nil
		})
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return out, err
}

// Heads implements warm.EntryReader.
func (s *Store) Heads(ctx context.Context, keys []tiering.Key) ([]warm.Current, error) {
	now := s.now()
	out := make([]warm.Current, len(keys))
	err := s.reader(ctx, func(c *conn) error {
		for i, k := range keys {
			out[i].Now = now
			if err := c.each(ctx, `SELECT `+headColumns+ofKey+whereKey, keyArgs(k), func(v []driver.Value) error {
				out[i].Head = scanHead(k, v).head
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
