package memory

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// rank orders what a key has seen: version first, then revision.
type rank struct{ version, revision int64 }

func rankOf(m *tiering.Meta) rank { return rank{m.Version, m.Revision} }

func (r rank) compare(o rank) int {
	if c := cmp.Compare(r.version, o.version); c != 0 {
		return c
	}
	return cmp.Compare(r.revision, o.revision)
}

// value is a stored entry. It is replaced, never changed.
type value struct {
	entry   hot.Entry
	expires time.Duration // since Open; 0: never
}

// pending is one write on its way to warm. It is spoiled when another token
// lapsed beside it: that writer may have committed a newer version and died,
// so what this one commits can no longer be taken for the newest.
type pending struct {
	token   hot.Token
	until   time.Duration
	spoiled bool
}

// record is all a shard knows of one key. A mark lives while now is before its
// end. These hold between calls:
//   - value and tombstone exclude each other, and stand at rank seen;
//   - beside a value there is no lease, and no token but under Swap.
//
// What was seen is kept while anything else of the record lives, and until
// seenUntil.
type record struct {
	key  tiering.Key
	hash uint64

	seen      rank
	seenUntil time.Duration

	value      *value
	tombstone  time.Duration // its end; 0: none
	lease      hot.Token     // 0: none
	leaseUntil time.Duration
	tokens     []pending

	// Where the record stands in its shard. All is guarded by the shard's
	// lock; readers, who share it, count their hits atomically.
	queue      *queue // nil while there is no value
	prev, next *record
	proven     bool // belongs to the main queue
	hits       atomic.Int32
	due        time.Duration // when to look at the record again
	slot       int           // in the shard's agenda; -1: not there
	cost       int64
}

// The bytes a record takes besides its strings and body, with its place in the
// map and in the agenda. A test compares the sum with the heap.
const (
	recordCost = int64(unsafe.Sizeof(record{})) + 120
	valueCost  = int64(unsafe.Sizeof(value{})) + 16
	tokenCost  = int64(unsafe.Sizeof(pending{}))
)

func newRecord(key tiering.Key, hash uint64) *record {
	// One string of our own: the caller's may be cut from a whole request.
	own := key.Tenant + key.Namespace + key.ID
	t, n := len(key.Tenant), len(key.Tenant)+len(key.Namespace)
	return &record{
		key:  tiering.Key{Tenant: own[:t], Namespace: own[t:n], ID: own[n:]},
		hash: hash,
		slot: -1,
	}
}

// size is what the record counts towards the bound.
func (r *record) size() int64 {
	n := recordCost + int64(len(r.key.Tenant)+len(r.key.Namespace)+len(r.key.ID)) + int64(cap(r.tokens))*tokenCost
	if r.value != nil {
		n += r.value.size()
	}
	return n
}

func (v *value) size() int64 {
	return valueCost + int64(cap(v.entry.Body)) + int64(len(v.entry.Meta.User))
}

func (v *value) live(now time.Duration) bool {
	return v != nil && (v.expires == 0 || now < v.expires)
}

// pending reports whether a write is on its way.
func (r *record) pending(now time.Duration) bool {
	for i := range r.tokens {
		if now < r.tokens[i].until {
			return true
		}
	}
	return false
}

// look answers a reader.
func (r *record) look(now time.Duration) hot.Lookup {
	switch {
	case r.pending(now):
		return hot.Lookup{State: hot.Pending}
	case r.value.live(now):
		return hot.Lookup{State: hot.Present, Entry: r.value.entry}
	case now < r.tombstone:
		return hot.Lookup{State: hot.Deleted, Entry: hot.Entry{Meta: tiering.Meta{
			Namespace: r.key.Namespace, ID: r.key.ID, Version: r.seen.version, Revision: r.seen.revision,
		}}}
	}
	return hot.Lookup{State: hot.Empty}
}

// see raises what was seen to at, and drops what is older. It reports whether
// at is newer than everything seen before.
func (r *record) see(at rank, until time.Duration) bool {
	if at.compare(r.seen) <= 0 {
		return false
	}
	r.seen = at
	r.seenUntil = until
	r.value, r.tombstone = nil, 0
	return true
}

// store makes e the value, for ttl (0: until evicted).
func (r *record) store(e hot.Entry, now, ttl time.Duration) {
	// The key's own strings stand in for equal ones of the caller.
	e.Meta.Namespace, e.Meta.ID = r.key.Namespace, r.key.ID
	v := &value{entry: e}
	if ttl > 0 {
		v.expires = now + ttl
	}
	r.value, r.tombstone = v, 0
}

// mark makes token live until. The caller has called lapse: a token is spoiled
// only by those that lapse after it came.
func (r *record) mark(token hot.Token, until time.Duration) {
	if i := slices.IndexFunc(r.tokens, func(p pending) bool { return p.token == token }); i >= 0 {
		r.tokens[i].until = until
		return
	}
	r.tokens = append(r.tokens, pending{token: token, until: until})
}

// unmark removes token and reports whether it lived, unspoiled. The caller has
// called lapse.
func (r *record) unmark(token hot.Token) bool {
	i := slices.IndexFunc(r.tokens, func(p pending) bool { return p.token == token })
	if i < 0 {
		return false
	}
	sound := !r.tokens[i].spoiled
	r.tokens = slices.Delete(r.tokens, i, i+1)
	return sound
}

// lapse drops what has come to its end.
func (r *record) lapse(now time.Duration) {
	if !r.value.live(now) {
		r.value = nil
	}
	if now >= r.tombstone {
		r.tombstone = 0
	}
	if now >= r.leaseUntil {
		r.lease = 0
	}
	before := len(r.tokens)
	r.tokens = slices.DeleteFunc(r.tokens, func(p pending) bool { return now >= p.until })
	if len(r.tokens) < before {
		for i := range r.tokens {
			r.tokens[i].spoiled = true
		}
	}
}

// idle reports whether nothing is left but what was seen.
func (r *record) idle() bool {
	return r.value == nil && r.tombstone == 0 && r.lease == 0 && len(r.tokens) == 0
}

// nextLapse is the first end among value and marks; 0 when nothing ends.
func (r *record) nextLapse() time.Duration {
	var first time.Duration
	consider := func(at time.Duration) {
		if at > 0 && (first == 0 || at < first) {
			first = at
		}
	}
	if r.value != nil {
		consider(r.value.expires)
	}
	consider(r.tombstone)
	if r.lease != 0 {
		consider(r.leaseUntil)
	}
	for _, p := range r.tokens {
		consider(p.until)
	}
	return first
}
