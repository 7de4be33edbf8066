package router

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/hottest"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// testClock is a clock that a test moves.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock() *testClock {
	return &testClock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// setup is how a world is built. The zero value is tierd as it is, one daemon
// over the embedded tiers. Where two daemons share a tier, what stands between
// the gates and the driver of it is shared too.
type setup struct {
	place       place
	hot         func(hot.Store) hot.Store   // between the gates and the driver
	warm        func(warm.Store) warm.Store // likewise
	config      func(*Config)               // before a router is made
	router      func(*Router)               // after
	afterCommit func() error                // of the driver of warm
	local       func(time.Time) time.Time   // the local clock, from the true one
	epochs      epochSetup                  // on servers
}

// world is one or two routers over the tiers, with gates before both.
type world struct {
	testing.TB
	*gates
	r      *Router // who reads
	writer *Router // who writes: another daemon, where there are two
	ctx    context.Context
	tenant string
	clock  *testClock // hot's, warm's and the local one; nil on servers
	timing hot.Timing
	unit   time.Duration // what lives last: long on a clock that is moved
	hot    hot.Store     // behind the gates
	warm   warm.Store    // behind the gates
	path   string        // of warm's file, or its URL
}

// space is the namespace that most tests write to.
const space = "docs"

func open(t testing.TB, s setup) *world {
	t.Helper()
	w := &world{TB: t, gates: newGates(), ctx: t.Context(), tenant: tiering.DefaultTenant}
	daemons := w.openEmbedded
	if s.place == servers {
		daemons = w.openServers
	}
	first, second := daemons(s)
	w.hot, w.warm = first.hot, first.warm
	w.r = w.daemon(s, first)
	w.writer = w.r
	if s.place != embedded {
		w.writer = w.daemon(s, second)
	}
	t.Cleanup(w.releaseAll)
	return w
}

// tiersOf are the stores of one daemon, behind the gates.
type tiersOf struct {
	hot  hot.Store
	warm warm.Store
}

func (w *world) openEmbedded(s setup) (first, second tiersOf) {
	w.Helper()
	w.clock, w.timing, w.unit = newTestClock(), hot.Timing{}.WithDefaults(), time.Minute
	w.path = filepath.Join(w.TempDir(), "warm.db")
	store, err := sqlite.Open(w.ctx, w.path, &sqlite.Options{Clock: w.clock.Now, AfterCommit: s.afterCommit})
	w.no(err)
	w.Cleanup(func() { store.Close() })
	cache := memory.Open(&memory.Options{Clock: w.clock.Now})
	w.Cleanup(func() { cache.Close() })
	both := tiersOf{s.hotOf(cache), s.warmOf(store)}
	return both, both
}

// hotOf is what a setup has between the gates and the driver of hot.
func (s setup) hotOf(driver hot.Store) hot.Store {
	if s.hot == nil {
		return driver
	}
	return s.hot(driver)
}

// warmOf is hotOf of warm.
func (s setup) warmOf(driver warm.Store) warm.Store {
	if s.warm == nil {
		return driver
	}
	return s.warm(driver)
}

// daemon makes a router on tiers.
func (w *world) daemon(s setup, tiers tiersOf) *Router {
	c := Config{
		Hot: gatedHot{tiers.hot, w.gates}, Warm: gatedWarm{tiers.warm, w.gates}, HotTimeout: patience, CommitTimeout: patience,
		Clock: time.Now,
	}
	if w.clock != nil {
		c.Clock = w.clock.Now
	}
	if now := c.Clock; s.local != nil {
		c.Clock = func() time.Time { return s.local(now()) }
	}
	if s.config != nil {
		s.config(&c)
	}
	r := New(c)
	if s.router != nil {
		s.router(r)
	}
	w.Cleanup(r.Close)
	return r.As(tiering.Principal{Tenant: w.tenant})
}

// advance lets d pass for hot and warm.
func (w *world) advance(d time.Duration) {
	if w.clock == nil {
		time.Sleep(d + time.Millisecond)
		return
	}
	w.clock.advance(d)
}

// key names a key of the world's tenant.
func (w *world) key(id string) tiering.Key {
	return tiering.Key{Tenant: w.tenant, Namespace: space, ID: id}
}

func key(id string) tiering.Key {
	return tiering.Key{Tenant: tiering.DefaultTenant, Namespace: space, ID: id}
}

// no fails the test for an error.
func (w *world) no(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) put(id, body string) *tiering.Receipt {
	w.Helper()
	return w.putIf(id, body, tiering.Condition{})
}

func (w *world) putIf(id, body string, c tiering.Condition) *tiering.Receipt {
	w.Helper()
	rc, err := w.writer.Put(w.ctx, space, id, []byte(body), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: c}})
	w.no(err)
	return rc
}

func (w *world) delete(id string) *tiering.Receipt {
	w.Helper()
	rc, err := w.writer.Delete(w.ctx, space, id, nil)
	w.no(err)
	return rc
}

// policy sets the policy of a namespace.
func (w *world) policy(ns string, p tiering.Policy) {
	w.Helper()
	_, err := w.writer.SetNamespace(w.ctx, ns, p, nil)
	w.no(err)
}

// get is a cached get: the body, "" where nothing stands.
func (w *world) get(id string) string {
	w.Helper()
	return w.read(id, nil)
}

// strong is a strong get.
func (w *world) strong(id string) string {
	w.Helper()
	return w.read(id, &tiering.GetOptions{Strong: true})
}

func (w *world) read(id string, o *tiering.GetOptions) string {
	w.Helper()
	d, err := w.r.Get(w.ctx, space, id, o)
	if tiering.CodeOf(err) == tiering.CodeNotFound {
		return ""
	}
	w.no(err)
	return string(d.Body)
}

// cold empties hot of a key, as an eviction does.
func (w *world) evict(id string) {
	w.Helper()
	w.no(w.hot.Drop(w.ctx, w.key(id), 0, 0))
}

// call runs f beside the test; the returned function waits for it.
func call[T any](w *world, f func() (T, error)) func() (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
	}()
	return func() (T, error) {
		w.Helper()
		select {
		case o := <-done:
			return o.v, o.err
		case <-time.After(patience):
			w.Fatal("a call hangs")
			panic("unreachable")
		}
	}
}

// startPut puts beside the test.
func (w *world) startPut(id, body string, c tiering.Condition) func() (*tiering.Receipt, error) {
	return call(w, func() (*tiering.Receipt, error) {
		return w.writer.Put(w.ctx, space, id, []byte(body), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: c}})
	})
}

func (w *world) startGet(id string, o *tiering.GetOptions) func() (*tiering.Document, error) {
	return call(w, func() (*tiering.Document, error) { return w.r.Get(w.ctx, space, id, o) })
}

// eventually waits for what other goroutines bring about.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(end) {
			w.Fatalf("never came to be: %s", what)
		}
	}
}

// inLine waits until n mutations stand in the line of the writer's queue.
func (w *world) inLine(n int) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d mutations in line", n), func() bool {
		w.writer.queue.mu.Lock()
		defer w.writer.queue.mu.Unlock()
		return len(w.writer.queue.waiting) == n
	})
}

// blockQueue holds a commit of another key, so that what comes meanwhile waits
// in line. The returned function lets it go.
func (w *world) blockQueue() func() {
	w.Helper()
	h := w.hold("warm.Commit")
	wait := w.startPut("blocker", `0`, tiering.Condition{})
	h.reached(w)
	return func() {
		w.Helper()
		h.release()
		_, err := wait()
		w.no(err)
	}
}

// violation is a broken promise that a race test saw.
type violation string

func (v violation) Error() string { return string(v) }

func violatedf(format string, args ...any) error { return violation(fmt.Sprintf(format, args...)) }

// race plays a schedule twice, everywhere: tierd must keep the promise, and the
// naive variant must break it, or the schedule proves nothing.
func race(t *testing.T, naive setup, play func(w *world) error) {
	t.Helper()
	raceOn(t, everywhere(), setup{}, naive, play)
}

// raceOn is race with tierd in a world of its own, in some places.
func raceOn(t *testing.T, places []place, sound, naive setup, play func(w *world) error) {
	t.Helper()
	for _, p := range places {
		t.Run(p.String(), func(t *testing.T) {
			if p == servers {
				addresses(t)
			}
			sound, naive := sound, naive
			sound.place, naive.place = p, p
			t.Run("tierd", func(t *testing.T) {
				t.Parallel()
				if err := play(open(t, sound)); err != nil {
					t.Error(err)
				}
			})
			t.Run("naive", func(t *testing.T) {
				t.Parallel()
				err := play(open(t, naive))
				if err == nil {
					t.Error("the naive variant keeps the promise: this schedule proves nothing")
				}
				t.Log(err)
			})
		})
	}
}

// faulty is a setup whose hot tier has one of hottest's faults.
func faulty(f hottest.Fault) setup {
	return setup{hot: func(s hot.Store) hot.Store { return hottest.Naive(s, f) }}
}
