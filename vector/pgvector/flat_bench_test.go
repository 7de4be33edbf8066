package pgvector_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/flat"
	"github.com/tierd/tierd/vector/vectortest"
)

// besideFlat lets both indexes search the same vectors by turns, the one in
// process on one thread.
func besideFlat(b *testing.B, x vector.Index, vectors, queries [][]float32) {
	b.Helper()
	local, err := flat.Open(b.Context(), vectortest.StillOf(vectors, "acme", "mind", benchSpace), nil)
	if err != nil {
		b.Fatal(err)
	}
	vectortest.Settle(b, local)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := func() time.Duration {
		const self = 1 // RUSAGE_THREAD
		var use syscall.Rusage
		if err := syscall.Getrusage(self, &use); err != nil {
			b.Fatal(err)
		}
		return time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	var took, total [2]time.Duration
	var each [2][]time.Duration
	var recall [2]float64
	var used time.Duration
	asked := 0
	for b.Loop() {
		q := queries[asked%len(queries)]
		best := vectortest.Exact(q, vectors)
		for turn := range 2 {
			way := (turn + asked) % 2
			index := []vector.Index{local, x}[way]
			u, began := thread(), time.Now()
			hits, err := index.Nearest(b.Context(), mindScope, benchSpace, q, benchK, false)
			took[way] = time.Since(began)
			if err != nil || len(hits) != benchK {
				b.Fatal(len(hits), err)
			}
			if way == 0 {
				used += thread() - u
			}
			total[way] += took[way]
			each[way] = append(each[way], took[way])
			recall[way] += vectortest.Recall(hits, best, benchK)
		}
		asked++
	}
	n := float64(asked)
	b.ReportMetric(median(each[0]), "flat-p50-us")
	b.ReportMetric(float64(used.Microseconds())/n, "flat-cpu-us")
	b.ReportMetric(median(each[1]), "pgvector-p50-us")
	b.ReportMetric(recall[0]/n, "flat-recall")
	b.ReportMetric(recall[1]/n, "pgvector-recall")
	b.ReportMetric(total[1].Seconds()/total[0].Seconds(), "times-the-queries")
}
