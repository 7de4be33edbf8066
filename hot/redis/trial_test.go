package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/tiering"
)

// trial lets writers and readers use a store as the router does, on a warm
// store that only counts versions, while something happens to Redis. It keeps
// what must hold whatever happens:
//
//   - a hit is a version that warm has held;
//   - a hit is not older than a write that hot took, mark and set, before the
//     read began and under the same epoch.
//
// A hit older than what warm held by then is stale: allowed when hot was lost
// or unreachable to the writer, and counted.
type trial struct {
	s    *redis.Store
	ttl  time.Duration
	keys []*document

	hits, writes, refused, stale atomic.Int64
	lastStale                    atomic.Int64 // when, in Unix nanoseconds

	mu     sync.Mutex
	faults []error
}

type document struct {
	key tiering.Key

	mu    sync.Mutex
	at    int64            // what warm holds
	acked int64            // the highest version that hot took
	under tiering.HotEpoch // in that epoch
}

func newTrial(s *redis.Store, ttl time.Duration) *trial {
	r := &trial{s: s, ttl: ttl}
	for i := range 5 {
		r.keys = append(r.keys, &document{key: tiering.Key{Tenant: "t", Namespace: "trial", ID: fmt.Sprint(i)}})
	}
	return r
}

// during runs 16 callers until fn returns.
func (r *trial) during(t *testing.T, fn func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				if d := r.keys[rand.IntN(len(r.keys))]; n%8 == 0 {
					r.write(t.Context(), d)
				} else {
					r.read(t.Context(), d)
				}
			}
		})
	}
	fn()
	stop()
	callers.Wait()
	t.Logf("%d writes of which hot refused %d, %d hits of which %d were stale", r.writes.Load(), r.refused.Load(), r.hits.Load(), r.stale.Load())
	if err := errors.Join(r.faults...); err != nil {
		t.Error(err)
	}
	if r.hits.Load() == 0 {
		t.Error("no reader had a hit: nothing was proved")
	}
}

func (r *trial) failf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) < 3 {
		r.faults = append(r.faults, fmt.Errorf(format, args...))
	}
}

func (r *trial) write(ctx context.Context, d *document) {
	epoch, token := r.s.HotEpoch(), hot.Token(rand.Uint64()|1)
	marked := r.s.Mark(ctx, d.key, token)
	if marked != nil {
		token = 0
		time.Sleep(time.Millisecond) // what warm takes
	}
	d.mu.Lock()
	d.at++
	version := d.at
	d.mu.Unlock()

	s := set(d.key, version, []byte(strconv.FormatInt(version, 10)))
	s.Token, s.TTL = token, r.ttl
	_, err := r.s.Set(ctx, s)
	r.writes.Add(1)
	if marked != nil || err != nil {
		r.refused.Add(1)
		return
	}
	if r.s.HotEpoch() != epoch {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under != epoch {
		d.acked, d.under = 0, epoch
	}
	d.acked = max(d.acked, version)
}

func (r *trial) read(ctx context.Context, d *document) {
	epoch := r.s.HotEpoch()
	floor, before := d.floor(epoch)
	l, err := r.s.Get(ctx, d.key, true)
	if err != nil {
		time.Sleep(time.Millisecond) // what warm takes
		return
	}
	_, after := d.floor(epoch)
	version := l.Entry.Meta.Version
	switch {
	case l.State == hot.Present && string(l.Entry.Body) != strconv.FormatInt(version, 10):
		r.failf("v%d has the body %q", version, l.Entry.Body)
	case l.State == hot.Present && version > after:
		r.failf("a reader got v%d, while warm is at v%d", version, after)
	case l.State == hot.Present && version < floor && r.s.HotEpoch() == epoch:
		r.failf("a reader got v%d under epoch %s, after hot had taken v%d", version, epoch, floor)
	case l.State == hot.Present:
		if r.hits.Add(1); version < before {
			r.stale.Add(1)
			r.lastStale.Store(time.Now().UnixNano())
		}
	case l.State == hot.Empty && l.Lease != 0:
		_, load := d.floor(epoch)
		e := set(d.key, load, []byte(strconv.FormatInt(load, 10))).Entry
		if load > 0 {
			_, _ = r.s.Fill(ctx, d.key, l.Lease, e, r.ttl)
		}
	}
}

// floor is the least a read may answer under epoch, and what warm holds.
func (d *document) floor(epoch tiering.HotEpoch) (floor, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.under == epoch {
		floor = d.acked
	}
	return floor, d.at
}
