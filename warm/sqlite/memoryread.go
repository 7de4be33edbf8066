package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// liveHead is of a head h that stands at the time that it binds.
const liveHead = `h.op = 1 AND (h.expires = 0 OR h.expires > ? OR h.flags & 1 = 1)`

const (
	memoryColumns     = `m.analyzer, m.status, m.body, m.text, m.entry`
	memoryColumnCount = 5
)

// scanMemory reads id, headColumns and memoryColumns, and looks up the vectors:
// the open statement keeps them in the same snapshot.
func (c *conn) scanMemory(ctx context.Context, tenant, namespace string, v []driver.Value) (m warm.IndexedMemory, err error) {
	m.Key = tiering.Key{Tenant: tenant, Namespace: namespace, ID: string(blob(v[0]))}
	e := scanHead(m.Key, v[1:])
	m.Head = e.head
	v = v[1+headColumnCount:]
	if m.Entry, err = decodeEntry(blob(v[4])); err != nil {
		return m, err
	}
	m.Entry.Analyzer, m.Entry.Status = int(num(v[0])), column.Status(num(v[1]))
	copy(m.Entry.Digest[:], blob(v[2]))
	copy(m.Entry.TextHash[:], blob(v[3]))
	err = c.each(ctx, `SELECT s.name, v.vector FROM memory_vector v JOIN memory_space s ON s.sid = v.space WHERE v.kid = ? ORDER BY v.space`, []any{e.kid},
		func(v []driver.Value) error {
			vector, err := decodeVector(blob(v[1]))
			m.Entry.Vectors = append(m.Entry.Vectors, tiering.MemoryVector{Space: text(v[0]), Vector: vector})
			return err
		})
	return m, err
}

// MemoriesAfter implements warm.Memories.
func (s *Store) MemoriesAfter(ctx context.Context, after tiering.Key, limit int) (out []warm.IndexedMemory, err error) {
	now := s.now()
	err = s.reader(ctx, func(c *conn) error {
		return c.eachMemorySpace(after, func(at tiering.Key) (bool, error) {
			err := c.each(ctx, `SELECT h.id, `+headColumns+`, `+memoryColumns+ofKey+` JOIN memory m ON m.kid = h.kid
				WHERE n.tenant = ? AND n.name = ? AND h.id > ? AND `+liveHead+` ORDER BY h.id LIMIT ?`,
				append(keyArgs(at), column.Micros(now), int64(limit-len(out))), func(v []driver.Value) error {
					m, err := c.scanMemory(ctx, at.Tenant, at.Namespace, v)
					out = append(out, m)
					return err
				})
			return len(out) < limit, err
		})
	})
	return out, err
}

// eachMemorySpace calls fn with the key where each namespace of memories
// begins, the first with after, until fn returns false.
func (c *conn) eachMemorySpace(after tiering.Key, fn func(at tiering.Key) (more bool, err error)) error {
	for at := after; ; {
		more, err := fn(at)
		if err != nil || !more {
			return err
		}
		row, ok, err := c.one(`SELECT tenant, name FROM namespace WHERE (tenant, name) > (?, ?) AND kind = 'memory' ORDER BY tenant, name LIMIT 1`, at.Tenant, at.Namespace)
		if err != nil || !ok {
			return err
		}
		at = tiering.Key{Tenant: text(row[0]), Namespace: text(row[1])}
	}
}

// MemoriesOf implements warm.Memories.
func (s *Store) MemoriesOf(ctx context.Context, keys []tiering.Key) (out []warm.IndexedMemory, err error) {
	now := s.now()
	err = s.reader(ctx, func(c *conn) error {
		for _, k := range keys {
			err := c.each(ctx, `SELECT h.id, `+headColumns+`, `+memoryColumns+ofKey+` JOIN memory m ON m.kid = h.kid`+whereKey+` AND `+liveHead,
				append(keyArgs(k), column.Micros(now)), func(v []driver.Value) error {
					m, err := c.scanMemory(ctx, k.Tenant, k.Namespace, v)
					out = append(out, m)
					return err
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// PendingMemories implements warm.Memories.
func (s *Store) PendingMemories(ctx context.Context, analyzer int, space string, after tiering.Key, limit int) (out []warm.PendingMemory, err error) {
	now := s.now()
	err = s.reader(ctx, func(c *conn) error {
		sid := int64(0)
		if space != "" {
			if sid, err = c.number(`SELECT sid FROM memory_space WHERE name = ?`, space); err != nil {
				return err
			}
			if sid == 0 {
				sid = -1 // nobody has a vector in it
			}
		}
		return c.eachMemorySpace(after, func(at tiering.Key) (bool, error) {
			err := c.each(ctx, `SELECT h.id, `+headColumns+`, m.attempts, m.status, +v.coding, +v.body`+ofKey+`
				LEFT JOIN memory m ON m.kid = h.kid LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version
				WHERE n.tenant = ?1 AND n.name = ?2 AND n.kind = 'memory' AND h.id > ?3 AND h.op = 1 AND (h.expires = 0 OR h.expires > ?4 OR h.flags & 1 = 1)
				AND (m.kid IS NULL OR m.analyzer <> ?5 OR ?6 <> 0 AND NOT EXISTS (SELECT 1 FROM memory_vector x WHERE x.kid = h.kid AND x.space = ?6))
				ORDER BY h.id LIMIT ?7`,
				append(keyArgs(at), column.Micros(now), int64(analyzer), sid, int64(limit-len(out))), func(v []driver.Value) error {
					key := tiering.Key{Tenant: at.Tenant, Namespace: at.Namespace, ID: string(blob(v[0]))}
					p := warm.PendingMemory{Head: scanHead(key, v[1:]).head}
					v = v[1+headColumnCount:]
					p.Attempts, p.Status, p.Body = int(num(v[0])), column.Status(num(v[1])), s.unpack(blob(v[3]), num(v[2]))
					out = append(out, p)
					return nil
				})
			return len(out) < limit, err
		})
	})
	return out, err
}

// MemoryByText implements warm.Memories.
func (s *Store) MemoryByText(ctx context.Context, tenant, namespace, user string, of tiering.Digest) (h warm.Head, ok bool, err error) {
	now := s.now()
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT h.id, `+headColumns+`, m.entry FROM namespace n JOIN memory m ON m.ns = n.nid JOIN head h ON h.kid = m.kid
			WHERE n.tenant = ? AND n.name = ? AND m.text = ? AND h.user = ? AND `+liveHead+` ORDER BY h.id`,
			[]any{tenant, namespace, of[:], user, column.Micros(now)}, func(v []driver.Value) error {
				if ok {
					return nil
				}
				entry, err := decodeEntry(blob(v[1+headColumnCount]))
				if err != nil || !entry.Ends.IsZero() && !entry.Ends.After(now) {
					return err
				}
				h, ok = scanHead(tiering.Key{Tenant: tenant, Namespace: namespace, ID: string(blob(v[0]))}, v[1:]).head, true
				return nil
			})
	})
	return h, ok && err == nil, err
}

// Linked implements warm.Memories.
func (s *Store) Linked(ctx context.Context, tenant, namespace string, ids []string, into bool) (out []warm.MemoryLink, err error) {
	now := column.Micros(s.now())
	ways := []string{`SELECT h.id, l.target, l.relation FROM namespace n JOIN head h ON h.ns = n.nid JOIN memory_link l ON l.kid = h.kid
		WHERE n.tenant = ? AND n.name = ? AND h.id = ? AND ` + liveHead}
	if into {
		ways = append(ways, `SELECT h.id, l.target, l.relation FROM namespace n JOIN memory_link l ON l.ns = n.nid JOIN head h ON h.kid = l.kid
		WHERE n.tenant = ? AND n.name = ? AND l.target = ? AND `+liveHead)
	}
	seen := map[warm.MemoryLink]bool{}
	err = s.reader(ctx, func(c *conn) error {
		for _, way := range ways {
			for _, id := range ids {
				err := c.each(ctx, way, []any{tenant, namespace, []byte(id), now}, func(v []driver.Value) error {
					l := warm.MemoryLink{From: string(blob(v[0])), Link: tiering.Link{To: string(blob(v[1])), Relation: text(v[2])}}
					if !seen[l] {
						seen[l], out = true, append(out, l)
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return out, err
}

// Spaces implements warm.Memories.
func (s *Store) Spaces(ctx context.Context) (out []warm.SpaceCount, err error) {
	err = s.reader(ctx, func(c *conn) error {
		return c.each(ctx, `SELECT * FROM (SELECT s.name, (SELECT count(*) FROM memory_vector v WHERE v.space = s.sid) AS n FROM memory_space s) WHERE n > 0 ORDER BY name`,
			nil, func(v []driver.Value) error {
				out = append(out, warm.SpaceCount{Space: text(v[0]), Count: num(v[1])})
				return nil
			})
	})
	return out, err
}

// keysOf returns the keys that a query of tenant, namespace and id finds, each
// once.
func (c *conn) keysOf(query string, args ...any) (keys []tiering.Key, err error) {
	err = c.each(context.Background(), query, args, func(v []driver.Value) error {
		keys = append(keys, tiering.Key{Tenant: text(v[0]), Namespace: text(v[1]), ID: string(blob(v[2]))})
		return nil
	})
	slices.SortFunc(keys, tiering.Key.Compare)
	return slices.Compact(keys), err
}
