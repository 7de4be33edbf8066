package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/internal/rules"
)

type nsKey struct{ tenant, name string }

func spaceOf(k tiering.Key) nsKey { return nsKey{k.Tenant, k.Namespace} }

// space is a row of the table namespace.
type space struct {
	nid int32 // 0: no row
	rules.Namespace
	indexed bool
}

const spaceColumns = `n.nid, n.tenant, n.name, n.kind, n.class, n.floor, n.known, n.deleted, n.written, n.indexed`

func scanSpace(row pgx.Rows) (*space, error) {
	n := &space{}
	err := row.Scan(&n.nid, &n.Tenant, &n.Name, &n.Kind, &n.Class, &n.Floor, &n.Known, &n.Deleted, &n.Written, &n.indexed)
	return n, err
}

// spaceCache knows the numbers of namespaces that a key was written to: such a
// number never changes. It says nothing of floors, or of whether a namespace
// was dropped. That documents are indexed is a belief: a commit that does not
// share it where it is right fails, and one that holds it for indexedFor too long
// writes projections that nobody waits for.
type spaceCache struct {
	mu  sync.RWMutex
	ids map[nsKey]spaceID
}

type spaceID struct {
	nid     int32
	written bool // kind and class are fixed: nothing is to be noted with a write
	mind    bool // its kind is memory
	indexed bool
	until   time.Time // of an indexed one: when to look again
}

// indexedFor is how long a daemon goes on to believe that documents are indexed.
const indexedFor = 10 * time.Second

// rememberers reports whether a namespace is of memories: a write there changes
// more than documents.
func rememberers(names map[nsKey]spaceID) bool {
	for _, id := range names {
		if id.mind {
			return true
		}
	}
	return false
}

func (c *spaceCache) get(k nsKey) (spaceID, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id, ok := c.ids[k]
	return id, ok && (!id.indexed || time.Now().Before(id.until))
}

// forget makes the next call look at namespaces again.
func (c *spaceCache) forget(names map[nsKey]spaceID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range names {
		delete(c.ids, k)
	}
}

func (c *spaceCache) put(k nsKey, id spaceID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[nsKey]spaceID{}
	}
	c.ids[k] = id
}

func (c *spaceCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = nil
}

// number finds the numbers of namespaces, making rows for reserved ones, which
// exist without anyone's saying so. One without a row is left out, and not
// remembered: callers can make up any number.
func (s *Store) number(ctx context.Context, names map[nsKey]spaceID) error {
	var tenants, missing []string
	for k := range names {
		if id, ok := s.spaces.get(k); ok {
			names[k] = id
			continue
		}
		tenants, missing = append(tenants, k.tenant), append(missing, k.name)
	}
	if missing == nil {
		return nil
	}
	find := func() error {
		return s.read(ctx, func(q querier) error { return s.findSpaces(ctx, q, tenants, missing, names) })
	}
	if err := find(); err != nil {
		return err
	}
	made := false
	for i, name := range missing {
		k := nsKey{tenants[i], name}
		if names[k].nid != 0 || !(tiering.Key{Namespace: name}).Reserved() {
			continue
		}
		if _, err := s.exec(ctx, insertSpace, k.tenant, k.name, "", "", 0, false, false, false); err != nil {
			return err
		}
		made = true
	}
	if made {
		return find()
	}
	return nil
}

func (s *Store) findSpaces(ctx context.Context, q querier, tenants, list []string, names map[nsKey]spaceID) error {
	return each(ctx, q, `SELECT n.tenant, n.name, n.nid, n.written, n.kind = 'memory', n.indexed FROM unnest($1::text[], $2::text[]) t(tenant, name)
		JOIN namespace n ON n.tenant = t.tenant AND n.name = t.name`, []any{tenants, list}, func(row pgx.Rows) error {
		var k nsKey
		var id spaceID
		if err := row.Scan(&k.tenant, &k.name, &id.nid, &id.written, &id.mind, &id.indexed); err != nil {
			return err
		}
		id.until = time.Now().Add(indexedFor)
		names[k] = id
		if id.written { // from when on nothing of it changes
			s.spaces.put(k, id)
		}
		return nil
	})
}

// insertSpace makes a namespace's row, at the floor of those without one.
const insertSpace = `INSERT INTO namespace (tenant, name, kind, class, floor, known, deleted, written)
	VALUES ($1, $2, $3, $4, greatest($5::bigint, coalesce((SELECT number FROM meta WHERE name = 'floor'), 0)), $6, $7, $8) ON CONFLICT (tenant, name) DO NOTHING`

// numbered returns the numbers of the namespaces of keys.
func (s *Store) numbered(ctx context.Context, keys []tiering.Key) (map[nsKey]spaceID, error) {
	names := make(map[nsKey]spaceID, 1)
	for _, k := range keys {
		names[spaceOf(k)] = spaceID{}
	}
	return names, s.number(ctx, names)
}

// numbers are those of namespaces that have one, in ascending order.
func numbers(names map[nsKey]spaceID) []int32 {
	out := make([]int32, 0, len(names))
	for _, id := range names {
		if id.nid != 0 {
			out = append(out, id.nid)
		}
	}
	slices.Sort(out)
	return out
}
