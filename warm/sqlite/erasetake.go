package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// footprint is what warm holds of a key.
type footprint struct {
	kid      int64 // 0: no head
	versions int64 // rows
	bytes    int64 // of the rows, uncompressed
	top      int64 // the highest version anywhere
	segments []string
}

func (f *footprint) empty() bool { return f.kid == 0 && len(f.segments) == 0 }

func (c *conn) footprint(key tiering.Key) (f footprint, err error) {
	err = c.each(context.Background(), `SELECT h.kid, h.version, (SELECT count(*) FROM version WHERE kid = h.kid), (SELECT sum(size) FROM version WHERE kid = h.kid)`+
		ofKey+whereKey, keyArgs(key), func(v []driver.Value) error {
		f.kid, f.top, f.versions, f.bytes = num(v[0]), num(v[1]), num(v[2]), num(v[3])
		return nil
	})
	if err != nil {
		return f, err
	}
	err = c.each(context.Background(), `SELECT segment, max_version FROM location WHERE tenant = ? AND namespace = ? AND id = ?`, keyArgs(key),
		func(v []driver.Value) error {
			f.segments, f.top = append(f.segments, text(v[0])), max(f.top, num(v[1]))
			return nil
		})
	return f, err
}

// take removes a key, but for its mentions, and counts it.
func (t *txn) take(o *order, key tiering.Key) error {
	f, err := t.footprint(key)
	if err != nil || f.empty() {
		return err
	}
	ns, err := t.namespace(key.Tenant, key.Namespace)
	if err != nil {
		return err
	}
	if err := t.raise(ns, f.top); err != nil {
		return err
	}
	for _, name := range f.segments {
		if _, err := t.exec(`INSERT OR IGNORE INTO erasure_segment (erasure, segment) VALUES (?, ?)`, o.seq, name); err != nil {
			return err
		}
	}
	for _, q := range []string{`DELETE FROM version WHERE kid = ?`, `DELETE FROM projection WHERE kid = ?`, `DELETE FROM head WHERE kid = ?`} {
		if _, err := t.exec(q, f.kid); err != nil {
			return err
		}
	}
	if _, err := t.exec(`DELETE FROM location WHERE tenant = ? AND namespace = ? AND id = ?`, keyArgs(key)...); err != nil {
		return err
	}
	o.Keys++
	o.Versions += f.versions
	o.Bytes += f.bytes
	return nil
}

// erased ends an order's work in warm. Besides the segments that held a key,
// those may hold something of the subject whose locations are gone, and those
// whose writers may have read it: the fenced ones.
func (t *txn) erased(o *order) error {
	if _, err := t.exec(`INSERT OR IGNORE INTO erasure_segment (erasure, segment) SELECT e.seq, g.name FROM erasure e JOIN segment g ON g.tenant = e.tenant
		WHERE e.seq = ? AND (g.state = 'deleting' OR g.state = 'started' AND g.fence < e.fence)`, o.seq); err != nil {
		return err
	}
	if o.Pos = t.s.last.Load(); o.Pos > 0 {
		return nil
	}
	// Nothing was ever committed, as after a rebuild: an entry without changes
	// makes a position.
	o.Pos = 1
	id := uuid.New()
	t.committed = func() { t.s.publish(1) }
	_, err := t.exec(`INSERT INTO feed (pos, at, batch, results, changes) VALUES (1, ?, ?, ?, ?)`, micros(t.now), id[:], encodeResults(nil, true), encodeChanges(nil))
	return err
}

// CountErase implements warm.Eraser.
func (s *Store) CountErase(ctx context.Context, sel warm.Selector) (e warm.Erasure, err error) {
	if err := check(sel); err != nil {
		return e, err
	}
	e.Selector = sel
	segments := map[string]bool{}
	err = s.reader(ctx, func(c *conn) error {
		return c.eachSelected(ctx, sel, func(key tiering.Key) error {
			f, err := c.footprint(key)
			if err != nil || f.empty() {
				return err
			}
			e.Keys++
			e.Versions += f.versions
			e.Bytes += f.bytes
			for _, name := range f.segments {
				if !segments[name] {
					segments[name] = true
					e.Segments = append(e.Segments, name)
				}
			}
			return nil
		})
	})
	slices.Sort(e.Segments)
	return e, err
}
