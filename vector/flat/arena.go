package flat

import (
	"github.com/viterin/vek/vek32"
)

// blockRows is how many vectors lie side by side: an arena grows without
// moving what it has.
const blockRows = 1024

// arena holds the vectors of a room in one space, in rows without gaps.
type arena struct {
	dims   int
	blocks [][]float32
	owner  []int32 // the slot of a row
	codes  *codes  // nil while there are few
	next   *codes  // being made
}

func newArena(dims int) *arena { return &arena{dims: dims} }

// vector returns the vector of a row; it is the arena's.
func (a *arena) vector(row int32) []float32 {
	i := int(row%blockRows) * a.dims
	return a.blocks[row/blockRows][i : i+a.dims : i+a.dims]
}

// add puts v into a row of its own.
func (a *arena) add(slot int32, v []float32) (row int32) {
	row = int32(len(a.owner))
	if int(row)/blockRows == len(a.blocks) {
		a.blocks = append(a.blocks, make([]float32, blockRows*a.dims))
	}
	a.owner = append(a.owner, slot)
	copy(a.vector(row), v)
	for _, c := range []*codes{a.codes, a.next} {
		if c != nil && c.rows() == int(row) {
			c.add(v)
		}
	}
	return row
}

// remove takes a row out. The last one takes its place: what it returns is that
// one's slot, -1 for none.
func (a *arena) remove(row int32) (moved int32) {
	last := int32(len(a.owner) - 1)
	for _, c := range []*codes{a.codes, a.next} {
		if c != nil {
			c.remove(row, last)
		}
	}
	moved = -1
	if row != last {
		copy(a.vector(row), a.vector(last))
		moved = a.owner[last]
		a.owner[row] = moved
	}
	clear(a.vector(last))
	a.owner = a.owner[:last]
	if int(last)%blockRows == 0 {
		a.blocks = a.blocks[:last/blockRows]
	}
	return moved
}

func (a *arena) bytes() int64 {
	n := int64(len(a.blocks))*blockRows*int64(a.dims)*4 + int64(cap(a.owner))*4
	if a.codes != nil {
		n += a.codes.bytes()
	}
	if a.next != nil {
		n += a.next.bytes()
	}
	return n
}

// nearest adds the rows of an arena that lie closest to q.
func (x *Index) nearest(r *room, f *filter, a *arena, q []float32, best *top) {
	compare := func(row int32) {
		best.offer(float64(vek32.Dot(q, a.vector(row))), r, a.owner[row])
	}
	var rows []int32
	switch {
	case f.keys != nil:
		f.each(r, func(slot int32) bool {
			for _, at := range r.docs[slot].rows {
				if at.arena == a {
					rows = append(rows, at.at)
				}
			}
			return true
		})
	case !f.all:
		rows = make([]int32, 0, len(a.owner)/4)
		for row, slot := range a.owner {
			if f.lets(r, slot) {
				rows = append(rows, int32(row))
			}
		}
	}
	n := len(a.owner)
	if !f.all {
		n = len(rows)
	}
	if n > x.opts.ExactUpTo && a.codes != nil && a.codes.rows() == len(a.owner) {
		rows = a.codes.closest(q, rows, f.all, max(600, x.opts.Candidates*best.limit))
	} else if f.all {
		for row := range a.owner {
			compare(int32(row))
		}
		return
	}
	for _, row := range rows {
		compare(row)
	}
}
