package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// Swap implements hot.Store. A body that no shard could hold is refused with
// too_large: to accept it would be to lose it at once. A negative ttl is
// invalid.
func (s *Store) Swap(ctx context.Context, key tiering.Key, cond tiering.Condition, body []byte, ttl time.Duration) (hot.Entry, bool, error) {
	if ttl < 0 {
		return hot.Entry{}, false, tiering.Invalidf("a life of %v is over before it begins", ttl)
	}
	digest := tiering.Digest{}
	if body != nil {
		digest = tiering.DigestOf(body)
	}
	sh, hash, now, err := s.lock(ctx, key)
	if err != nil {
		return hot.Entry{}, false, err
	}
	defer sh.mu.Unlock()
	r := sh.open(key, hash, now)
	defer func() {
		sh.settle(r, now)
		sh.evict(now)
	}()

	var stands hot.Entry
	if r.value != nil {
		stands = r.value.entry
	}
	if !cond.Holds(stands.Meta.Version) {
		return stands, false, nil
	}

	at := s.clock().UTC().Truncate(time.Microsecond)
	e := hot.Entry{Body: body, Meta: tiering.Meta{
		Namespace: r.key.Namespace, ID: r.key.ID,
		Version: max(r.seen.version+1, at.UnixMicro()),
		Digest:  digest, Size: int64(len(body)),
		CreatedAt: at, UpdatedAt: at,
	}}
	if stands.Meta.Version != 0 {
		e.Meta.CreatedAt = stands.Meta.CreatedAt
	}
	if ttl > 0 && body != nil {
		e.Meta.TTL, e.Meta.ExpiresAt = ttl, at.Add(ttl)
	}
	if v := (&value{entry: e}); body != nil && r.size()+v.size() > sh.bound {
		return hot.Entry{}, false, &tiering.Error{Code: tiering.CodeTooLarge,
			Detail: fmt.Sprintf("%d bytes do not fit into hot, where a shard holds %d", len(body), sh.bound)}
	}

	r.lease = 0
	r.see(rankOf(&e.Meta), now+s.timing.Tombstone)
	if body == nil {
		r.tombstone = now + s.timing.Tombstone
	} else {
		r.store(e, now, ttl)
	}
	return e, true, nil
}
