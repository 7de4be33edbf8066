// Package vectortest proves an index of memories: Run is what every
// vector.Index has to pass, over a warm store of its kind. What an index
// answers is compared with a model that looks at every memory.
package vectortest

import (
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// Memory is a memory to be committed.
type Memory struct {
	Key   tiering.Key
	User  string
	TTL   time.Duration // 0: none
	Entry tiering.MemoryEntry
}

// Kept is what a commit made of a memory.
type Kept struct {
	Version   int64
	CreatedAt time.Time
}

// World is an index over a fresh store, on a clock that stands until it is
// moved.
type World interface {
	Index() vector.Index
	Now() time.Time
	Advance(d time.Duration)
	// Remember commits memories in one batch; entries get the digest of what is
	// stored. A user stays whose a key is until it is deleted.
	Remember(t testing.TB, ms ...Memory) []Kept
	// AddVector adds a vector to what is stored, as one that was embedded later.
	AddVector(t testing.TB, k tiering.Key, v tiering.MemoryVector)
	Delete(t testing.TB, keys ...tiering.Key)
	// Erase takes all that a user has, in warm and in the index.
	Erase(t testing.TB, tenant, user string)
	// DropSpace removes all vectors of a space.
	DropSpace(t testing.TB, space string)
}

// Harness is an index under test.
type Harness struct {
	// Open opens a world of its own; the test closes it.
	Open func(t *testing.T) World
	// Areas are the subtests to run; nil: all.
	Areas []string
	// Checks bounds how many sequences the machine runs; 0: as many as rapid is
	// told to.
	Checks int
	// Large is how many vectors the test of many has; 0: 3,000.
	Large int
}

// Run runs the whole suite, an area a subtest.
func Run(t *testing.T, h Harness) {
	for _, a := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"nearest", testNearest},
		{"scopes", testScopes},
		{"words", testWords},
		{"around", testAround},
		{"coherence", testCoherence},
		{"many", testMany},
		{"machine", testMachine},
	} {
		if h.Areas != nil && !slices.Contains(h.Areas, a.name) {
			continue
		}
		t.Run(a.name, func(t *testing.T) { a.run(t, h) })
	}
}

// Settle does background work until there is none.
func Settle(t testing.TB, x vector.Index) {
	t.Helper()
	for range 10_000 {
		more, err := x.Maintain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
	t.Fatal("background work does not end")
}
