// Package soundness takes a source of bytes out of the read path when too many
// of them do not match their digests: a server with bad memory, a disk that
// rots. Every copy is checked on every read, so nothing wrong is served either
// way; a source that fails its checks again and again only costs time, and
// hides behind the copies that mend it.
package soundness

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// When a source leaves the read path: more than 1 in MaxShare of at least
// MinLoads loads were corrupt, of at least MinObjects distinct objects. One bad
// object that is read often is no reason.
const (
	MinLoads   = 1000
	MaxShare   = 1000
	MinObjects = 10
)

// Defaults of Breaker.
const (
	DefaultWindow = 100_000
	DefaultRest   = 10 * time.Minute
)

// Breaker judges one source. The zero value works. It is safe for concurrent
// use.
type Breaker struct {
	// Window is how many loads are judged together: after so many it begins
	// anew; 0 means DefaultWindow.
	Window int64
	// Rest is how long the source stays out; then it is tried again; 0 means
	// DefaultRest.
	Rest time.Duration
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time

	loads  atomic.Int64
	opened atomic.Int64 // when the source left, in Unix nanoseconds; 0: it is in

	mu      sync.Mutex
	corrupt int64
	objects map[uint64]struct{} // up to MinObjects of those that were corrupt
	seed    maphash.Seed
}

// Sound counts a load whose bytes matched.
func (b *Breaker) Sound() {
	if n := b.loads.Add(1); n >= b.window() {
		b.begin()
	}
}

// Corrupt counts a load whose bytes did not match. It reports whether that took
// the source out of the read path.
func (b *Breaker) Corrupt(object string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	loads := b.loads.Add(1)
	b.corrupt++
	if b.objects == nil {
		b.objects, b.seed = map[uint64]struct{}{}, maphash.MakeSeed()
	}
	if len(b.objects) < MinObjects {
		b.objects[maphash.String(b.seed, object)] = struct{}{}
	}
	if b.opened.Load() != 0 || loads < MinLoads || len(b.objects) < MinObjects || b.corrupt*MaxShare <= loads {
		return false
	}
	b.opened.Store(b.now().UnixNano())
	return true
}

// Open reports whether the source is out of the read path. After its rest it is
// in again, and judged anew.
func (b *Breaker) Open() bool {
	at := b.opened.Load()
	if at == 0 {
		return false
	}
	rest := b.Rest
	if rest <= 0 {
		rest = DefaultRest
	}
	if b.now().Sub(time.Unix(0, at)) < rest {
		return true
	}
	if b.opened.CompareAndSwap(at, 0) {
		b.begin()
	}
	return false
}

// begin forgets what was counted.
func (b *Breaker) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loads.Store(0)
	b.corrupt = 0
	clear(b.objects)
}

func (b *Breaker) window() int64 {
	if b.Window > 0 {
		return b.Window
	}
	return DefaultWindow
}

func (b *Breaker) now() time.Time {
	if b.Clock != nil {
		return b.Clock()
	}
	return time.Now()
}
