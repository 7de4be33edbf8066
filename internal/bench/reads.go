package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tierd/tierd/tiering"
)

// readKeys is how many documents the part Reads reads.
const readKeys = 1000

// reads is the part Reads: a hot get, which checks its digest, beside a GET of
// the same document by go-redis' pool.
func (b *bench) reads(ctx context.Context) error {
	n, err := b.openNode(ctx, "reads", nodeOptions{})
	if err != nil {
		return err
	}
	raw, err := b.redis()
	if err != nil {
		return err
	}
	prefix := b.id + ":reads:"
	b.later(func(ctx context.Context) error {
		if err := removeKeys(ctx, raw, prefix, readKeys); err != nil {
			return err
		}
		return raw.Close()
	})
	docs := documents(readKeys, 1<<10)
	if err := together(64, func(w int) error {
		for i := w; i < readKeys; i += 64 {
			if err := n.write(ctx, keyName(i), docs[i]); err != nil {
				return err
			}
			if err := raw.Set(ctx, prefix+keyName(i), docs[i], 0).Err(); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	var missed atomic.Int64 // gets that hot did not serve
	ways := []struct {
		name string
		read func(ctx context.Context, id string) error
	}{
		{"get", func(ctx context.Context, id string) error {
			d, err := n.Get(ctx, namespace, id, nil)
			if err == nil && d.Tier != tiering.Hot {
				missed.Add(1)
			}
			return err
		}},
		{"GET", func(ctx context.Context, id string) error { return raw.Get(ctx, prefix+id).Err() }},
	}
	for _, readers := range []int{1, 64} {
		b.Progress(fmt.Sprintf("%d readers", readers))
		samples := make([][]sample, len(ways))
		for round := range 2*b.Rounds + 1 {
			for i := range ways {
				way := (i + round) % len(ways)
				streams := make([]*stream, readers)
				for r := range streams {
					streams[r] = newStream(round, r, readKeys, docs)
				}
				s, err := b.slice(ctx, ways[way].name, readers, b.Slice/2, func(ctx context.Context, r, _ int) error {
					id, _ := streams[r].next()
					return ways[way].read(ctx, id)
				})
				if err != nil {
					return err
				}
				if round > 0 { // the first warms up
					samples[way] = append(samples[way], s)
				}
			}
		}
		figures := fmt.Sprintf("%s against %s", middle(samples[0]), middle(samples[1]))
		if n := missed.Swap(0); n > 0 {
			figures += fmt.Sprintf("; warm served %d gets", n)
		}
		row := Row{Part: Reads, Case: fmt.Sprintf("%d readers: hot gets / GETs", readers), Target: atLeast(2), Figures: figures}
		of := rate
		if readers == 1 {
			row.Case, row.Target, of = "1 reader: p50 of a hot get / GET", atMost(1.2), p50
		}
		b.report.add(row.versus(samples[0], samples[1]), ratios(samples[0], samples[1], of)...)
	}
	return nil
}
