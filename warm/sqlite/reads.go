package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// ofKey finds a head by its whole key; the tenant is bound in every statement.
const ofKey = ` FROM namespace n JOIN head h ON h.ns = n.nid`

// whereKey binds tenant, namespace and id.
const whereKey = ` WHERE n.tenant = ? AND n.name = ? AND h.id = ?`

func keyArgs(k tiering.Key) []any { return []any{k.Tenant, k.Namespace, []byte(k.ID)} }

// Load implements warm.Reader: the head and its bytes in one statement.
func (s *Store) Load(ctx context.Context, key tiering.Key) (warm.Current, error) {
	var cur warm.Current
	err := s.reader(ctx, func(c *conn) (err error) {
		cur, err = s.loadOn(ctx, c, key, s.now())
		return err
	})
	return cur, err
}

func (s *Store) loadOn(ctx context.Context, c *conn, key tiering.Key, now time.Time) (cur warm.Current, err error) {
	cur.Now = now
	err = c.each(ctx, `SELECT `+headColumns+`, +v.coding, +v.body`+ofKey+`
		LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version`+whereKey, keyArgs(key),
		func(v []driver.Value) error {
			cur.Head = scanHead(key, v).head
			if cur.Head.Live(now) {
				cur.Body = s.unpack(blob(v[headColumnCount+1]), num(v[headColumnCount]))
			}
			return nil
		})
	return cur, err
}

// load reads what stands under keys inside a transaction.
func (t *txn) load(keys []tiering.Key) ([]warm.Current, error) {
	out := make([]warm.Current, len(keys))
	for i, k := range keys {
		var err error
		if out[i], err = t.s.loadOn(context.Background(), t.conn, k, t.now); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Head implements warm.Reader.
func (s *Store) Head(ctx context.Context, key tiering.Key) (warm.Current, error) {
	cur := warm.Current{Now: s.now()}
	err := s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT `+headColumns+ofKey+whereKey, keyArgs(key), func(v []driver.Value) error {
			cur.Head = scanHead(key, v).head
			return nil
		})
	})
	return cur, err
}

// versionColumns are read by scanVersion; for the plus see headColumns.
const versionColumns = `+v.version, +v.op, +v.at, +v.created, +v.expires, +v.size, +v.user, +v.digest`

const versionColumnCount = 8

func scanVersion(key tiering.Key, v []driver.Value) warm.Version {
	out := warm.Version{
		Key: key, Version: num(v[0]), Op: tiering.Op(num(v[1])), At: column.Time(num(v[2])), CreatedAt: column.Time(num(v[3])),
		ExpiresAt: column.Time(num(v[4])), Size: num(v[5]), User: text(v[6]),
	}
	copy(out.Digest[:], blob(v[7]))
	return out
}

// Version implements warm.Reader.
func (s *Store) Version(ctx context.Context, key tiering.Key, version int64) (v warm.Version, ok bool, err error) {
	return s.oneVersion(ctx, key, whichVersion, version)
}

const whichVersion = ` AND v.version = ?`

// ReadVersions implements warm.Reader, on one connection: here a statement costs
// little beside what it reads.
func (s *Store) ReadVersions(ctx context.Context, of []warm.KeyVersion, maxBytes int64) (out []warm.Version, err error) {
	var bytes int64
	err = s.reader(ctx, func(c *conn) error {
		for _, o := range of {
			if len(out) > 0 && bytes >= maxBytes {
				return nil
			}
			v, _, err := s.versionOn(ctx, c, o.Key, whichVersion, o.Version)
			if err != nil {
				return err
			}
			out = append(out, v)
			bytes += v.Size
		}
		return nil
	})
	return out, err
}

// Find implements warm.Finder: one statement for both, because the statement is
// most of what a look-up costs.
func (s *Store) Find(ctx context.Context, key tiering.Key, version int64) (out warm.Version, ok bool, locs []tiering.Location, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT 0, `+versionColumns+`, +v.coding, +v.body`+ofKey+` JOIN version v ON v.kid = h.kid
			WHERE n.tenant = ?1 AND n.name = ?2 AND h.id = ?3 AND v.version = ?4
			UNION ALL SELECT 1, l.segment, l.min_version, l.max_version, l.min_time, l.max_time, l.blocks, 0, 0, 0, 0
			FROM location l JOIN segment g ON g.name = l.segment
			WHERE l.tenant = ?1 AND l.namespace = ?2 AND l.id = ?3 AND l.min_version <= ?4 AND l.max_version >= ?4 AND g.state = 'finished'`,
			append(keyArgs(key), version), func(v []driver.Value) error {
				if num(v[0]) == 0 {
					out, ok = scanVersion(key, v[1:]), true
					out.Body = s.unpack(blob(v[versionColumnCount+2]), num(v[versionColumnCount+1]))
					return nil
				}
				l, err := scanLocation(key, v[1:])
				locs = append(locs, l)
				return err
			})
	})
	if err != nil {
		return warm.Version{}, false, nil, err
	}
	slices.SortFunc(locs, func(a, b tiering.Location) int {
		return cmp.Or(cmp.Compare(b.MaxVersion, a.MaxVersion), cmp.Compare(b.Segment, a.Segment))
	})
	return out, ok, locs, nil
}

// AsOf implements warm.Reader. Versions and their times grow together.
func (s *Store) AsOf(ctx context.Context, key tiering.Key, t time.Time) (v warm.Version, ok bool, err error) {
	return s.oneVersion(ctx, key, ` AND v.at <= ? ORDER BY v.version DESC LIMIT 1`, column.Micros(t))
}

func (s *Store) oneVersion(ctx context.Context, key tiering.Key, which string, arg int64) (out warm.Version, ok bool, err error) {
	err = s.reader(ctx, func(c *conn) error {
		out, ok, err = s.versionOn(ctx, c, key, which, arg)
		return err
	})
	return out, ok && err == nil, err
}

func (s *Store) versionOn(ctx context.Context, c *conn, key tiering.Key, which string, arg int64) (out warm.Version, ok bool, err error) {
	err = c.each(ctx, `SELECT `+versionColumns+`, +v.coding, +v.body`+ofKey+` JOIN version v ON v.kid = h.kid`+whereKey+which,
		append(keyArgs(key), arg), func(v []driver.Value) error {
			out, ok = scanVersion(key, v), true
			out.Body = s.unpack(blob(v[versionColumnCount+1]), num(v[versionColumnCount]))
			return nil
		})
	return out, ok, err
}

// Versions implements warm.Reader.
func (s *Store) Versions(ctx context.Context, key tiering.Key, before int64, limit int) (out []warm.Version, err error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT `+versionColumns+ofKey+` JOIN version v ON v.kid = h.kid`+whereKey+`
			AND v.version < ? ORDER BY v.version DESC LIMIT ?`, append(keyArgs(key), before, int64(limit)),
			func(v []driver.Value) error {
				out = append(out, scanVersion(key, v))
				return nil
			})
	})
	return out, err
}
