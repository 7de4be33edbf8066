package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// footprint is what warm holds of a key that an erase takes.
type footprint struct {
	rules.Footprint
	user string // of a selector of one
}

// footprint looks at a key that sel takes. A user takes a key whole that is
// his, be it deleted; of any other he takes his versions.
func (c *conn) footprint(sel warm.Selector, key tiering.Key) (f footprint, err error) {
	f.Whole, f.user = sel.User == "", sel.User
	err = c.each(context.Background(), `SELECT h.kid, h.version, h.user`+ofKey+whereKey, keyArgs(key), func(v []driver.Value) error {
		f.Kid, f.Top = num(v[0]), num(v[1])
		f.Whole = f.Whole || text(v[2]) == sel.User
		return nil
	})
	if err != nil {
		return f, err
	}
	rows, args := f.rows()
	err = c.each(context.Background(), `SELECT count(*), sum(size)`+rows, args, func(v []driver.Value) error {
		f.Versions, f.Bytes = num(v[0]), num(v[1])
		return nil
	})
	if err != nil {
		return f, err
	}
	err = c.each(context.Background(), `SELECT segment, max_version FROM location WHERE tenant = ? AND namespace = ? AND id = ?`, keyArgs(key),
		func(v []driver.Value) error {
			f.Segments, f.Top = append(f.Segments, text(v[0])), max(f.Top, num(v[1]))
			return nil
		})
	return f, err
}

// rows is the end of a statement about the version rows to take.
func (f *footprint) rows() (from string, args []any) {
	if f.Whole {
		return ` FROM version WHERE kid = ?`, []any{f.Kid}
	}
	return ` FROM version WHERE kid = ? AND user = ?`, []any{f.Kid, f.user}
}

// take removes a key, but for its mentions, and counts it. Of a key that stays
// it removes the user's version rows: the locations stay with the others', and
// lose the user's when their segments are rewritten.
func (t *txn) take(o *order, key tiering.Key, f footprint) error {
	if f.Empty() {
		return nil
	}
	ns, err := t.namespace(key.Tenant, key.Namespace)
	if err != nil {
		return err
	}
	if err := t.raise(ns, f.Top); err != nil {
		return err
	}
	for _, name := range f.Segments {
		if _, err := t.exec(`INSERT OR IGNORE INTO erasure_segment (erasure, segment) VALUES (?, ?)`, o.seq, name); err != nil {
			return err
		}
	}
	rows, args := f.rows()
	if _, err := t.exec(`DELETE`+rows, args...); err != nil {
		return err
	}
	f.Count(&o.Erasure)
	if !f.Whole {
		return nil
	}
	if err := t.dropMemory(f.Kid); err != nil {
		return err
	}
	t.touch(key)
	for _, q := range []string{`DELETE FROM projection WHERE kid = ?`, `DELETE FROM head WHERE kid = ?`} {
		if _, err := t.exec(q, f.Kid); err != nil {
			return err
		}
	}
	_, err = t.exec(`DELETE FROM location WHERE tenant = ? AND namespace = ? AND id = ?`, keyArgs(key)...)
	return err
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
	_, err := t.exec(`INSERT INTO feed (pos, at, batch, results, changes) VALUES (1, ?, ?, ?, ?)`, column.Micros(t.now), id[:], encodeResults(nil, true), encodeChanges(nil))
	return err
}

// CountErase implements warm.Eraser.
func (s *Store) CountErase(ctx context.Context, sel warm.Selector) (e warm.Erasure, err error) {
	if err := sel.Check(); err != nil {
		return e, err
	}
	var all rules.Tally
	err = s.reader(ctx, func(c *conn) error {
		return c.eachSelected(ctx, sel, func(key tiering.Key) error {
			f, err := c.footprint(sel, key)
			all.Add(f.Footprint)
			return err
		})
	})
	return all.Erasure(sel), err
}
