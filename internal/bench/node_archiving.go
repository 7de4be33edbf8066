package bench

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

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
