package cold

import (
	"encoding/binary"
	"math/bits"
)

// A body that resembles the version before it is stored as the difference from
// it: runs to copy from that body, and bytes to put behind each. A session that
// grows turn by turn so costs its growth alone, in bytes to keep as well as in
// bytes to decompress for one version. format.md gives the layout.

const (
	// minCopy is the shortest run worth a copy: a shorter one packs as well by
	// itself.
	minCopy = 24
	// minTail is that of the end of a body, which costs no search.
	minTail = 8
	// gridStep is the distance of the places of the old body that a middle part
	// is looked up at. A run of minCopy bytes covers one of them.
	gridStep = 16
)

// differ makes differences. Its table is used again; the zero value is ready.
type differ struct {
	table []int32 // place in the old body by hash, from 1
	out   []byte
}

// difference appends to nothing what turns old into body, and reports whether it
// is worth it: at most three quarters of body. What it returns holds until the
// next call.
func (d *differ) difference(old, body []byte) (diff []byte, ok bool) {
	most := len(body) - len(body)/4
	if len(old) < minCopy || len(body) < minCopy {
		return nil, false
	}
	d.out = binary.AppendUvarint(d.out[:0], uint64(len(body)))
	head := commonPrefix(old, body)
	if head < minCopy {
		head = 0
	}
	tail := commonSuffix(old[head:], body[head:])
	if tail < minTail {
		tail = 0
	}
	e := edits{b: d.out, body: body}
	e.run(0, 0, head)
	d.middle(&e, old[:len(old)-tail], len(body)-tail)
	e.run(len(old)-tail, len(body)-tail, tail)
	d.out = e.end()
	return d.out, len(d.out) <= most
}

// middle finds the runs of old that come again in body up to end, behind what
// the edits have written.
func (d *differ) middle(e *edits, old []byte, end int) {
	from := e.upTo()
	if len(old) < minCopy || end-from < minCopy {
		return
	}
	shift := d.index(old)
	for i := from; i+8 <= end; {
		at := int(d.table[hash8(e.body[i:])>>shift]) - 1
		if at < 0 || le.Uint64(old[at:]) != le.Uint64(e.body[i:]) {
			i++
			continue
		}
		n := 8 + commonPrefix(old[at+8:], e.body[i+8:end])
		back := commonSuffix(old[:at], e.body[e.upTo():i])
		if n+back < minCopy {
			i++
			continue
		}
		e.run(at-back, i-back, n+back)
		i += n
	}
}

// index fills the table with places of old; the hash shifted right by shift is
// the place in it.
func (d *differ) index(old []byte) (shift int) {
	size := max(bits.Len(uint(len(old)/gridStep)), 4)
	if len(d.table) < 1<<size {
		d.table = make([]int32, 1<<size)
	} else {
		d.table = d.table[:1<<size]
		clear(d.table)
	}
	shift = 64 - size
	for at := 0; at+8 <= len(old); at += gridStep {
		d.table[hash8(old[at:])>>shift] = int32(at + 1)
	}
	return shift
}

// hash8 spreads the first eight bytes of b over 64 bits; the factor is 2^64 over
// the golden ratio (Knuth, The Art of Computer Programming, 6.4).
func hash8(b []byte) uint64 { return le.Uint64(b) * 0x9e3779b97f4a7c15 }

// edits writes copies, each with the bytes that stand before the next one.
type edits struct {
	b    []byte
	body []byte
	from int // the copy that is not written yet: place in the old body
	n    int // its length
	at   int // where it begins in body
}

// upTo is how much of body is covered.
func (e *edits) upTo() int { return e.at + e.n }

// run copies n bytes from a place of the old body to at, which is not before
// upTo.
func (e *edits) run(from, at, n int) {
	switch {
	case n == 0:
		return
	case e.upTo() > 0 || at > 0:
		e.flush(at)
	}
	e.from, e.at, e.n = from, at, n
}

// flush writes the open copy with the bytes of body behind it, up to a place.
func (e *edits) flush(upTo int) {
	e.b = binary.AppendUvarint(e.b, uint64(e.from))
	e.b = binary.AppendUvarint(e.b, uint64(e.n))
	e.b = binary.AppendUvarint(e.b, uint64(upTo-e.upTo()))
	e.b = append(e.b, e.body[e.upTo():upTo]...)
}

func (e *edits) end() []byte {
	e.flush(len(e.body))
	return e.b
}

// differenceLength returns how long the body is that a difference makes.
func differenceLength(diff []byte) (int, error) {
	c := cursor{b: diff}
	n := c.int63()
	if c.bad || n > MaxBody {
		return 0, corruptf("difference is cut short or makes more than %d bytes", MaxBody)
	}
	return int(n), nil
}

// applyDifference makes a body from the one before it in dst, which has room
// for it: exactly the length that the difference says.
func applyDifference(dst, old, diff []byte) ([]byte, error) {
	c := cursor{b: diff}
	length := int(c.int63())
	dst = dst[:0]
	for len(c.b) > 0 {
		from, n, literal := c.int63(), c.int63(), c.int63()
		if c.bad || from > int64(len(old)) || n > int64(len(old))-from || literal > int64(len(c.b)) || n+literal > int64(length-len(dst)) {
			return nil, corruptf("difference goes beyond a body")
		}
		dst = append(dst, old[from:from+n]...)
		dst = append(dst, c.take(int(literal))...)
	}
	if len(dst) != length {
		return nil, corruptf("difference makes %d bytes and says %d", len(dst), length)
	}
	return dst, nil
}

// commonPrefix is how many bytes a and b share at their start.
func commonPrefix(a, b []byte) int {
	most := min(len(a), len(b))
	i := 0
	for ; i+8 <= most; i += 8 {
		if x := le.Uint64(a[i:]) ^ le.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < most && a[i] == b[i] {
		i++
	}
	return i
}

// commonSuffix is how many bytes a and b share at their end.
func commonSuffix(a, b []byte) int {
	most := min(len(a), len(b))
	i := 0
	for ; i+8 <= most; i += 8 {
		if x := le.Uint64(a[len(a)-i-8:]) ^ le.Uint64(b[len(b)-i-8:]); x != 0 {
			return i + bits.LeadingZeros64(x)/8
		}
	}
	for i < most && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}
