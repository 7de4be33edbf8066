package vectortest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
)

// Clustered returns n vectors of length 1 that lie in clusters and lean one
// way, as those of real models do.
func Clustered(random *rand.Rand, n, dims int) [][]float32 {
	gauss := func(scale float64) []float32 {
		v := make([]float32, dims)
		for i := range v {
			v[i] = float32(random.NormFloat64() * scale)
		}
		return v
	}
	lean := gauss(0.5)
	centres := make([][]float32, max(1, n/100))
	for i := range centres {
		centres[i] = gauss(1)
	}
	out := make([][]float32, n)
	for i := range out {
		c := centres[random.IntN(len(centres))]
		v := gauss(0.7)
		for j := range v {
			v[j] += c[j] + lean[j]
		}
		out[i] = vector.Normalise(v)
	}
	return out
}

// Recall is the share of the best that was found: a hit counts if it is no
// further than the last of the best, so that ties do not matter.
func Recall(got []vector.Hit, best []float64, k int) float64 {
	k = min(k, len(best))
	if k == 0 {
		return 1
	}
	worst := best[k-1] - 1e-6
	n := 0
	for _, h := range got[:min(k, len(got))] {
		if h.Score >= worst {
			n++
		}
	}
	return float64(n) / float64(k)
}

// Exact returns the scores of all vectors, best first.
func Exact(q []float32, of [][]float32) []float64 {
	out := make([]float64, len(of))
	for i, v := range of {
		out[i] = vector.Dot(q, v)
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// testMany has enough vectors for an index to take its short ways: recall
// stays, at any share that a filter keeps and after half is deleted, and there
// are k rows whenever k match.
func testMany(t *testing.T, h Harness) {
	n := h.Large
	if n == 0 {
		n = 3000
	}
	const dims, k = 32, 10
	random := rand.New(rand.NewPCG(1, 2))
	vectors := Clustered(random, n, dims)
	b := open(t, h)
	sparse := func(i int) string {
		switch {
		case i%1000 == 7:
			return "rare"
		case i%100 == 8:
			return "seldom"
		case i%10 == 9:
			return "often"
		}
		return "mostly"
	}
	var page []Memory
	for i, v := range vectors {
		m := Memory{Key: key(fmt.Sprintf("%05d", i)), User: sparse(i), Entry: entry(fmt.Sprint("t", i))}
		m.Entry.Vectors = []tiering.MemoryVector{{Space: "test:many:32", Vector: v}}
		if page = append(page, m); len(page) == 500 || i == n-1 {
			b.w.Remember(t, page...)
			page = page[:0]
		}
	}
	queries := Clustered(rand.New(rand.NewPCG(3, 4)), 20, dims)
	for i := range queries {
		queries[i] = vector.Normalise(mix(vectors[random.IntN(n)], queries[i]))
	}
	look := func(what string, alive func(int) bool) {
		t.Helper()
		for _, user := range []string{"", "mostly", "often", "seldom", "rare"} {
			var of [][]float32
			for i, v := range vectors {
				if alive(i) && (user == "" || sparse(i) == user) {
					of = append(of, v)
				}
			}
			s := everything()
			s.User = user
			sum := 0.0
			for _, q := range queries {
				hits, err := b.w.Index().Nearest(t.Context(), s, "test:many:32", q, k, false)
				if err != nil {
					t.Fatal(err)
				}
				if len(hits) != min(k, len(of)) {
					t.Fatalf("%s, user %q: %d hits of %d", what, user, len(hits), len(of))
				}
				sum += Recall(hits, Exact(q, of), k)
			}
			if r := sum / float64(len(queries)); r < 0.95 {
				t.Errorf("%s, user %q: recall is %.3f", what, user, r)
			}
		}
	}
	all := func(int) bool { return true }
	look("before any background work", all)
	Settle(t, b.w.Index())
	look("after it", all)
	var gone []tiering.Key
	for i := range vectors {
		if i%2 == 0 {
			gone = append(gone, key(fmt.Sprintf("%05d", i)))
		}
	}
	for page := range slices.Chunk(gone, 500) {
		b.w.Delete(t, page...)
	}
	half := func(i int) bool { return i%2 == 1 }
	look("after half was deleted", half)
	Settle(t, b.w.Index())
	look("and background work", half)
}

func mix(a, b []float32) []float32 {
	out := make([]float32, len(a))
	for i := range a {
		out[i] = a[i] + b[i]/2
	}
	return out
}

// testMachine does anything in any order, and compares with the model.
func testMachine(t *testing.T, h Harness) {
	b := open(t, h)
	checks := 0
	rapid.Check(t, func(r *rapid.T) {
		if checks++; h.Checks > 0 && checks > h.Checks {
			return
		}
		for _, id := range machineIDs {
			b.delete(key(id))
		}
		clear(b.items)
		word := rapid.SampledFrom([]string{"ant", "bee", "cat", "dog"})
		ids := rapid.SampledFrom(machineIDs)
		axis := rapid.Custom(func(r *rapid.T) []float32 {
			return unit(float32(rapid.IntRange(-3, 3).Draw(r, "x")), float32(rapid.IntRange(-3, 3).Draw(r, "y")), 1)
		})
		r.Repeat(map[string]func(*rapid.T){
			"remember": func(r *rapid.T) {
				var ms []Memory
				for _, id := range rapid.SliceOfNDistinct(ids, 1, 3, rapid.ID[string]).Draw(r, "ids") {
					m := memory(id, word.Draw(r, "word")+" "+word.Draw(r, "word"))
					if rapid.Bool().Draw(r, "vector") {
						m.Entry.Vectors = []tiering.MemoryVector{{Space: space, Vector: axis.Draw(r, "v")}}
					}
					if _, stands := b.items[m.Key]; !stands {
						m.User = rapid.SampledFrom([]string{"", "ann"}).Draw(r, "user")
					}
					m.Entry.Session = rapid.SampledFrom([]string{"", "s"}).Draw(r, "session")
					m.Entry.Uses = int64(rapid.IntRange(0, 2).Draw(r, "uses"))
					ms = append(ms, m)
				}
				b.remember(ms...)
			},
			"embed": func(r *rapid.T) {
				k := key(ids.Draw(r, "id"))
				if _, stands := b.items[k]; stands {
					b.addVector(k, tiering.MemoryVector{Space: space, Vector: axis.Draw(r, "v")})
				}
			},
			"delete": func(r *rapid.T) { b.delete(key(ids.Draw(r, "id"))) },
			"erase":  func(*rapid.T) { b.erase(tenant, "ann") },
			"maintain": func(*rapid.T) {
				b.w.Advance(time.Minute)
				Settle(t, b.w.Index())
			},
			"": func(r *rapid.T) {
				s := everything()
				s.User = rapid.SampledFrom([]string{"", "ann"}).Draw(r, "of")
				b.check("machine", s, space, axis.Draw(r, "q"), ask(word.Draw(r, "ask")+"~cat:0.7 dog"), rapid.IntRange(1, 4).Draw(r, "limit"))
			},
		})
	})
}

var machineIDs = []string{"a", "b", "c", "d/1", "d/2"}
