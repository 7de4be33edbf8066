// Package memory is the hot tier inside the process: a sharded map bounded by
// bytes, for one daemon.
//
// Each key has one record under its shard's lock, so that a value and its
// coherence marks change in one step. Values are evicted by S3-FIFO (Yang et
// al., "FIFO queues are all you need for cache eviction", SOSP 2023); marks are
// never evicted: they lapse.
package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("memory: the hot store is closed")

// DefaultMaxBytes bounds a store whose Options name no bound: 256 MiB.
const DefaultMaxBytes = 256 << 20

const (
	// shardBytes is the least a shard is given: twice the largest document.
	shardBytes = 16 << 20
	maxShards  = 64
	// sweepEvery is how often what has lapsed is freed when nobody calls.
	sweepEvery = 250 * time.Millisecond
)

// Options configures Open. The zero value works.
type Options struct {
	// MaxBytes bounds keys, values and bookkeeping together; 0 means
	// DefaultMaxBytes. Marks count, but are never evicted: while marks alone
	// exceed the bound, no value is kept.
	MaxBytes int64
	// Timing is how long marks live.
	Timing hot.Timing
	// Clock tells the time; nil means time.Now. Lives are measured on its
	// monotonic part, so that a wall clock that jumps expires nothing.
	Clock func() time.Time
}

// Store is an in-process hot.Store. Its methods are safe for concurrent use.
type Store struct {
	timing hot.Timing
	clock  func() time.Time
	start  time.Time
	seed   maphash.Seed
	shards []*shard // a power of two

	closing sync.Once
	stop    chan struct{}
	swept   chan struct{}
}

var _ hot.Store = (*Store)(nil)

// Open returns an empty store. Options may be nil. The caller closes it.
func Open(o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	limit := o.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	clock := o.Clock
	if clock == nil {
		clock = time.Now
	}
	s := &Store{
		timing: o.Timing.WithDefaults(),
		clock:  clock,
		start:  clock(),
		seed:   maphash.MakeSeed(),
		shards: make([]*shard, shardCount(limit)),
		stop:   make(chan struct{}),
		swept:  make(chan struct{}),
	}
	for i := range s.shards {
		s.shards[i] = newShard(limit/int64(len(s.shards)), s.timing)
	}
	go s.sweep()
	return s
}

// shardCount is the largest power of two that leaves every shard shardBytes.
func shardCount(limit int64) int {
	n := min(limit/shardBytes, maxShards)
	if n < 1 {
		return 1
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// Capabilities of this driver: one process, nothing outlives Close.
func (s *Store) Capabilities() hot.Capabilities { return hot.Capabilities{Volatile: true} }

// now is the time since Open, on the monotonic clock.
func (s *Store) now() time.Duration { return s.clock().Sub(s.start) }

func (s *Store) shard(key tiering.Key) (*shard, uint64) {
	h := maphash.Comparable(s.seed, key)
	return s.shards[h&uint64(len(s.shards)-1)], h
}

// lock returns key's shard locked, with the time read under the lock: what one
// caller saw lapse has lapsed for every later one.
func (s *Store) lock(ctx context.Context, key tiering.Key) (sh *shard, hash uint64, now time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, 0, err
	}
	sh, hash = s.shard(key)
	sh.mu.Lock()
	if sh.closed {
		sh.mu.Unlock()
		return nil, 0, 0, ErrClosed
	}
	return sh, hash, s.now(), nil
}

// sweep frees what has lapsed until Close.
func (s *Store) sweep() {
	defer close(s.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			for _, sh := range s.shards {
				sh.sweep(s.now)
			}
		}
	}
}

// Scan implements hot.Store. fn may call the store.
func (s *Store) Scan(ctx context.Context, tenant, namespace, prefix string, fn func(tiering.Key) bool) error {
	for _, sh := range s.shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		keys, err := sh.present(s.now(), func(k tiering.Key) bool {
			return k.Tenant == tenant && k.Namespace == namespace && strings.HasPrefix(k.ID, prefix)
		})
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !fn(k) {
				return nil
			}
		}
	}
	return ctx.Err()
}

// Stats implements hot.Store.
func (s *Store) Stats(ctx context.Context) (hot.Stats, error) {
	var out hot.Stats
	if err := ctx.Err(); err != nil {
		return out, err
	}
	for _, sh := range s.shards {
		if err := sh.addStats(&out); err != nil {
			return hot.Stats{}, err
		}
	}
	return out, nil
}

// Ping implements hot.Store.
func (s *Store) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.stop:
		return ErrClosed
	default:
		return nil
	}
}

// Close frees everything and waits for the sweeper. Closing again does nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.stop)
		<-s.swept
		for _, sh := range s.shards {
			sh.close()
		}
	})
	return nil
}
