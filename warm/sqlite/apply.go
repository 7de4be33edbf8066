package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// entry is a head with what only the driver knows of it.
type entry struct {
	kid   int64 // 0: not stored yet
	head  warm.Head
	query bool
}

// apply evaluates one change against what stands and writes what it makes. A known
// idempotency key comes before all that rules.Judge checks.
func (t *txn) apply(c *warm.Change, bodies []packed) ([]warm.Result, error) {
	results := make([]warm.Result, len(c.Rows))
	if known, err := t.replay(c.Rows, results); err != nil || known {
		return results, err
	}
	ns, err := t.namespace(c.Key.Tenant, c.Key.Namespace)
	if err != nil {
		return nil, err
	}
	e, err := t.entry(ns, c.Key)
	if err != nil {
		return nil, err
	}
	if refused := rules.Judge(c, &ns.Namespace, e.head, t.now); refused != nil {
		return refused, nil
	}
	return results, t.carryOut(ns, c, e, bodies, results)
}

// carryOut makes the rows of a change whose conditions hold. The head is
// written once, after the last row.
func (t *txn) carryOut(ns *namespace, c *warm.Change, e entry, bodies []packed, results []warm.Result) error {
	before := e
	var memory *tiering.MemoryEntry
	var done, made bool // anything; a version
	for i := range c.Rows {
		row := &c.Rows[i]
		if i > 0 {
			// The same request twice in one change: the first row counts.
			if twin, err := t.replay(c.Rows[i:i+1], results[i:i+1]); err != nil {
				return err
			} else if twin {
				continue
			}
		}
		r, err := rules.Next(e.head, c.Key, row, t.now, ns.Floor)
		if err != nil {
			return err
		}
		if r.Status == warm.Done {
			e.head, e.query = r.Head, rules.Queryable(row, e.query)
			if e.kid == 0 {
				if e.kid, err = t.insertHead(ns, e); err != nil {
					return err
				}
				before = e
			}
			if row.Op.Versioned() {
				memory, made = row.Memory, true
				if err := t.insertVersion(e, bodies[i]); err != nil {
					return err
				}
			}
			t.feed = append(t.feed, rules.Record(row.Op, r, e.query, t.now))
			done = true
		}
		if row.Idempotency != nil && (r.Status == warm.Done || r.Status == warm.NoChange) {
			if err := t.once(row.Idempotency, r); err != nil {
				return err
			}
		}
		results[i] = r
	}
	if e.head != before.head || e.query != before.query {
		if err := t.updateHead(before, e); err != nil {
			return err
		}
	}
	if !done || ns.Kind != tiering.KindMemory {
		return nil
	}
	t.touch(c.Key)
	if !made {
		return nil
	}
	return t.indexed(ns, e, memory)
}

// headColumns are read by scanHead, in this order. The plus changes no value: with
// each answer the driver copies the declared type of each of its columns, and an
// expression has none.
const headColumns = `+h.kid, +h.op, +h.version, +h.revision, +h.created, +h.updated, +h.expires, +h.ttl, +h.accessed, +h.size, +h.flags, +h.digest, +h.user`

// headColumnCount is how many headColumns there are.
const headColumnCount = 13

// scanHead reads headColumns.
func scanHead(key tiering.Key, v []driver.Value) entry {
	f := num(v[10])
	e := entry{kid: num(v[0]), query: f&column.FlagQuery != 0, head: warm.Head{
		Key: key, Op: tiering.Op(num(v[1])), Version: num(v[2]), Revision: num(v[3]),
		CreatedAt: column.Time(num(v[4])), UpdatedAt: column.Time(num(v[5])), ExpiresAt: column.Time(num(v[6])),
		TTL: time.Duration(num(v[7])) * time.Microsecond, AccessedAt: column.Time(num(v[8])),
		Size: num(v[9]), User: text(v[12]), Pinned: f&column.FlagPinned != 0, InWarm: f&column.FlagInWarm != 0,
	}}
	copy(e.head.Digest[:], blob(v[11]))
	return e
}

// entry reads what stands under a key of ns.
func (t *txn) entry(ns *namespace, key tiering.Key) (e entry, err error) {
	err = t.each(context.Background(), `SELECT `+headColumns+` FROM head h WHERE h.ns = ? AND h.id = ?`, []any{ns.nid, []byte(key.ID)},
		func(v []driver.Value) error {
			e = scanHead(key, v)
			return nil
		})
	return e, err
}

func (t *txn) insertHead(ns *namespace, e entry) (kid int64, err error) {
	if err := t.firstKey(ns); err != nil {
		return 0, err
	}
	return t.insert(`INSERT INTO head (`+headFields+`) VALUES (`+headMarks+`)`, headValues(ns, e)...)
}

const (
	headFields    = `ns, id, op, version, revision, created, updated, expires, ttl, accessed, size, flags, digest, user`
	headMarks     = `?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?`
	versionFields = `kid, version, op, at, created, expires, size, user, digest, coding, body`
	versionMarks  = `?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?`
)

func headValues(ns *namespace, e entry) []any {
	h := &e.head
	return []any{
		ns.nid, []byte(h.Key.ID), int64(h.Op), h.Version, h.Revision, column.Micros(h.CreatedAt), column.Micros(h.UpdatedAt), column.Micros(h.ExpiresAt),
		h.TTL.Microseconds(), column.Micros(h.AccessedAt), h.Size, int64(column.Flags(h.Pinned, h.InWarm, e.query)), column.DigestBytes(h.Digest), h.User,
	}
}

// updateHead writes the head that took before's place, and drops before's
// projection when its bytes were not in warm: they are no longer current.
func (t *txn) updateHead(before, e entry) error {
	h := &e.head
	_, err := t.exec(`UPDATE head SET op = ?, version = ?, revision = ?, created = ?, updated = ?, expires = ?, ttl = ?, accessed = ?,
		size = ?, flags = ?, digest = ? WHERE kid = ?`,
		int64(h.Op), h.Version, h.Revision, column.Micros(h.CreatedAt), column.Micros(h.UpdatedAt), column.Micros(h.ExpiresAt), h.TTL.Microseconds(), column.Micros(h.AccessedAt),
		h.Size, int64(column.Flags(h.Pinned, h.InWarm, e.query)), column.DigestBytes(h.Digest), e.kid)
	if err == nil && h.User != before.head.User {
		_, err = t.exec(`UPDATE head SET user = ? WHERE kid = ?`, h.User, e.kid)
	}
	if err == nil && before.projected() && h.Version != before.head.Version {
		_, err = t.exec(`DELETE FROM projection WHERE kid = ?`, e.kid)
	}
	return err
}

// projected reports whether the document's bytes serve queries from the
// projection, because they left warm.
func (e entry) projected() bool {
	return e.query && !e.head.InWarm && e.head.Op == tiering.OpPut
}

func (t *txn) insertVersion(e entry, p packed) error {
	_, err := t.exec(`INSERT INTO version (`+versionFields+`) VALUES (`+versionMarks+`)`, versionValues(e, p)...)
	return err
}

func versionValues(e entry, p packed) []any {
	h := &e.head
	var body any
	if h.Op == tiering.OpPut {
		body = p.bytes
	}
	return []any{
		e.kid, h.Version, int64(h.Op), column.Micros(h.UpdatedAt), column.Micros(h.CreatedAt), column.Micros(h.ExpiresAt), h.Size, h.User,
		column.DigestBytes(h.Digest), p.coding, body,
	}
}
