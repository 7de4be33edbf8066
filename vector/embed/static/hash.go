package static

import (
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// A term and a run of the same characters hash apart.
const (
	termSeed = 0x9e3779b97f4a7c15
	runSeed  = 0xc2b2ae3d27d4eb4f
)

// addHashed adds weight, or its negative, in one of the hashed dimensions, so
// that what collides cancels out as often as it adds up (Weinberger et al.,
// 2009).
func addHashed(v []float32, seed uint64, s string, weight float64) {
	h := (xxhash.Sum64String(s) ^ seed) * 0xd6e8feb86659fd93
	h ^= h >> 32
	i := (h & 0xffffffff) * hashed >> 32
	if h>>63 == 1 {
		weight = -weight
	}
	v[i] += float32(weight)
}

// addRuns adds every run of three to five characters of the word, whose ends
// count as characters.
func addRuns(v []float32, word string, weight float64) {
	marked := "<" + word + ">"
	var starts [2 + 66]int // of each character, and the end
	n := 0
	for i := range marked {
		if n == len(starts)-1 {
			break
		}
		starts[n] = i
		n++
	}
	starts[n] = starts[max(n-1, 0)] + runeLen(marked[starts[max(n-1, 0)]:])
	for size := shortestRun; size <= longestRun; size++ {
		for i := 0; i+size <= n; i++ {
			addHashed(v, runSeed, marked[starts[i]:starts[i+size]], weight)
		}
	}
}

func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
