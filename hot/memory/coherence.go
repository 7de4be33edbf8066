package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

var errZeroToken = errors.New("memory: a mark needs a token other than 0")

// Get implements hot.Store. A lease is withheld while marks take more than a
// quarter of the bound, so that misses of absent keys cannot push out values.
func (s *Store) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	if err := ctx.Err(); err != nil {
		return hot.Lookup{}, err
	}
	sh, _ := s.shard(key)
	sh.mu.RLock()
	if sh.closed {
		sh.mu.RUnlock()
		return hot.Lookup{}, ErrClosed
	}
	l := sh.look(key, s.now())
	sh.mu.RUnlock()

	if l.State == hot.Empty && lease {
		var err error
		if l, err = s.getLease(ctx, key); err != nil {
			return hot.Lookup{}, err
		}
	}
	if l.State == hot.Present || l.State == hot.Deleted {
		sh.hits.Add(1)
	} else {
		sh.misses.Add(1)
	}
	return l, nil
}

// getLease looks again, under the lock, and takes the lease if it is free.
func (s *Store) getLease(ctx context.Context, key tiering.Key) (hot.Lookup, error) {
	sh, hash, now, err := s.lock(ctx, key)
	if err != nil {
		return hot.Lookup{}, err
	}
	defer sh.mu.Unlock()
	l := sh.look(key, now)
	if l.State != hot.Empty || sh.marks() > sh.bound/4 {
		return l, nil
	}
	r := sh.open(key, hash, now)
	if r.lease == 0 {
		r.lease, r.leaseUntil = newToken(), now+s.timing.Lease
		l.Lease = r.lease
	} else {
		l.Holder = r.lease
	}
	sh.settle(r, now)
	sh.evict(now)
	return l, nil
}

func newToken() hot.Token {
	for {
		if t := hot.Token(rand.Uint64()); t != 0 {
			return t
		}
	}
}

// Mark implements hot.Store. A tombstone goes with the value: if the write
// behind token commits and its writer dies, the key must lapse to empty, not to
// "deleted". What was seen stays, so older versions are refused all the same.
func (s *Store) Mark(ctx context.Context, key tiering.Key, token hot.Token) error {
	if token == 0 {
		return errZeroToken
	}
	sh, hash, now, err := s.lock(ctx, key)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	r := sh.open(key, hash, now)
	r.value, r.tombstone, r.lease = nil, 0, 0
	r.seenUntil = now + s.timing.Tombstone
	r.mark(token, now+s.timing.Token)
	sh.settle(r, now)
	sh.evict(now)
	return nil
}

// Unmark implements hot.Store.
func (s *Store) Unmark(ctx context.Context, key tiering.Key, token hot.Token) error {
	sh, _, now, err := s.lock(ctx, key)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	if r := sh.find(key, now); r != nil {
		r.unmark(token)
		sh.settle(r, now)
	}
	return nil
}

// Set implements hot.Store. A value larger than a shard is not stored, and
// neither is one whose life is over.
func (s *Store) Set(ctx context.Context, set hot.Set) (bool, error) {
	sh, hash, now, err := s.lock(ctx, set.Key)
	if err != nil {
		return false, err
	}
	defer sh.mu.Unlock()
	r := sh.open(set.Key, hash, now)
	// A writer without a mark is believed only where an older version than
	// what was seen would be noticed.
	may := set.Token == 0 && (r.seen != rank{} || now >= sh.forgotUntil)
	if set.Token != 0 {
		may = r.unmark(set.Token)
	}
	r.lease = 0
	newer := r.see(rankOf(&set.Entry.Meta), now+s.timing.Tombstone)
	stored := newer && may && len(r.tokens) == 0
	switch {
	case !stored:
	case set.Deleted:
		r.tombstone = now + s.timing.Tombstone
	default:
		stored = sh.put(r, set.Entry, now, set.TTL)
	}
	sh.settle(r, now)
	sh.evict(now)
	return stored, nil
}

// Fill implements hot.Store. The lease is spent whatever comes of it.
func (s *Store) Fill(ctx context.Context, key tiering.Key, lease hot.Token, e hot.Entry, ttl time.Duration) (bool, error) {
	sh, _, now, err := s.lock(ctx, key)
	if err != nil {
		return false, err
	}
	defer sh.mu.Unlock()
	r := sh.find(key, now)
	if r == nil {
		return false, nil
	}
	stored := false
	if lease != 0 && r.lease == lease {
		r.lease = 0
		if at := rankOf(&e.Meta); len(r.tokens) == 0 && at.compare(r.seen) >= 0 {
			r.see(at, now+s.timing.Tombstone)
			stored = sh.put(r, e, now, ttl)
		}
	}
	sh.settle(r, now)
	sh.evict(now)
	return stored, nil
}

// Drop implements hot.Store.
func (s *Store) Drop(ctx context.Context, key tiering.Key, version, revision int64) error {
	sh, _, now, err := s.lock(ctx, key)
	if err != nil {
		return err
	}
	defer sh.mu.Unlock()
	r := sh.find(key, now)
	if r == nil {
		return nil
	}
	if r.value != nil && (version == 0 || rankOf(&r.value.entry.Meta) == (rank{version, revision})) {
		r.value = nil
		r.seenUntil = now + s.timing.Tombstone
	}
	sh.settle(r, now)
	return nil
}
