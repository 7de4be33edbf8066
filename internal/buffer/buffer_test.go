package buffer_test

import (
	"testing"

	"github.com/tierd/tierd/internal/buffer"
)

func TestPool(t *testing.T) {
	var p buffer.Pool
	if b := p.Take(0); b != nil {
		t.Errorf("nothing takes %d bytes", cap(b))
	}
	p.Give(append(p.Take(10), "used"...))
	for _, n := range []int{1, 10, 11, 2 << 20} {
		b := p.Take(n)
		if len(b) != 0 || cap(b) < n {
			t.Errorf("a buffer for %d bytes: %d of %d", n, len(b), cap(b))
		}
		p.Give(b)
	}
	if b := p.Take(1); cap(b) > 1<<20 {
		t.Errorf("a buffer of %d bytes was kept", cap(b))
	}
}
