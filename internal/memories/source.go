// Package memories lets an index that lives in this process read a warm store,
// of which it may know nothing.
package memories

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/warm"
)

// Source returns what an index in process reads s by; ok is false for a store
// that other processes may write too.
func Source(s warm.Store) (src vector.Source, ok bool) {
	m, keeps := warm.As[warm.Memories](s)
	j, tells := warm.As[warm.MemoryJournal](s)
	return source{s, m, j}, keeps && tells
}

type source struct {
	store    warm.Store
	memories warm.Memories
	journal  warm.MemoryJournal
}

func (s source) Now(ctx context.Context) (time.Time, error) { return s.store.Now(ctx) }

func (s source) After(ctx context.Context, after tiering.Key, limit int) ([]vector.Item, error) {
	return items(s.memories.MemoriesAfter(ctx, after, limit))
}

func (s source) Of(ctx context.Context, keys []tiering.Key) ([]vector.Item, error) {
	return items(s.memories.MemoriesOf(ctx, keys))
}

func (s source) Changed(ctx context.Context, since int64) ([]tiering.Key, int64, bool, error) {
	return s.journal.ChangedMemories(ctx, since)
}

func items(found []warm.IndexedMemory, err error) ([]vector.Item, error) {
	out := make([]vector.Item, len(found))
	for i, m := range found {
		out[i] = vector.Item{Key: m.Key, Version: m.Head.Version, User: m.Head.User, CreatedAt: m.Head.CreatedAt, ExpiresAt: m.Head.ExpiresAt, Entry: m.Entry}
		if m.Head.Pinned {
			out[i].ExpiresAt = time.Time{}
		}
	}
	return out, err
}
