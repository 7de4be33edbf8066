package router

import (
	"context"
	"sync"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// flights lets readers of one key share loads. A reader that hot told that the
// lease of the load under way lives joins it: since that lease was granted
// nobody has marked the key, here or in another daemon, so nothing that was
// acknowledged before the reader came can be missing. Every other reader joins
// the load after that, which has not begun: so a key has at most one load
// running and one waiting, however many ask.
type flights struct {
	mu sync.Mutex
	m  map[tiering.Key]*pair
	// joins says whether a reader that hot answered so may join the load under
	// way; fresh asks for one that begins after the reader came. Tests that need
	// a naive router replace it.
	joins func(running *flight, l hot.Lookup, fresh bool) bool
}

// underLease is flights.joins. A writer that could not reach hot kills no
// lease: where it is of this daemon, old tells.
func underLease(running *flight, l hot.Lookup, fresh bool) bool {
	return !fresh && l.Holder != 0 && l.Holder == running.lease && !running.old
}

type pair struct{ running, next *flight }

// flight is one load, shared by all who wait for it. It ends whether or not
// they do.
type flight struct {
	policy *policy
	lease  hot.Token
	old    bool // a write was settled here since it began; under flights.mu
	done   chan struct{}
	got    loaded
	err    error
}

// share returns a load of key to wait for. l is what hot answered, zero when it
// did not; fresh asks for a load that begins after this call. A reader that was
// granted a lease gets one: the load under way has lost its own.
func (r *core) share(key tiering.Key, p *policy, l hot.Lookup, fresh bool) *flight {
	fs, lease := &r.flights, l.Lease
	fs.mu.Lock()
	defer fs.mu.Unlock()
	at := fs.m[key]
	switch {
	case at == nil:
		if fs.m == nil {
			fs.m = map[tiering.Key]*pair{}
		}
		at = &pair{running: newFlight(p, lease)}
		fs.m[key] = at
		r.fly(key, at.running)
		return at.running
	case fs.joins(at.running, l, fresh):
		return at.running
	case at.next == nil:
		at.next = newFlight(p, lease)
	case lease != 0:
		at.next.lease = lease
	}
	return at.next
}

// outdate keeps readers that come later from joining the load under way: it may
// have read what stood before a write that is now acknowledged.
func (fs *flights) outdate(key tiering.Key) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if at := fs.m[key]; at != nil {
		at.running.old = true
	}
}

func newFlight(p *policy, lease hot.Token) *flight {
	return &flight{policy: p, lease: lease, done: make(chan struct{})}
}

// fly runs one load that no caller can cancel, then the one that waits. flights
// is locked.
func (r *core) fly(key tiering.Key, f *flight) {
	err := r.detached(func(ctx context.Context) {
		f.got, f.err = r.load(ctx, key, f.policy, f.lease)
		if f.err != nil {
			r.forgo(key, f.lease)
		}
		fs := &r.flights
		fs.mu.Lock()
		at := fs.m[key]
		at.running, at.next = at.next, nil
		if at.running == nil {
			delete(fs.m, key)
		} else {
			r.fly(key, at.running)
		}
		fs.mu.Unlock()
		close(f.done)
	})
	if err != nil {
		f.err = err
		delete(r.flights.m, key)
		close(f.done)
	}
}

// forgo spends the lease of a load that failed: until it lapsed nobody could
// fill hot, although warm may be back.
func (r *core) forgo(key tiering.Key, lease hot.Token) {
	if lease == 0 {
		return
	}
	// Best effort: a lease that stays lapses.
	_ = r.onHot(context.Background(), func(ctx context.Context) error {
		_, err := r.Hot.Fill(ctx, key, lease, hot.Entry{}, 0)
		return err
	})
}

func (f *flight) wait(ctx context.Context) (loaded, error) {
	select {
	case <-f.done:
		return f.got, f.err
	case <-ctx.Done():
		return loaded{}, ctx.Err()
	}
}
