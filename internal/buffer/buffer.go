// Package buffer keeps bytes that somebody has done with for who needs as many
// next. A batch of writes takes a buffer for each server that it goes to: made
// anew each time they are most of what the collector has to do.
package buffer

import "sync"

// most is how large a buffer may be to be kept.
const most = 1 << 20

// Pool keeps buffers of like sizes. The zero value works; its methods are safe for
// concurrent use.
type Pool struct{ free sync.Pool }

// Take returns an empty buffer with room for n bytes; nil for 0.
func (p *Pool) Take(n int) []byte {
	if n <= 0 {
		return nil
	}
	if b, ok := p.free.Get().(*[]byte); ok && cap(*b) >= n {
		return (*b)[:0]
	}
	return make([]byte, 0, n)
}

// Give takes a buffer that nobody reads or writes any more, whatever it grew to.
func (p *Pool) Give(b []byte) {
	if cap(b) > 0 && cap(b) <= most {
		p.free.Put(&b)
	}
}
