package flat_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/flat"
	"github.com/tierd/tierd/vector/vectortest"
)

const benchDims, benchSpace = 384, "bench:384"

var benchScope = vector.Scope{Tenant: "acme", Namespaces: []string{"mind"}}

// filled is an index of n vectors, with the vectors and some queries.
func filled(tb testing.TB, n int) (x *flat.Index, vectors, queries [][]float32) {
	tb.Helper()
	vectors = vectortest.Clustered(rand.New(rand.NewPCG(uint64(n), 1)), n+200, benchDims)
	vectors, queries = vectors[:n:n], vectors[n:]
	x, err := flat.Open(tb.Context(), vectortest.StillOf(vectors, "acme", "mind", benchSpace), nil)
	if err != nil {
		tb.Fatal(err)
	}
	vectortest.Settle(tb, x)
	return x, vectors, queries
}

// BenchmarkNearest searches 1,000 to 100,000 vectors of 384 dimensions for
// the best 10, beside a plain loop over the same vectors; recall is that of the
// answers.
func BenchmarkNearest(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		x, vectors, queries := filled(b, n)
		b.Run(fmt.Sprintf("vectors=%d/way=index", n), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took []time.Duration
			used := processor(b)
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				if hits, err := x.Nearest(b.Context(), benchScope, benchSpace, queries[i%len(queries)], 10, false); err != nil || len(hits) != 10 {
					b.Fatal(len(hits), err)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(float64((processor(b)-used).Microseconds())/float64(len(took)), "cpu-us/op")
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			sum := 0.0
			for _, q := range queries[:50] {
				hits, err := x.Nearest(b.Context(), benchScope, benchSpace, q, 10, false)
				if err != nil {
					b.Fatal(err)
				}
				sum += vectortest.Recall(hits, vectortest.Exact(q, vectors), 10)
			}
			b.ReportMetric(sum/50, "recall@10")
		})
		b.Run(fmt.Sprintf("vectors=%d/way=loop", n), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			used, n := processor(b), 0
			for ; b.Loop(); n++ {
				plain(vectors, queries[n%len(queries)], 10)
			}
			b.ReportMetric(float64((processor(b)-used).Microseconds())/float64(n), "cpu-us/op")
		})
	}
}

// processor is the processor time of this thread: what a search costs while
// others load the machine.
func processor(b *testing.B) time.Duration {
	b.Helper()
	const thread = 1 // RUSAGE_THREAD
	var use syscall.Rusage
	if err := syscall.Getrusage(thread, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// plain is a search as one writes it without thinking about it.
func plain(vectors [][]float32, q []float32, k int) []int {
	type scored struct {
		i     int
		score float32
	}
	best := make([]scored, 0, k+1)
	for i, v := range vectors {
		var dot float32
		for j := range v {
			dot += v[j] * q[j]
		}
		if len(best) == k && dot <= best[k-1].score {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, dot, func(s scored, d float32) int {
			if s.score > d {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, scored{i, dot})
		best = best[:min(k, len(best))]
	}
	out := make([]int, len(best))
	for i, s := range best {
		out[i] = s.i
	}
	return out
}

// TestTheShapeOfTheFigures holds in small what BenchmarkNearest prints: the
// codes find what the vectors do.
func TestTheShapeOfTheFigures(t *testing.T) {
	const n = 25_000
	x, vectors, queries := filled(t, n)
	sum := 0.0
	for _, q := range queries[:20] {
		hits, err := x.Nearest(t.Context(), benchScope, benchSpace, q, 10, false)
		if err != nil {
			t.Fatal(err)
		}
		sum += vectortest.Recall(hits, vectortest.Exact(q, vectors), 10)
	}
	if sum/20 < 0.95 {
		t.Errorf("recall@10 of %d vectors is %.3f", n, sum/20)
	}
}

// BenchmarkRemember commits memories with a vector of 384 dimensions in batches
// of 64, and finds the last one.
func BenchmarkRemember(b *testing.B) {
	w := open(b, nil)
	vectors := vectortest.Clustered(rand.New(rand.NewPCG(5, 6)), 4096, benchDims)
	const batch = 64
	n := 0
	for b.Loop() {
		ms := make([]vectortest.Memory, batch)
		for i := range ms {
			e := tiering.MemoryEntry{Length: 20, Vectors: []tiering.MemoryVector{{Space: benchSpace, Vector: vectors[n%len(vectors)]}}, TextHash: tiering.DigestOf(fmt.Append(nil, n))}
			for j := range 20 {
				e.Terms = append(e.Terms, tiering.MemoryTerm{Text: fmt.Sprintf("term%05d", (n*31+j*j*977)%20_000), Freq: 1})
			}
			ms[i] = vectortest.Memory{Key: tiering.Key{Tenant: "acme", Namespace: "mind", ID: fmt.Sprintf("%08d", n)}, Entry: e}
			n++
		}
		w.Remember(b, ms...)
		if hits, err := w.Index().Nearest(b.Context(), benchScope, benchSpace, vectors[(n-1)%len(vectors)], 1, false); err != nil || len(hits) != 1 || hits[0].Score < 0.999 {
			b.Fatal(hits, err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "memories/s")
}
