package wordvec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func table(t *testing.T, words []Word) *Table {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, words); err != nil {
		t.Fatal(err)
	}
	tab, err := Read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// some returns words with random vectors of length 1.
func some(texts ...string) []Word {
	r := rand.New(rand.NewPCG(1, 2))
	var out []Word
	for _, s := range texts {
		v := make([]float32, 64)
		norm := 0.0
		for i := range v {
			v[i] = float32(r.NormFloat64())
			norm += float64(v[i] * v[i])
		}
		for i := range v {
			v[i] /= float32(math.Sqrt(norm))
		}
		out = append(out, Word{s, 3.5, v})
	}
	return out
}

func TestWriteAndRead(t *testing.T) {
	words := some("a", "tea", "teacup", "teapot", "the", "ü")
	tab := table(t, words)
	if tab.Len() != len(words) || tab.Dimensions() != 64 {
		t.Fatalf("%d words of %d dimensions", tab.Len(), tab.Dimensions())
	}
	for i, w := range words {
		at, ok := tab.Find(w.Text)
		if !ok || at != i || tab.Word(i) != w.Text || tab.Rarity(i) != 3.5 {
			t.Errorf("%q: %d, %v, %q, %v", w.Text, at, ok, tab.Word(i), tab.Rarity(i))
		}
		sum := make([]float32, 64)
		tab.Add(i, 2, sum)
		cos := 0.0
		for j, x := range sum {
			cos += float64(x/2) * float64(w.Vector[j])
		}
		if math.Abs(cos-1) > 0.01 {
			t.Errorf("%q is off by a cosine of %v", w.Text, cos)
		}
	}
	for _, s := range []string{"", "te", "teas", "z", "ü "} {
		if i, ok := tab.Find(s); ok {
			t.Errorf("%q is word %d", s, i)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	w := some("a", "b")
	for name, words := range map[string][]Word{
		"no words":            nil,
		"an order":            {w[1], w[0]},
		"a word twice":        {w[0], w[0]},
		"an empty word":       {{"", 1, w[0].Vector}},
		"a long word":         {{string(make([]byte, 256)), 1, w[0].Vector}},
		"vectors that differ": {w[0], {"c", 1, w[0].Vector[:3]}},
	} {
		if err := Write(&bytes.Buffer{}, words); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestADamagedFile(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, some("a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		if _, err := Read(b.Bytes()[:n]); err == nil {
			t.Fatalf("the first %d bytes of %d pass", n, b.Len())
		}
	}
	for n := range b.Len() {
		bad := bytes.Clone(b.Bytes())
		bad[n] ^= 0xff
		if _, err := Read(bad); err == nil {
			t.Fatalf("byte %d can be turned", n)
		}
	}
}

func TestNeighbours(t *testing.T) {
	v := func(x ...float32) []float32 { return x }
	tab := table(t, []Word{
		{"far", 1, v(0, 1)}, {"here", 1, v(1, 0)}, {"near", 1, v(0.8, 0.6)}, {"nearer", 1, v(0.96, 0.28)}, {"zero", 1, v(0, 0)},
	})
	i, _ := tab.Find("here")
	names := func(near []Near) []string {
		var out []string
		for _, n := range near {
			out = append(out, tab.Word(n.Word))
		}
		return out
	}
	if got := names(tab.Neighbours(i, 0.4, 10)); !slices.Equal(got, []string{"nearer", "near"}) {
		t.Errorf("got %v", got)
	}
	if got := names(tab.Neighbours(i, 0.4, 1)); !slices.Equal(got, []string{"nearer"}) {
		t.Errorf("the nearest: %v", got)
	}
	zero, _ := tab.Find("zero")
	if got := tab.Neighbours(zero, -1, 10); got != nil {
		t.Errorf("a word without a vector has %v", got)
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := NewCache[int](3)
	computed := 0
	get := func(i int) int { return c.Get(i, func() int { computed++; return i * i }) }
	for i := range 100 {
		if get(i) != i*i || get(0) != 0 {
			t.Fatal("another value")
		}
		if kept := len(c.new) + len(c.old); kept > 6 {
			t.Fatalf("%d are kept", kept)
		}
	}
	if computed != 100 {
		t.Errorf("computed %d times: what is asked for again and again is kept", computed)
	}
	var none Cache[int]
	if none.Get(1, func() int { return 7 }) != 7 || len(none.new) != 0 {
		t.Error("the zero value keeps something")
	}
}

func TestCacheIsShared(t *testing.T) {
	c := NewCache[int](8)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				if got := c.Get(i%20, func() int { return i % 20 }); got != i%20 {
					t.Errorf("%d for %d", got, i%20)
				}
			}
		})
	}
	all.Wait()
}
