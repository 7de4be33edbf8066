package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/s3"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/postgres"
)

// namespace is where all documents of a node go.
const namespace = "chats"

// segmentBytes is the size of a segment's documents, the engine's default.
const segmentBytes = 8 << 20

// node is tierd over the real servers, in places of its own.
type node struct {
	*router.Router
	hot    *redis.Store
	warm   *postgres.Store
	schema string
	tally  tally

	// Of a node that archives:
	engine          *lifecycle.Engine
	primary, backup *counted
	gate            gate
	acknowledged    atomic.Int64
	lag             float64 // segments that waited at the end of a slice, at most
}

// nodeOptions shape a node.
type nodeOptions struct {
	query    bool // keep projections
	archived bool // over two buckets, with an engine
	settings map[string]string
}

func (b *bench) openNode(ctx context.Context, name string, o nodeOptions) (*node, error) {
	place, err := b.schema(ctx, name, o.settings)
	if err != nil {
		return nil, err
	}
	n := &node{schema: b.id + "_" + name}
	if n.warm, err = postgres.Open(ctx, place, nil); err != nil {
		return nil, err
	}
	b.later(func(context.Context) error { return n.warm.Close() })
	epoch, err := n.warm.HotEpoch(ctx)
	if err != nil {
		return nil, err
	}
	if n.hot, err = redis.Open(ctx, b.Hot, &redis.Options{Epoch: epoch}); err != nil {
		return nil, err
	}
	b.later(func(ctx context.Context) error { return errors.Join(n.hot.Forget(ctx, epoch), n.hot.Close()) })
	config := router.Config{Hot: n.hot, Warm: n.warm, Committers: n.warm.Capabilities().Committers, Recorder: &n.tally}
	if o.archived {
		if err := b.openCold(ctx, name, n); err != nil {
			return nil, err
		}
		archive := cold.NewArchive(n.primary, n.backup, nil)
		n.engine = lifecycle.New(lifecycle.Config{Warm: &gated{n.warm, &n.gate}, Archive: archive, Hot: n.hot, Holder: b.id, SegmentBytes: segmentBytes})
		config.Archive, config.Background = archive, n.engine
	}
	n.Router = router.New(config)
	b.later(func(context.Context) error { n.Router.Close(); return nil })
	_, err = n.SetNamespace(ctx, namespace, tiering.Policy{Query: &o.query}, nil)
	return n, err
}

func (b *bench) openCold(ctx context.Context, name string, n *node) error {
	for _, c := range []struct {
		url string
		to  **counted
	}{{b.Cold, &n.primary}, {b.Backup, &n.backup}} {
		place, err := under(c.url, b.id+"/"+name)
		if err != nil {
			return err
		}
		bucket, err := s3.Open(ctx, place, nil)
		if err != nil {
			return err
		}
		b.later(func(ctx context.Context) error { return errors.Join(emptied(ctx, bucket), bucket.Close()) })
		*c.to = &counted{Bucket: bucket}
	}
	return nil
}

func (n *node) write(ctx context.Context, id string, doc []byte) error {
	_, err := n.Put(ctx, namespace, id, doc, nil)
	if err == nil {
		n.acknowledged.Add(1)
	}
	return err
}

// router makes a contestant of a node.
func (b *bench) router(ctx context.Context, name string, o nodeOptions) (*contestant, error) {
	n, err := b.openNode(ctx, name, o)
	if err != nil {
		return nil, err
	}
	c := &contestant{name: name, write: n.write, begin: n.tally.reset, note: n.tally.String}
	if o.query {
		c.settle = n.warm.Project
	}
	if o.archived {
		b.archiving(n, c)
	}
	return c, nil
}

// archiving runs the engine of n while c has its turn, and stops it in its
// tracks meanwhile: what waits is archived in the next slice, on its time.
func (b *bench) archiving(n *node, c *contestant) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	n.gate.shut()
	running.Go(func() { n.engine.Run(ctx) })
	b.later(func(context.Context) error {
		stop()
		n.gate.open()
		running.Wait()
		return nil
	})
	c.begin = func() { n.tally.reset(); n.gate.open() }
	c.end = func(ctx context.Context) error {
		n.gate.shut()
		waiting, err := n.unarchived(ctx)
		n.lag = waiting
		return err
	}
	c.note = func() string { return fmt.Sprintf("%s, archive lag %.1f segments", n.tally.String(), n.lag) }
}

// unarchived is how many segments' worth of acknowledged versions is in no
// finished segment. The namespace's policy lies in one too.
func (n *node) unarchived(ctx context.Context) (segments float64, err error) {
	var count, bytes int64
	for after := ""; ; {
		page, err := n.warm.Segments(ctx, tiering.DefaultTenant, tiering.SegmentFinished, after, 500)
		if err != nil {
			return 0, err
		}
		for _, s := range page {
			after, count, bytes = s.Name, count+s.Count, bytes+s.RawSize
		}
		if len(page) < 500 {
			break
		}
	}
	if count == 0 {
		return 0, nil
	}
	return float64(max(0, n.acknowledged.Load()-count)) * float64(bytes) / float64(count) / segmentBytes, nil
}

// counted counts what is written to a bucket.
type counted struct {
	cold.Bucket
	puts, bytes atomic.Int64
}

func (c *counted) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	c.puts.Add(1)
	c.bytes.Add(size)
	return c.Bucket.Create(ctx, name, body, size)
}

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

// tally is a router.Recorder that counts batches.
type tally struct{ batches, rows, missed atomic.Int64 }

func (t *tally) reset() {
	t.batches.Store(0)
	t.rows.Store(0)
	t.missed.Store(0)
}

func (t *tally) String() string {
	s := fmt.Sprintf("%.1f rows a commit", float64(t.rows.Load())/float64(max(1, t.batches.Load())))
	if n := t.missed.Load(); n > 0 {
		s += fmt.Sprintf(", hot missed %d", n)
	}
	return s
}

func (t *tally) Batch(rows int)                        { t.batches.Add(1); t.rows.Add(int64(rows)) }
func (t *tally) HotMissed()                            { t.missed.Add(1) }
func (*tally) Load(tiering.Tier, time.Duration, error) {}
func (*tally) Corrupt(tiering.Tier)                    {}
func (*tally) HotLookup(bool)                          {}
func (*tally) StateSize(int64, bool)                   {}
func (*tally) SummaryCall(time.Duration, error)        {}
func (*tally) ContextSummary(string)                   {}
func (*tally) Commit(ctx context.Context, _ string, _ tiering.Key) (context.Context, func(int64, string, string, error)) {
	return ctx, func(int64, string, string, error) {}
}
