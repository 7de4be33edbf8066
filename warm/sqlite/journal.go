package sqlite

import (
	"context"
	"slices"
	"sync"

	"github.com/tierd/tierd/tiering"
)

// journalSize is how many changes of memories are kept for indexes in the same
// process. One that falls further behind reads everything anew.
const journalSize = 1 << 16

// journal is the keys of memories of which the head or the entry changed, in
// the order of the commits. A process has the whole of it since it opened the
// file, which nobody else writes.
type journal struct {
	mu   sync.Mutex
	from int64 // position before the first key
	keys []tiering.Key
}

// note adds keys.
func (j *journal) note(keys []tiering.Key) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keys = append(j.keys, keys...)
	if over := len(j.keys) - 2*journalSize; over > 0 {
		drop := len(j.keys) - journalSize
		j.keys = slices.Clone(j.keys[drop:])
		j.from += int64(drop)
	}
}

// clear makes every reader begin anew.
func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.from += int64(len(j.keys)) + 1
	j.keys = nil
}

// ChangedMemories implements warm.MemoryJournal.
func (s *Store) ChangedMemories(ctx context.Context, since int64) (keys []tiering.Key, now int64, ok bool, err error) {
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	now = j.from + int64(len(j.keys))
	if since < j.from || since > now {
		return nil, now, false, ctx.Err()
	}
	return slices.Clone(j.keys[since-j.from:]), now, true, ctx.Err()
}

// touch notes that the index entry or the head of memories changes with the
// transaction.
func (t *txn) touch(keys ...tiering.Key) { t.touched = append(t.touched, keys...) }
