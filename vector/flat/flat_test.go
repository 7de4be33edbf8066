package flat_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tierd/tierd/internal/memories"
	"github.com/tierd/tierd/internal/memorytest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/flat"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm/sqlite"
)

// open opens an index over a store in a folder of the test's own.
func open(t testing.TB, o *flat.Options) *memorytest.World {
	t.Helper()
	clock := memorytest.NewClock()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "warm.db"), &sqlite.Options{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	src, ok := memories.Source(s)
	if !ok {
		t.Fatal("SQLite keeps no journal of memories")
	}
	x, err := flat.Open(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return memorytest.New(clock, s, x)
}

func TestContract(t *testing.T) {
	for name, o := range map[string]*flat.Options{"as it is": nil, "codes soon": {ExactUpTo: 20}} {
		t.Run(name, func(t *testing.T) {
			vectortest.Run(t, vectortest.Harness{Checks: 40, Open: func(t *testing.T) vectortest.World { return open(t, o) }})
		})
	}
}

// gaps is a source that forgets what changed, every other time.
type gaps struct {
	vector.Source
	calls int
}

func (g *gaps) Changed(ctx context.Context, since int64) ([]tiering.Key, int64, bool, error) {
	g.calls++
	keys, now, known, err := g.Source.Changed(ctx, since)
	return keys, now, known && g.calls%2 == 0, err
}

// TestAnIndexBeginsAnew: over a store that has memories already, and when the
// source does not know any more what changed.
func TestAnIndexBeginsAnew(t *testing.T) {
	w := open(t, nil)
	src, _ := memories.Source(w.Store)
	entry := func(words ...string) (e tiering.MemoryEntry) {
		for _, word := range words {
			e.Terms = append(e.Terms, tiering.MemoryTerm{Text: word, Freq: 1})
		}
		e.Length, e.Vectors = len(words), []tiering.MemoryVector{{Space: "x", Vector: []float32{1, 0}}}
		return e
	}
	key := func(i int) tiering.Key {
		return tiering.Key{Tenant: "acme", Namespace: "mind", ID: fmt.Sprintf("%04d", i)}
	}
	var ms []vectortest.Memory
	for i := range 1500 {
		ms = append(ms, vectortest.Memory{Key: key(i), Entry: entry("all", fmt.Sprint("w", i))})
	}
	w.Remember(t, ms...)
	x, err := flat.Open(t.Context(), &gaps{Source: src}, nil)
	if err != nil {
		t.Fatal(err)
	}
	scope := vector.Scope{Tenant: "acme", Namespaces: []string{"mind"}}
	for i := range 6 {
		w.Delete(t, key(i))
		want := len(ms) - i - 1
		if n, err := x.Count(t.Context(), scope, 10_000); err != nil || n != want {
			t.Fatalf("a count of %d, %v, want %d", n, err, want)
		}
		stats, df, err := x.Frequencies(t.Context(), scope, []string{"all", fmt.Sprint("w", i), "w1000"})
		if err != nil || stats.Documents != int64(want) || df[0] != int64(want) || df[1] != 0 || df[2] != 1 {
			t.Fatalf("counts are %v, %v, %v", stats, df, err)
		}
	}
	st, err := x.Stats(t.Context())
	if err != nil || st.Memories != 1494 || st.Vectors != 1494 || st.Bytes < 1494*8 || st.Fresh != 0 || st.Dormant != 0 {
		t.Errorf("stats are %+v, %v", st, err)
	}
	before := st.Bytes
	w.Remember(t, ms[:6]...)
	if st, err = x.Stats(t.Context()); err != nil || st.Bytes < before {
		t.Errorf("with six more: %+v, %v", st, err)
	}
}
