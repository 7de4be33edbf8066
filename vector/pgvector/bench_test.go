package pgvector_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/memorytest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/pgvector"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm"
)

const benchDims, benchSpace, benchK = 384, "bench:384", 10

// benchRows is how many vectors the largest namespace has: TIERD_RECALL_ROWS,
// or 20,000.
func benchRows(b *testing.B) int {
	b.Helper()
	text := os.Getenv("TIERD_RECALL_ROWS")
	if text == "" {
		return 20_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// fill commits vectors to a namespace, of users that own a share each.
func fill(b *testing.B, w *memorytest.World, namespace string, vectors [][]float32, user func(int) string) {
	b.Helper()
	for from := 0; from < len(vectors); from += 500 {
		var ms []vectortest.Memory
		for i := from; i < min(from+500, len(vectors)); i++ {
			ms = append(ms, vectortest.Memory{Key: tiering.Key{Tenant: "acme", Namespace: namespace, ID: fmt.Sprintf("%06d", i)}, User: user(i),
				Entry: tiering.MemoryEntry{TextHash: tiering.DigestOf(fmt.Append(nil, i)), Length: 1, Terms: []tiering.MemoryTerm{{Text: fmt.Sprint("t", i%5000), Freq: 1}},
					Vectors: []tiering.MemoryVector{{Space: benchSpace, Vector: vectors[i]}}}})
		}
		w.Remember(b, ms...)
	}
}

// share is the user of a row: one in a thousand, a hundred, ten, or the rest.
func share(i int) string {
	switch {
	case i%1000 == 7:
		return "0.1%"
	case i%100 == 8:
		return "1%"
	case i%10 == 9:
		return "10%"
	}
	return "rest"
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds())
}

// BenchmarkRecall prints recall@10, counted so that ties do not matter, and the
// median of a search, for filters that keep 0.1% to all of a namespace, before
// and after half of it was deleted.
func BenchmarkRecall(b *testing.B) {
	n := benchRows(b)
	w, _, x := open(b, pgvector.Options{})
	vectors := vectortest.Clustered(rand.New(rand.NewPCG(1, 1)), n+100, benchDims)
	vectors, queries := vectors[:n:n], vectors[n:]
	began := time.Now()
	fill(b, w, "mind", vectors, share)
	loaded := time.Since(began)
	began = time.Now()
	vectortest.Settle(b, x)
	b.Logf("%d memories in %v (%.0f/s), merged and indexed in %v", n, loaded.Round(time.Second), float64(n)/loaded.Seconds(), time.Since(began).Round(time.Second))
	look := func(b *testing.B, user string, alive func(int) bool) {
		var of [][]float32
		for i, v := range vectors {
			if alive(i) && (user == "" || share(i) == user) {
				of = append(of, v)
			}
		}
		s := vector.Scope{Tenant: "acme", Namespaces: []string{"mind"}, User: user}
		recall, asked := 0.0, 0
		var took []time.Duration
		for b.Loop() {
			q := queries[asked%len(queries)]
			began := time.Now()
			hits, err := x.Nearest(b.Context(), s, benchSpace, q, benchK, false)
			took = append(took, time.Since(began))
			b.StopTimer()
			if err != nil || len(hits) != min(benchK, len(of)) {
				b.Fatal(len(hits), err)
			}
			recall += vectortest.Recall(hits, vectortest.Exact(q, of), benchK)
			asked++
			b.StartTimer()
		}
		b.ReportMetric(recall/float64(asked), "recall@10")
		b.ReportMetric(median(took), "p50-us")
	}
	for _, user := range []string{"0.1%", "1%", "10%", ""} {
		b.Run("deleted=none/keeps="+kept(user), func(b *testing.B) { look(b, user, func(int) bool { return true }) })
	}
	b.Run("deleted=none/beside=flat", func(b *testing.B) { besideFlat(b, x, vectors, queries) })
	for from := 0; from < n; from += 1000 {
		var gone []tiering.Key
		for i := from; i < min(from+1000, n); i += 2 {
			gone = append(gone, tiering.Key{Tenant: "acme", Namespace: "mind", ID: fmt.Sprintf("%06d", i)})
		}
		w.Delete(b, gone...)
	}
	for _, user := range []string{"10%", ""} {
		b.Run("deleted=half/keeps="+kept(user), func(b *testing.B) { look(b, user, func(i int) bool { return i%2 == 1 }) })
	}
}

// kept names how much of a namespace a filter by user keeps.
func kept(user string) string {
	if user == "" {
		return "all"
	}
	return user
}

// BenchmarkRemember commits memories with a vector and 20 terms, 64 a batch,
// beside the same documents as plain state, with their vectors in a table that
// nothing is indexed in. The last figure is what being found costs.
func BenchmarkRemember(b *testing.B) {
	w, s, _ := open(b, pgvector.Options{})
	pool, err := s.Pool(b.Context(), 2)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(b.Context(), `CREATE TABLE bare (id text PRIMARY KEY, v public.vector NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	if _, err := s.EnsureNamespace(b.Context(), warm.Namespace{Tenant: "acme", Name: "plain", Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
		b.Fatal(err)
	}
	vectors := vectortest.Clustered(rand.New(rand.NewPCG(5, 6)), 4096, benchDims)
	const batch = 64
	n := 0
	memory := func(i int) vectortest.Memory {
		e := tiering.MemoryEntry{Length: 20, TextHash: tiering.DigestOf(fmt.Append(nil, i)), Vectors: []tiering.MemoryVector{{Space: benchSpace, Vector: vectors[i%len(vectors)]}}}
		for j := range 20 {
			e.Terms = append(e.Terms, tiering.MemoryTerm{Text: fmt.Sprintf("term%05d", (i*31+j*j*977)%20_000), Freq: 1})
		}
		return vectortest.Memory{Key: tiering.Key{Tenant: "acme", Namespace: "mind", ID: fmt.Sprintf("%08d", i)}, Entry: e}
	}
	w.Remember(b, memory(1<<30))
	var mine, without time.Duration
	for b.Loop() {
		var changes, plain []warm.Change
		ids, flat := make([]string, batch), make([]float32, 0, batch*benchDims)
		for i := range batch {
			m := memory(n)
			c := memorytest.Change(b, m)
			changes = append(changes, c)
			row := c.Rows[0]
			row.Memory = nil
			plain = append(plain, warm.Change{Key: tiering.Key{Tenant: "acme", Namespace: "plain", ID: m.Key.ID}, Rows: []warm.Row{row}})
			ids[i], flat = m.Key.ID, append(flat, m.Entry.Vectors[0].Vector...)
			n++
		}
		began := time.Now()
		if _, err := s.Commit(b.Context(), &warm.Batch{ID: uuid.New(), Changes: changes}); err != nil {
			b.Fatal(err)
		}
		mine += time.Since(began)
		began = time.Now()
		if _, err := s.Commit(b.Context(), &warm.Batch{ID: uuid.New(), Changes: plain}); err != nil {
			b.Fatal(err)
		}
		if _, err := pool.Exec(b.Context(), `INSERT INTO bare (id, v) SELECT t.id, ($2::real[])[(t.n-1)*384+1:t.n*384]::public.vector FROM unnest($1::text[]) WITH ORDINALITY t(id, n)`, ids, flat); err != nil {
			b.Fatal(err)
		}
		without += time.Since(began)
	}
	b.ReportMetric(float64(n)/mine.Seconds(), "memories/s")
	b.ReportMetric(float64(n)/without.Seconds(), "without/s")
	b.ReportMetric(mine.Seconds()/without.Seconds(), "of-without")
}
