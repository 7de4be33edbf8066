package router

import (
	"context"
	"sync"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// slides keeps one slide per key under way at a time.
type slides struct {
	mu sync.Mutex
	m  map[tiering.Key]bool
}

func (s *slides) begin(k tiering.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[k] {
		return false
	}
	if s.m == nil {
		s.m = map[tiering.Key]bool{}
	}
	s.m[k] = true
	return true
}

func (s *slides) end(k tiering.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, k)
}

// slide moves a sliding expiry forward because the document was read: at most
// once per tenth of its TTL, behind the reader's back.
func (r *core) slide(key tiering.Key, p *policy, m tiering.Meta) {
	if !p.Sliding() || m.TTL <= 0 || m.ExpiresAt.IsZero() || m.Pinned {
		return
	}
	now, ok := r.warmTime.read(r.Clock())
	if !ok || m.ExpiresAt.Sub(now) > m.TTL-m.TTL/10 || !r.slides.begin(key) {
		return
	}
	err := r.detached(func(ctx context.Context) {
		defer r.slides.end(key)
		touch := &mutation{key: key, row: warm.Row{Op: tiering.OpTouch, Expiry: warm.Expiry{Slide: true}}}
		// A slide that fails is tried again by the next read.
		if err := r.once(ctx, p, touch); err != nil || touch.err != nil {
			r.Logger.Debug("slide failed", "key", key, "err", err, "commit", touch.err)
		}
	})
	if err != nil { // closed
		r.slides.end(key)
	}
}
