// Package hottest proves a hot.Store. A driver's test calls Run with a Harness;
// what Run does not see, the driver need not promise.
//
// The races of the contract are Scenarios: schedules written out step by step,
// each with the violation a naive store shows. Naive makes such stores, for
// here and for the tests of the layers above.
package hottest

import (
	"context"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// Harness opens stores of one driver.
type Harness struct {
	// Open returns a store that holds nothing and sees no other one's entries.
	// The suite closes the store; what else Open needs goes to t.Cleanup.
	Open         func(t testing.TB, o Options) Subject
	Capabilities hot.Capabilities
	// RealTime says that Advance sleeps. Random schedules then leave time
	// alone, and the other tests sleep side by side.
	RealTime bool
}

// Options is what a test asks of a store.
type Options struct {
	// MaxBytes bounds the store, 0 for the driver's default. It is asked for
	// only of stores that are not Shared: the bound of a server is its own.
	MaxBytes int64
}

// Subject is an open store and its time.
type Subject struct {
	Store  hot.Store
	Timing hot.Timing // what the store was opened with, defaults filled in
	// Advance lets d pass for the store.
	Advance func(d time.Duration)
}

// Run proves the driver behind h.
func Run(t *testing.T, h Harness) {
	t.Run("Contract", func(t *testing.T) { h.each(t, Contract()) })
	t.Run("Races", func(t *testing.T) { h.each(t, Races()) })
	t.Run("Values", func(t *testing.T) { testValues(t, h) })
	t.Run("Swap", func(t *testing.T) { testSwap(t, h) })
	t.Run("Scan", func(t *testing.T) { testScan(t, h) })
	t.Run("Together", func(t *testing.T) { testTogether(t, h) })
	t.Run("Store", func(t *testing.T) { testStore(t, h) })
	t.Run("Schedules", func(t *testing.T) { testSchedules(t, h) })
	t.Run("Goroutines", func(t *testing.T) { testGoroutines(t, h) })
}

func (h Harness) open(t testing.TB, o Options) Subject {
	t.Helper()
	s := h.Open(t, o)
	t.Cleanup(func() { s.Store.Close() })
	return s
}

// each runs every scenario on a store of its own.
func (h Harness) each(t *testing.T, scenarios []Scenario) {
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			if err := sc.Run(t.Context(), h.open(t, Options{}), "tenant"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Scenario is one schedule of calls with what a reader must see.
type Scenario struct {
	Name string
	// Run plays the schedule on keys of tenant and returns the violation it
	// saw. It may be run again on the same store with another tenant.
	Run func(ctx context.Context, s Subject, tenant string) error
}

// scenario builds a Scenario of one key from its script.
func scenario(name string, script func(p *probe)) Scenario {
	return Scenario{Name: name, Run: func(ctx context.Context, s Subject, tenant string) error {
		p := &probe{ctx: ctx, Subject: s, key: tiering.Key{Tenant: tenant, Namespace: "docs", ID: "a/b"}}
		script(p)
		return p.err
	}}
}
