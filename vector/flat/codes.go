package flat

import (
	"math/bits"
	"math/rand/v2"
	"sync"
)

// codes are bits of an arena's vectors, by row: two vectors that lie close
// differ in few of them. Signs of the numbers themselves would say little where
// all vectors lean one way or most numbers are zero. So the mean is taken off,
// and what is left is rotated at random first, by a Hadamard transform over
// random signs, twice (as in Ailon and Chazelle's transform).
type codes struct {
	dims, words int
	mean        []float32
	signs       [2][]float32 // as long as the transform
	bits        []uint64
	of          int       // how many rows the mean is of
	scratch     sync.Pool // of distances, between searches
	work        []float32 // scratch of add; searches have their own
}

// newCodes begins codes for the vectors of a, which are none yet.
func newCodes(a *arena) *codes {
	n := 64
	for n < a.dims {
		n *= 2
	}
	// Of the transform as many numbers count as the vector has: any will do.
	c := &codes{dims: a.dims, words: (a.dims + 63) / 64, mean: make([]float32, a.dims), of: len(a.owner), work: make([]float32, n)}
	sum := make([]float64, a.dims)
	const sample = 4096
	step := max(1, len(a.owner)/sample)
	taken := 0
	for row := 0; row < len(a.owner); row += step {
		for i, x := range a.vector(int32(row)) {
			sum[i] += float64(x)
		}
		taken++
	}
	for i := range sum {
		c.mean[i] = float32(sum[i] / float64(max(taken, 1)))
	}
	random := rand.New(rand.NewPCG(uint64(a.dims), 1))
	for s := range c.signs {
		c.signs[s] = make([]float32, n)
		for i := range c.signs[s] {
			c.signs[s][i] = float32(1 - 2*random.IntN(2))
		}
	}
	return c
}

func (c *codes) rows() int { return len(c.bits) / c.words }

func (c *codes) bytes() int64 { return int64(cap(c.bits)) * 8 }

// code writes the bits of v to out.
func (c *codes) code(v, work []float32, out []uint64) {
	for i, x := range v {
		work[i] = (x - c.mean[i]) * c.signs[0][i]
	}
	clear(work[len(v):])
	hadamard(work)
	for i, s := range c.signs[1] {
		work[i] *= s
	}
	hadamard(work)
	for w := range out {
		var b uint64
		for i, x := range work[w*64 : w*64+64] {
			if x > 0 {
				b |= 1 << i
			}
		}
		out[w] = b
	}
}

// hadamard transforms v, whose length is a power of two, without scaling.
func hadamard(v []float32) {
	for h := 1; h < len(v); h *= 2 {
		for i := 0; i < len(v); i += 2 * h {
			a, b := v[i:i+h], v[i+h:i+2*h]
			for j, x := range a {
				y := b[j]
				a[j], b[j] = x+y, x-y
			}
		}
	}
}

// add appends the code of the next row.
func (c *codes) add(v []float32) {
	at := len(c.bits)
	for range c.words {
		c.bits = append(c.bits, 0)
	}
	c.code(v, c.work, c.bits[at:])
}

// remove puts the last row in the place of a row, as far as both are coded.
func (c *codes) remove(row, last int32) {
	n := int32(c.rows())
	if row >= n {
		return
	}
	if last >= n {
		// The row that moves here has no code yet: nor has this place, nor any
		// behind it.
		c.bits = c.bits[:int(row)*c.words]
		return
	}
	copy(c.bits[int(row)*c.words:int(row+1)*c.words], c.bits[int(last)*c.words:])
	c.bits = c.bits[:int(last)*c.words]
}

// encodeStep is how many codes are made while writers wait.
const encodeStep = 500

// encode does a step of making codes where an arena has more than upTo
// vectors, or anew where it has doubled since. It reports whether it did any.
func (a *arena) encode(upTo int) bool {
	switch {
	case len(a.owner) <= upTo:
		return false
	case a.next == nil && a.codes != nil && a.codes.rows() == len(a.owner) && len(a.owner) < 2*a.codes.of:
		return false
	case a.next == nil:
		a.next = newCodes(a)
	}
	c := a.next
	for range encodeStep {
		row := c.rows()
		if row == len(a.owner) {
			a.codes, a.next = c, nil
			break
		}
		c.add(a.vector(int32(row)))
	}
	return true
}

// closest returns at least n rows, if there are as many, whose codes differ
// least from q's, of rows or of all.
func (c *codes) closest(q []float32, rows []int32, all bool, n int) []int32 {
	code := make([]uint64, c.words)
	c.code(q, make([]float32, len(c.signs[0])), code)
	count := len(rows)
	if all {
		count = c.rows()
	}
	apart := c.distances(count)
	defer c.scratch.Put(&apart)
	histogram := make([]int, c.words*64+1)
	for i := range apart {
		row := i
		if !all {
			row = int(rows[i])
		}
		d := difference(code, c.bits[row*c.words:(row+1)*c.words])
		apart[i] = d
		histogram[d]++
	}
	worst, found := 0, histogram[0]
	for found < n && worst < len(histogram)-1 {
		worst++
		found += histogram[worst]
	}
	out := make([]int32, 0, found)
	for i, d := range apart {
		if int(d) > worst {
			continue
		}
		if all {
			out = append(out, int32(i))
		} else {
			out = append(out, rows[i])
		}
	}
	return out
}

// distances is room for as many distances, of a search before where there was one.
func (c *codes) distances(n int) []uint16 {
	if had, ok := c.scratch.Get().(*[]uint16); ok && cap(*had) >= n {
		return (*had)[:n]
	}
	return make([]uint16, n, n+n/4)
}

// difference counts the bits in which two codes differ.
func difference(a, b []uint64) uint16 {
	if len(a) == 6 && len(b) == 6 { // 384 dimensions, as most small models have
		return uint16(bits.OnesCount64(a[0]^b[0]) + bits.OnesCount64(a[1]^b[1]) + bits.OnesCount64(a[2]^b[2]) +
			bits.OnesCount64(a[3]^b[3]) + bits.OnesCount64(a[4]^b[4]) + bits.OnesCount64(a[5]^b[5]))
	}
	n := 0
	b = b[:len(a)]
	for i, x := range a {
		n += bits.OnesCount64(x ^ b[i])
	}
	return uint16(n)
}
