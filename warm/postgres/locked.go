package postgres

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// headColumns are read by headRow.scan, in this order.
const headColumns = `h.kid, h.op, h.version, h.revision, h.created, h.updated, h.expires, h.ttl, h.accessed, h.size, h.flags, h.digest, h.owner, h.due`

// headRow receives headColumns. NULL is the zero value: a pointer would be an allocation
// for each column of each row.
type headRow struct {
	kid, version, revision, created, updated, expires, ttl, accessed, size zeronull.Int8
	due                                                                    zeronull.Int8
	op, flags                                                              zeronull.Int2
	digest                                                                 []byte
	owner                                                                  zeronull.Text
}

// into are the places to scan to. Every column may be NULL, as in an outer join.
func (r *headRow) into() []any {
	return []any{&r.kid, &r.op, &r.version, &r.revision, &r.created, &r.updated, &r.expires, &r.ttl, &r.accessed, &r.size, &r.flags, &r.digest, &r.owner, &r.due}
}

// entry is what the row says; a missing row and a placeholder are no head.
func (r *headRow) entry(key tiering.Key) entry {
	if r.kid == 0 {
		return entry{}
	}
	e := entry{kid: int64(r.kid), due: int64(r.due)}
	if r.version == 0 {
		return e
	}
	f := int16(r.flags)
	e.stood = true
	e.query = f&column.FlagQuery != 0
	e.head = warm.Head{
		Key: key, Op: tiering.Op(r.op), Version: int64(r.version), Revision: int64(r.revision),
		CreatedAt: column.Time(int64(r.created)), UpdatedAt: column.Time(int64(r.updated)), ExpiresAt: column.Time(int64(r.expires)),
		TTL: time.Duration(r.ttl) * time.Microsecond, AccessedAt: column.Time(int64(r.accessed)),
		Size: int64(r.size), User: string(r.owner), Pinned: f&column.FlagPinned != 0, InWarm: f&column.FlagInWarm != 0,
	}
	copy(e.head.Digest[:], r.digest)
	return e
}

// lockSpaces keeps erasures of tenants away, and namespaces from being dropped
// and their floors and tombstones from moving, until the transaction ends. It
// comes in a statement of its own, before any that reads: a statement does not
// see what was committed while it waited.
const lockSpaces = `SELECT pg_advisory_xact_lock_shared(t.class, t.number) FROM life($3), unnest($1::int[], $2::int[]) WITH ORDINALITY t(class, number, n)`

// lockArgs are the arguments of lockSpaces: the hot epoch first, then tenants,
// then namespaces by their numbers, as in every transaction.
func (s *Store) lockArgs(names map[nsKey]spaceID, requests []*warm.Idempotency) (class, number []int32) {
	class, number = append(class, s.lockClass), append(number, lockHotEpoch)
	var tenants []int32
	for k := range names {
		tenants = append(tenants, tenantLock(k.tenant))
	}
	for _, r := range requests {
		tenants = append(tenants, tenantLock(r.Tenant))
	}
	slices.Sort(tenants)
	for _, tenant := range slices.Compact(tenants) {
		class, number = append(class, s.lockClass+1), append(number, tenant)
	}
	for _, nid := range numbers(names) {
		class, number = append(class, s.lockClass), append(number, nid)
	}
	return class, number
}

// tenantLock is the number of a tenant's lock. Tenants that share one wait for
// each other's erasures, and nothing else.
func tenantLock(tenant string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant)) // never fails
	return int32(h.Sum32())
}

// lockHeads locks heads in the order of the keys: what stands as it is, what
// is absent by a placeholder. A row that stands is locked and not written.
const lockHeads = `INSERT INTO head AS h (nid, id, version, revision, created, updated, expires, ttl, accessed, size, op, flags, digest, owner)
	SELECT t.nid, t.id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '' FROM unnest($1::int[], $2::bytea[]) WITH ORDINALITY t(nid, id, n) ORDER BY t.n
	ON CONFLICT (nid, id) DO UPDATE SET carry = NULL WHERE false`

const (
	readSpaces = `SELECT ` + spaceColumns + ` FROM namespace n WHERE n.nid = ANY($1::int[])`
	readHeads  = `SELECT t.n, ` + headColumns + `, NULL::smallint, NULL::bytea FROM unnest($1::int[], $2::bytea[]) WITH ORDINALITY t(nid, id, n) JOIN head h ON h.nid = t.nid AND h.id = t.id`
	readBodies = `SELECT t.n, ` + headColumns + `, v.coding, v.body FROM unnest($1::int[], $2::bytea[]) WITH ORDINALITY t(nid, id, n) JOIN head h ON h.nid = t.nid AND h.id = t.id
		LEFT JOIN version v ON v.kid = h.kid AND v.version = h.version`
	readRequests = `SELECT r.tenant, r.key, r.hash, r.result FROM unnest($1::text[], $2::bytea[]) t(tenant, key) JOIN request r ON r.tenant = t.tenant AND r.key = t.key`
)

// want is what a transaction needs to know before it can decide.
type want struct {
	keys     []tiering.Key // sorted, each once
	requests []*warm.Idempotency
	bodies   bool
	lock     bool
}

// gather reads, in one round trip, the state that is decided on. With lock set
// it begins a transaction, and what it reads stays locked until that ends.
func (s *Store) gather(ctx context.Context, q querier, w want, names map[nsKey]spaceID) (*state, error) {
	st := &state{spaces: map[nsKey]*space{}, entries: map[tiering.Key]*entry{}, requests: map[requestKey]stored{}, docs: map[tiering.Key][]byte{}}
	nids := numbers(names)
	keys := make([]tiering.Key, 0, len(w.keys)) // of namespaces that have a row
	var keyNids []int32
	var ids [][]byte
	for _, k := range w.keys {
		if id := names[spaceOf(k)]; id.nid != 0 {
			keys, keyNids, ids = append(keys, k), append(keyNids, id.nid), append(ids, []byte(k.ID))
		}
	}
	b := &pgx.Batch{}
	if w.lock {
		b.Queue(`BEGIN`)
		class, number := s.lockArgs(names, w.requests)
		b.Queue(lockSpaces, class, number, s.life())
		b.Queue(lockHeads, keyNids, ids)
	}
	b.Queue(`SELECT `+nowFrom, s.fixedNow()).QueryRow(func(row pgx.Row) error { return scanTime(row, &st.now) })
	b.Queue(`SELECT ` + readHotCount).QueryRow(func(row pgx.Row) error { return row.Scan(&st.hotCount) })
	b.Queue(readSpaces, nids).Query(func(rows pgx.Rows) error {
		return drain(rows, func(row pgx.Rows) error {
			n, err := scanSpace(row)
			st.spaces[nsKey{n.Tenant, n.Name}] = n
			return err
		})
	})
	heads := readHeads
	if w.bodies {
		heads = readBodies
	}
	b.Queue(heads, keyNids, ids).Query(func(rows pgx.Rows) error {
		return drain(rows, func(row pgx.Rows) error {
			var n int64
			var h headRow
			var coding *int16
			var body []byte
			if err := row.Scan(append(append([]any{&n}, h.into()...), &coding, &body)...); err != nil {
				return err
			}
			e := h.entry(keys[n-1])
			if coding != nil {
				e.body = packed{body, *coding}
			}
			st.entries[keys[n-1]] = &e
			return nil
		})
	})
	if len(w.requests) > 0 {
		tenants, names := make([]string, len(w.requests)), make([][]byte, len(w.requests))
		for i, r := range w.requests {
			tenants[i], names[i] = r.Tenant, []byte(r.Key)
		}
		b.Queue(readRequests, tenants, names).Query(func(rows pgx.Rows) error {
			return drain(rows, func(row pgx.Rows) error {
				var k requestKey
				var name []byte
				var had stored
				err := row.Scan(&k.tenant, &name, &had.hash, &had.result)
				k.key = string(name)
				st.requests[k] = had
				return err
			})
		})
	}
	return st, q.SendBatch(ctx, b).Close()
}

// requestsOf returns the idempotency keys of changes, sorted, each once; twice
// says that one comes more than once.
func requestsOf(changes []warm.Change) (out []*warm.Idempotency, twice bool) {
	seen := map[requestKey]bool{}
	for i := range changes {
		for j := range changes[i].Rows {
			r := changes[i].Rows[j].Idempotency
			if r == nil {
				continue
			}
			k := requestKey{r.Tenant, r.Key}
			if seen[k] {
				twice = true
				continue
			}
			seen[k] = true
			out = append(out, r)
		}
	}
	slices.SortFunc(out, compareRequests)
	return out, twice
}

func compareRequests(a, b *warm.Idempotency) int {
	if a.Tenant != b.Tenant {
		if a.Tenant < b.Tenant {
			return -1
		}
		return 1
	}
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	}
	return 0
}
