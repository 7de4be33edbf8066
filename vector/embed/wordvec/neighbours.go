package wordvec

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

// Near is a word that is near another one.
type Near struct {
	Word       int
	Similarity float64
}

// agreeing is the share of dimensions in which two words have the same sign, from
// which they are worth a closer look. Of the pairs in the table of WordNet with a
// cosine of at least 0.4, 98% agree so far, and 7% of all pairs.
const agreeing = 0.5625

// Neighbours returns words whose cosine with the i-th is at least least, nearest
// first, without itself; at most most of them. Signs are compared before numbers,
// which takes a millisecond in place of ten, and misses one in fifty, far ones.
func (t *Table) Neighbours(i int, least float64, most int) []Near {
	row, scale := t.row(i), float64(t.scale[i])
	if scale == 0 {
		return nil
	}
	differing := t.dims
	if t.dims >= 128 { // the signs of few dimensions say little
		differing = int(float64(t.dims) * (1 - agreeing))
	}
	signs := t.signsOf(i)
	n := len(signs)
	var near []Near
	for j := range t.Len() {
		other := t.signs[j*n : j*n+n]
		d := 0
		for k, x := range signs {
			d += bits.OnesCount64(x ^ other[k])
		}
		if d > differing || j == i {
			continue
		}
		if s := float64(dot(row, t.row(j))) * scale * float64(t.scale[j]); s >= least {
			near = append(near, Near{j, s})
		}
	}
	slices.SortFunc(near, func(a, b Near) int {
		if c := cmp.Compare(b.Similarity, a.Similarity); c != 0 {
			return c
		}
		return cmp.Compare(a.Word, b.Word)
	})
	return slices.Clip(near[:min(most, len(near))])
}

// signsOf returns a bit a dimension: whether the i-th word's number is positive.
func (t *Table) signsOf(i int) []uint64 {
	n := (t.dims + 63) / 64
	return t.signs[i*n : (i+1)*n]
}

// Cache keeps what was computed for the words that were asked for last: between
// one and two times size of them. The zero value keeps nothing; methods are safe
// for concurrent use.
type Cache[V any] struct {
	size     int
	mu       sync.Mutex
	new, old map[int]V // asked for in this half, and in the one before
}

// NewCache returns a cache for size words.
func NewCache[V any](size int) *Cache[V] { return &Cache[V]{size: size} }

// Get returns the value for word, by compute if it is not kept. Two callers may
// compute the same at once.
func (c *Cache[V]) Get(word int, compute func() V) V {
	if v, ok := c.look(word); ok {
		return v
	}
	v := compute()
	c.keep(word, v)
	return v
}

func (c *Cache[V]) look(word int) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.new[word]; ok {
		return v, true
	}
	v, ok := c.old[word]
	if ok {
		c.put(word, v)
	}
	return v, ok
}

func (c *Cache[V]) keep(word int, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(word, v)
}

// put is called under the lock.
func (c *Cache[V]) put(word int, v V) {
	if c.size <= 0 {
		return
	}
	if c.new == nil || len(c.new) >= c.size {
		c.old, c.new = c.new, map[int]V{}
	}
	c.new[word] = v
}
