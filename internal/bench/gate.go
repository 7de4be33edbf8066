package bench

import (
	"context"
	"sync"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// gate holds callers up while it is shut. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil: open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return
	}
	select {
	case <-opened:
	case <-ctx.Done():
	}
}

// gated is a warm store with a gate before what an archiver asks it most.
type gated struct {
	warm.Store
	gate *gate
}

func (g *gated) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (warm.Lease, bool, error) {
	g.gate.pass(ctx)
	return g.Store.Acquire(ctx, name, holder, ttl)
}

func (g *gated) ReadFeed(ctx context.Context, after int64, limit int) ([]warm.FeedEntry, error) {
	g.gate.pass(ctx)
	return g.Store.ReadFeed(ctx, after, limit)
}

func (g *gated) ReadVersions(ctx context.Context, of []warm.KeyVersion, maxBytes int64) ([]warm.Version, error) {
	g.gate.pass(ctx)
	return g.Store.ReadVersions(ctx, of, maxBytes)
}

func (g *gated) StartSegment(ctx context.Context, s tiering.SegmentInfo) error {
	g.gate.pass(ctx)
	return g.Store.StartSegment(ctx, s)
}

func (g *gated) FinishSegment(ctx context.Context, s tiering.SegmentInfo, at []tiering.Location, reader string, pos int64) error {
	g.gate.pass(ctx)
	return g.Store.FinishSegment(ctx, s, at, reader, pos)
}
