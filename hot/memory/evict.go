package memory

import "time"

const (
	// maxHits caps how often a value's reads are counted.
	maxHits = 3
	// proof is how many reads, besides the one that missed, move a value from the small to the main queue.
	proof = 1
	// ghostCost is what one ghost takes, in bytes.
	ghostCost = 32
)

// touch counts a read. Readers share the shard's lock.
func (r *record) touch() {
	if n := r.hits.Load(); n < maxHits {
		r.hits.CompareAndSwap(n, n+1)
	}
}

// admit queues the value of r. What was evicted from the small queue lately, or
// was in the main queue before its value was replaced, goes to the main queue.
func (sh *shard) admit(r *record) {
	if sh.ghosts.take(r.hash) {
		r.proven = true
	}
	if r.proven {
		sh.main.push(r)
	} else {
		sh.small.push(r)
	}
}

// evict drops values until the shard is within its bound: one-hit wonders from
// the small queue while it has more than its tenth, else what was not read
// since its last turn in the main queue.
func (sh *shard) evict(now time.Duration) {
	for sh.held() > sh.bound && sh.small.n+sh.main.n > 0 {
		if sh.small.n > 0 && (sh.main.n == 0 || sh.small.bytes > sh.bound/10) {
			sh.turnSmall(now)
		} else {
			sh.turnMain(now)
		}
	}
}

func (sh *shard) turnSmall(now time.Duration) {
	r := sh.small.last
	if r.hits.Load() < proof {
		sh.ghosts.add(r.hash, sh.small.n+sh.main.n)
		sh.drop(r, now)
		return
	}
	sh.small.remove(r)
	r.hits.Store(0)
	r.proven = true
	sh.main.push(r)
}

func (sh *shard) turnMain(now time.Duration) {
	r := sh.main.last
	n := r.hits.Load()
	if n == 0 {
		sh.drop(r, now)
		return
	}
	sh.main.remove(r)
	r.hits.Store(n - 1)
	sh.main.push(r)
}

// drop evicts a value. An expired one was lost to expiry, not to the bound.
func (sh *shard) drop(r *record, now time.Duration) {
	if r.value.live(now) {
		sh.evictions++
	}
	r.value = nil
	sh.settle(r, now)
}

// queue is a list of records, first in first out.
type queue struct {
	first, last *record // first: came in last
	n           int
	bytes       int64
}

func (q *queue) push(r *record) {
	r.queue, r.prev, r.next = q, nil, q.first
	if q.first != nil {
		q.first.prev = r
	} else {
		q.last = r
	}
	q.first = r
	q.n++
	q.bytes += r.cost
}

func (q *queue) remove(r *record) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		q.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		q.last = r.prev
	}
	r.queue, r.prev, r.next = nil, nil, nil
	q.n--
	q.bytes -= r.cost
}

// ghosts are the hashes of keys evicted from the small queue, oldest first.
type ghosts struct {
	set  map[uint64]struct{}
	fifo []uint64
}

// add remembers hash and keeps no more than limit.
func (g *ghosts) add(hash uint64, limit int) {
	if g.set == nil {
		g.set = map[uint64]struct{}{}
	}
	if _, ok := g.set[hash]; !ok {
		g.set[hash] = struct{}{}
		g.fifo = append(g.fifo, hash)
	}
	for len(g.fifo) > max(limit, 1) {
		delete(g.set, g.fifo[0])
		g.fifo = g.fifo[1:]
	}
}

// take forgets hash and reports whether it was remembered.
func (g *ghosts) take(hash uint64) bool {
	if _, ok := g.set[hash]; !ok {
		return false
	}
	delete(g.set, hash)
	return true
}

func (g *ghosts) bytes() int64 { return int64(len(g.fifo)) * ghostCost }
