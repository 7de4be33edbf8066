// Package warmtest proves a driver of the warm tier: Run is what every
// warm.Store has to pass, on every database, unchanged. It tests what
// warm/warm.go promises and nothing beyond it.
package warmtest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/warm"
)

// Options are what the suite sets on a store.
type Options struct {
	// Clock is warm's clock.
	Clock func() time.Time
	// AfterCommit is called when a transaction of Commit or Atomic is durable;
	// its error takes the place of the answer, wrapped in
	// warm.ErrOutcomeUnknown.
	AfterCommit func() error
	// Restore opens the store for BeginRestore.
	Restore bool
}

// Harness is a driver under test.
type Harness struct {
	Capabilities warm.Capabilities
	// Open opens the store at place, a name that no other test uses. The same
	// place again, after Close, is the same data. The suite closes it.
	Open func(t *testing.T, place string, o Options) warm.Store
	// TryOpen is Open that returns its error; nil leaves out what an open
	// refuses.
	TryOpen func(t *testing.T, place string, o Options) (warm.Store, error)
	// Crash returns a place that holds what a killed process would have left
	// of the open store at place, without closing it; nil when the driver has
	// no process of its own to kill.
	Crash func(t *testing.T, place string) (left string)
	// Settle returns when everything that was committed is in the feed; nil
	// when the commit sees to that.
	Settle func(t *testing.T, s warm.Store)
}

// Run runs the whole suite, an area a subtest; where areas are named, those alone.
func Run(t *testing.T, h Harness, only ...string) {
	areas := []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"commit", testCommit},
		{"conditions", testConditions},
		{"folds", testFolds},
		{"idempotency", testIdempotency},
		{"atomic", testAtomic},
		{"expiry", testExpiry},
		{"reads", testReads},
		{"reads of many", testReadsOfMany},
		{"entries", testEntries},
		{"aliases", testAliases},
		{"list", testList},
		{"query", testQuery},
		{"query index", testQueryIndex},
		{"feed", testFeed},
		{"catalog", testCatalog},
		{"deleting", testDeleting},
		{"moves", testMoves},
		{"mend", testMend},
		{"walk", testWalk},
		{"clock", testClock},
		{"merge", testMerge},
		{"erase", testErase},
		{"erase of owners", testEraseOwners},
		{"mentions", testMentions},
		{"restore", testRestore},
		{"namespaces", testNamespaces},
		{"leases", testLeases},
		{"fencing", testFencing},
		{"memories", testMemories},
		{"hot epochs", testHotEpochs},
		{"faults", testFaults},
		{"reopen", testReopen},
		{"racing", testRacing},
		{"machine", testMachine},
	}
	ran := 0
	for _, a := range areas {
		if len(only) == 0 || slices.Contains(only, a.name) {
			ran++
			t.Run(a.name, func(t *testing.T) { a.run(t, h) })
		}
	}
	if len(only) > 0 && ran != len(only) {
		t.Errorf("of the areas %q there are %d", only, ran)
	}
}

// clock is warm's clock in the suite: it stands until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2031, 5, 6, 7, 8, 9, 123456000, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
