// Package memorytest makes worlds for vector/vectortest out of warm stores.
package memorytest

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm"
)

// Clock stands until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock.
func NewClock() *Clock { return &Clock{now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves it.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// World is a vectortest.World over a warm store.
type World struct {
	*Clock
	Store  warm.Store
	index  vector.Index
	mu     sync.Mutex
	spaces map[[2]string]bool
	orders int
}

var _ vectortest.World = (*World)(nil)

// New returns the world of a fresh store and its index.
func New(clock *Clock, s warm.Store, x vector.Index) *World {
	return &World{Clock: clock, Store: s, index: x, spaces: map[[2]string]bool{}}
}

// Index implements vectortest.World.
func (w *World) Index() vector.Index { return w.index }

// Memories is the store's role.
func (w *World) Memories(t testing.TB) warm.Memories {
	t.Helper()
	m, ok := warm.As[warm.Memories](w.Store)
	if !ok {
		t.Fatal("the store keeps no memories")
	}
	return m
}

func (w *World) ensure(t testing.TB, k tiering.Key) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := [2]string{k.Tenant, k.Namespace}; !w.spaces[at] {
		if _, err := w.Store.EnsureNamespace(t.Context(), warm.Namespace{Tenant: k.Tenant, Name: k.Namespace, Kind: tiering.KindMemory, Class: tiering.ClassPersistent}); err != nil {
			t.Fatal(err)
		}
		w.spaces[at] = true
	}
}

// Change is the commit of a memory.
func Change(t testing.TB, m vectortest.Memory) warm.Change {
	t.Helper()
	entry := m.Entry
	// Bytes that nobody else writes: uses and sessions are part of them.
	body, err := json.Marshal(map[string]any{"text": entry.TextHash, "uses": entry.Uses, "session": entry.Session, "n": uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	entry.Digest = tiering.DigestOf(body)
	row := warm.Row{Op: tiering.OpPut, Body: body, Digest: entry.Digest, User: m.User, Memory: &entry}
	if m.TTL > 0 {
		row.Expiry.TTL = &tiering.TTL{Life: m.TTL}
	}
	return warm.Change{Key: m.Key, Rows: []warm.Row{row}}
}

// Remember implements vectortest.World.
func (w *World) Remember(t testing.TB, ms ...vectortest.Memory) []vectortest.Kept {
	t.Helper()
	changes := make([]warm.Change, len(ms))
	for i, m := range ms {
		w.ensure(t, m.Key)
		changes[i] = Change(t, m)
	}
	by := w.commit(t, changes)
	kept := make([]vectortest.Kept, len(ms))
	for i, m := range ms {
		h := by[m.Key]
		kept[i] = vectortest.Kept{Version: h.Version, CreatedAt: h.CreatedAt}
	}
	return kept
}

// commit commits changes and returns the heads they made.
func (w *World) commit(t testing.TB, changes []warm.Change) map[tiering.Key]warm.Head {
	t.Helper()
	slices.SortFunc(changes, func(a, b warm.Change) int { return a.Key.Compare(b.Key) })
	results, err := w.Store.Commit(t.Context(), &warm.Batch{ID: uuid.New(), Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	by := map[tiering.Key]warm.Head{}
	for i, r := range results {
		if r[0].Status != warm.Done && r[0].Status != warm.NoChange {
			t.Fatalf("%s: status %d (%v)", changes[i].Key, r[0].Status, r[0].Err)
		}
		by[changes[i].Key] = r[0].Head
	}
	return by
}

// AddVector implements vectortest.World.
func (w *World) AddVector(t testing.TB, k tiering.Key, v tiering.MemoryVector) {
	t.Helper()
	cur, err := w.Store.Head(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	added, err := w.Memories(t).AddVector(t.Context(), k, cur.Head.Digest, v, tiering.IndexIndexed)
	if err != nil || !added {
		t.Fatalf("a vector of %s was added: %v, %v", k, added, err)
	}
}

// Delete implements vectortest.World.
func (w *World) Delete(t testing.TB, keys ...tiering.Key) {
	t.Helper()
	var changes []warm.Change
	for _, k := range keys {
		w.ensure(t, k)
		changes = append(changes, warm.Change{Key: k, Rows: []warm.Row{{Op: tiering.OpDelete}}})
	}
	w.commit(t, changes)
}

// Erase implements vectortest.World.
func (w *World) Erase(t testing.TB, tenant, user string) {
	t.Helper()
	w.orders++
	id := uuid.NewString()
	if err := w.Store.StartErase(t.Context(), warm.Erasure{ID: id, Selector: warm.Selector{Tenant: tenant, User: user}}); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if _, more, err = w.Store.EraseKeys(t.Context(), id, 100); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.index.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// DropSpace implements vectortest.World.
func (w *World) DropSpace(t testing.TB, space string) {
	t.Helper()
	for {
		n, err := w.Memories(t).DropSpace(t.Context(), space, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}
