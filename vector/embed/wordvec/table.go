package wordvec

import (
	"math"
	"sort"
)

// Table is a set of word vectors. It does not change after Read, but for the
// neighbours it remembers, and is safe for concurrent use.
type Table struct {
	dims    int
	text    []byte   // the words, one after the other
	starts  []uint32 // where each begins, and where the last ends
	rarity  []byte
	numbers []int8
	scale   []float32 // 1 / the length of a word's numbers; 0 where they are zero
	signs   []uint64
}

// measure computes lengths and signs.
func (t *Table) measure() {
	t.scale = make([]float32, t.Len())
	t.signs = make([]uint64, t.Len()*((t.dims+63)/64))
	for i := range t.scale {
		sum := 0
		signs := t.signsOf(i)
		for d, x := range t.row(i) {
			sum += int(x) * int(x)
			if x > 0 {
				signs[d/64] |= 1 << (d % 64)
			}
		}
		if sum > 0 {
			t.scale[i] = float32(1 / math.Sqrt(float64(sum)))
		}
	}
}

// Len returns the number of words, Dimensions that of a vector.
func (t *Table) Len() int        { return len(t.starts) - 1 }
func (t *Table) Dimensions() int { return t.dims }

// Bytes returns how much memory the table takes.
func (t *Table) Bytes() int {
	return len(t.text) + 4*len(t.starts) + len(t.rarity) + len(t.numbers) + 4*len(t.scale) + 8*len(t.signs)
}

// Word returns the i-th word in order.
func (t *Table) Word(i int) string { return string(t.text[t.starts[i]:t.starts[i+1]]) }

func (t *Table) row(i int) []int8 { return t.numbers[i*t.dims : (i+1)*t.dims] }

// Find returns the index of a word.
func (t *Table) Find(word string) (int, bool) {
	i := sort.Search(t.Len(), func(i int) bool { return string(t.text[t.starts[i]:t.starts[i+1]]) >= word })
	return i, i < t.Len() && string(t.text[t.starts[i]:t.starts[i+1]]) == word
}

// Rarity returns the inverse document frequency of the i-th word in general.
func (t *Table) Rarity(i int) float64 { return float64(t.rarity[i]) / raritySteps }

// Add adds the i-th vector, of length 1, times weight, to sum.
func (t *Table) Add(i int, weight float32, sum []float32) {
	weight *= t.scale[i]
	for j, x := range t.row(i) {
		sum[j] += weight * float32(x)
	}
}

// Similarity returns the cosine of two words.
func (t *Table) Similarity(i, j int) float64 {
	return float64(dot(t.row(i), t.row(j))) * float64(t.scale[i]) * float64(t.scale[j])
}

func dot(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 8 && len(b) >= 8 {
		x, y := a[:8:8], b[:8:8]
		s0 += int32(x[0])*int32(y[0]) + int32(x[4])*int32(y[4])
		s1 += int32(x[1])*int32(y[1]) + int32(x[5])*int32(y[5])
		s2 += int32(x[2])*int32(y[2]) + int32(x[6])*int32(y[6])
		s3 += int32(x[3])*int32(y[3]) + int32(x[7])*int32(y[7])
		a, b = a[8:], b[8:]
	}
	for i, x := range a {
		s0 += int32(x) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}
