package memory

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// sweepBatch bounds how many records one hold of the lock looks at.
const sweepBatch = 512

// shard is one part of a store under one lock. Everything but the counters of
// readers is guarded by mu.
type shard struct {
	bound  int64
	timing hot.Timing

	mu      sync.RWMutex
	closed  bool
	records map[tiering.Key]*record
	agenda  agenda
	bytes   int64 // of the records
	floors  floors
	// forgotUntil is set when floors had to be dropped early: until then, a
	// writer without a mark is not believed about a key of which nothing is
	// known.
	forgotUntil time.Duration

	small, main queue
	ghosts      ghosts
	evictions   int64

	hits, misses atomic.Int64
}

func newShard(bound int64, timing hot.Timing) *shard {
	return &shard{bound: bound, timing: timing, records: map[tiering.Key]*record{}}
}

// look answers a reader; a shared lock will do.
func (sh *shard) look(key tiering.Key, now time.Duration) hot.Lookup {
	r := sh.records[key]
	if r == nil {
		return hot.Lookup{State: hot.Empty}
	}
	l := r.look(now)
	if l.State == hot.Present {
		r.touch()
	}
	return l
}

// find returns key's record without what has lapsed, nil if there is none. The
// caller changes it and settles it.
func (sh *shard) find(key tiering.Key, now time.Duration) *record {
	r := sh.records[key]
	if r != nil {
		r.lapse(now)
	}
	return r
}

// open is find, with a new record if there is none.
func (sh *shard) open(key tiering.Key, hash uint64, now time.Duration) *record {
	r := sh.find(key, now)
	if r == nil {
		r = newRecord(key, hash)
		r.seen = sh.floors.get(hash)
		sh.records[r.key] = r
	}
	return r
}

// put stores e in r for ttl, unless its life is over or it could never fit.
func (sh *shard) put(r *record, e hot.Entry, now, ttl time.Duration) bool {
	v := value{entry: e}
	if ttl <= 0 || r.size()+v.size() > sh.bound {
		return false
	}
	r.store(e, now, ttl)
	return true
}

// settle brings the shard in line with a record that has changed, and lets a
// record go that holds nothing more.
func (sh *shard) settle(r *record, now time.Duration) {
	r.lapse(now)
	if r.value == nil && r.queue != nil {
		r.queue.remove(r)
	}
	cost := r.size()
	if r.idle() {
		cost = 0
	}
	sh.bytes += cost - r.cost
	if r.queue != nil {
		r.queue.bytes += cost - r.cost
	}
	r.cost = cost
	if r.idle() {
		sh.forget(r, now)
		return
	}
	if r.value != nil && r.queue == nil {
		sh.admit(r)
	}
	sh.agenda.schedule(r, r.nextLapse())
}

// forget removes an idle record. What it has seen outlives it.
func (sh *shard) forget(r *record, now time.Duration) {
	delete(sh.records, r.key)
	sh.agenda.cancel(r)
	if r.seen == (rank{}) || now >= r.seenUntil {
		return
	}
	sh.floors.put(r.hash, r.seen, now, sh.timing.Tombstone)
	if sh.floors.bytes() > sh.bound/8 {
		sh.floors = floors{turned: now}
		sh.forgotUntil = now + sh.timing.Tombstone
	}
}

// sweep frees what has lapsed, a batch at a time so that callers get in.
func (sh *shard) sweep(clock func() time.Duration) {
	for more := true; more; {
		sh.mu.Lock()
		now := clock()
		sh.floors.turn(now, sh.timing.Tombstone)
		for n := 0; n < sweepBatch; n++ {
			r := sh.agenda.due(now)
			if more = r != nil; !more {
				break
			}
			sh.settle(r, now)
		}
		sh.mu.Unlock()
	}
}

// present lists the keys that pass and can be served.
func (sh *shard) present(now time.Duration, pass func(tiering.Key) bool) ([]tiering.Key, error) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if sh.closed {
		return nil, ErrClosed
	}
	var keys []tiering.Key
	for k, r := range sh.records {
		if pass(k) && r.value.live(now) && !r.pending(now) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// held is what counts towards the bound.
func (sh *shard) held() int64 { return sh.bytes + sh.floors.bytes() + sh.ghosts.bytes() }

// marks is the part of it that cannot be evicted.
func (sh *shard) marks() int64 { return sh.held() - sh.small.bytes - sh.main.bytes }

func (sh *shard) addStats(out *hot.Stats) error {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if sh.closed {
		return ErrClosed
	}
	out.Items += int64(sh.small.n + sh.main.n)
	out.Bytes += sh.held()
	out.Hits += sh.hits.Load()
	out.Misses += sh.misses.Load()
	out.Evictions += sh.evictions
	return nil
}

func (sh *shard) close() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closed = true
	sh.records, sh.agenda, sh.floors, sh.ghosts = nil, nil, floors{}, ghosts{}
	sh.small, sh.main, sh.bytes = queue{}, queue{}, 0
}

// agenda is a heap of records by when something of them lapses. A record whose
// next lapse has moved to later stays where it is and is looked at once too
// often: a key that is written again and again costs no sifting.
type agenda []*record

func (a *agenda) schedule(r *record, at time.Duration) {
	switch {
	case at == 0:
	case r.slot < 0:
		r.due = at
		heap.Push(a, r)
	case at < r.due:
		r.due = at
		heap.Fix(a, r.slot)
	}
}

func (a *agenda) cancel(r *record) {
	if r.slot >= 0 {
		heap.Remove(a, r.slot)
	}
}

// due takes out the next record that is due; nil when none is.
func (a *agenda) due(now time.Duration) *record {
	if len(*a) == 0 || (*a)[0].due > now {
		return nil
	}
	return heap.Pop(a).(*record)
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due < a[j].due }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].slot, a[j].slot = i, j
}

func (a *agenda) Push(x any) {
	r := x.(*record)
	r.slot = len(*a)
	*a = append(*a, r)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	r := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	r.slot = -1
	return r
}
