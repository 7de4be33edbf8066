package vectortest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// Still is a vector.Source that never changes, for benchmarks: memories in the order
// of their keys.
type Still []vector.Item

// StillOf has one memory for each vector, in one namespace and space.
func StillOf(vectors [][]float32, tenant, namespace, space string) Still {
	items := make(Still, len(vectors))
	for i, v := range vectors {
		items[i] = vector.Item{Key: tiering.Key{Tenant: tenant, Namespace: namespace, ID: fmt.Sprintf("%06d", i)}, Version: 1,
			Entry: tiering.MemoryEntry{Vectors: []tiering.MemoryVector{{Space: space, Vector: v}}}}
	}
	return items
}

// Now is a time before which nothing expires.
func (s Still) Now(context.Context) (time.Time, error) { return time.Unix(2e9, 0), nil }

// After returns the memories behind a key.
func (s Still) After(_ context.Context, after tiering.Key, limit int) ([]vector.Item, error) {
	from, found := slices.BinarySearchFunc(s, after, func(it vector.Item, k tiering.Key) int { return it.Key.Compare(k) })
	if found {
		from++
	}
	return s[from:min(from+limit, len(s))], nil
}

// Of is not asked, because nothing changes.
func (s Still) Of(context.Context, []tiering.Key) ([]vector.Item, error) { return nil, nil }

// Changed tells of no change.
func (s Still) Changed(context.Context, int64) ([]tiering.Key, int64, bool, error) {
	return nil, 0, true, nil
}
