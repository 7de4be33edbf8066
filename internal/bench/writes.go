package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// large is the size in bytes from which only straight and bytes compete.
const large = 4 << 10

// pool is how many documents there are of one size.
func pool(size int) int { return min(4096, 16<<20/size) }

// comparison is one ratio of a case: of rates unless of says otherwise.
type comparison struct {
	who, beside string
	targets     map[int]float64 // by writers
}

// small are the bars of documents of 1 KB, big those of 8 KB.
var (
	small = []comparison{
		{"bytes", "straight", map[int]float64{1: 0.8, 16: 1.3, 64: 2.3, 256: 3.5}},
		{"query", "straight", map[int]float64{1: 0.55, 16: 1.0, 64: 2.0, 256: 2.7}},
		{"full", "article", map[int]float64{1: 1.5, 16: 2.2, 64: 3.7, 256: 5}},
	}
	big     = []comparison{{"bytes", "straight", map[int]float64{16: 1.35, 64: 2.0, 256: 2.4}}}
	delayed = []comparison{{"bytes", "straight", map[int]float64{16: 0.9, 64: 1.5}}}
)

// tailTargets are the bars of p99 against straight's, by writers.
var tailTargets = map[int]float64{64: 0.6}

// writes is the part Writes.
func (b *bench) writes(ctx context.Context) error {
	field, err := b.field(ctx)
	if err != nil {
		return err
	}
	for _, size := range b.Sizes {
		cases, racing := small, field
		if size >= large {
			cases, racing = big, slices.DeleteFunc(slices.Clone(field), func(c *contestant) bool { return c.name != "bytes" && c.name != "straight" })
		}
		docs := documents(pool(size), size)
		for _, writers := range b.Writers {
			if size >= large && writers == 1 {
				continue
			}
			name := fmt.Sprintf("%s, %d writers", sizeName(size), writers)
			samples, err := b.race(ctx, name, racing, writers, docs)
			if err != nil {
				return err
			}
			b.compare(Writes, name, cases, racing, samples, writers, size == 1<<10 || size == 8<<10)
			if size == 1<<10 && samples["bytes"] != nil && samples["straight"] != nil {
				b.report.add(Row{Part: Writes, Case: name + ": p99 of bytes / straight", Target: target(tailTargets, writers, atMost),
					Figures: fmt.Sprintf("%s / %s", short(middle(samples["bytes"]).p99), short(middle(samples["straight"]).p99))},
					ratios(samples["bytes"], samples["straight"], p99)...)
			}
		}
	}
	return nil
}

// delay is the part Delay: the disk's flush made slow, as it is on many.
func (b *bench) delay(ctx context.Context) error {
	slow := map[string]string{"commit_delay": "2000", "commit_siblings": "0"}
	bytes, err := b.router(ctx, "bytes", nodeOptions{settings: slow})
	if err != nil {
		return err
	}
	straight, err := b.straight(ctx, slow)
	if err != nil {
		return err
	}
	field := []*contestant{bytes, straight}
	if err := b.populate(ctx, field); err != nil {
		return err
	}
	docs := documents(pool(1<<10), 1<<10)
	for _, writers := range b.Writers {
		if delayed[0].targets[writers] == 0 {
			continue
		}
		name := fmt.Sprintf("1 KB, commit_delay 2 ms, %d writers", writers)
		samples, err := b.race(ctx, name, field, writers, docs)
		if err != nil {
			return err
		}
		b.compare(Delay, name, delayed, field, samples, writers, true)
	}
	return nil
}

// field opens contestants and writes every key once.
func (b *bench) field(ctx context.Context) ([]*contestant, error) {
	var field []*contestant
	for _, name := range Contestants() {
		if len(b.Contestants) > 0 && !slices.Contains(b.Contestants, name) {
			continue
		}
		var c *contestant
		var err error
		switch name {
		case "straight":
			c, err = b.straight(ctx, nil)
		case "article":
			c, err = b.article(ctx)
		default:
			c, err = b.router(ctx, name, nodeOptions{query: name == "query", archived: name == "full"})
		}
		if err != nil {
			return nil, err
		}
		field = append(field, c)
	}
	return field, b.populate(ctx, field)
}

// populate writes every key once, which warms the connections up too. What
// article and full owe their buckets then is outside of any slice.
func (b *bench) populate(ctx context.Context, field []*contestant) error {
	docs := documents(64, 1<<10)
	for _, c := range field {
		b.Progress("populate " + c.name)
		var next atomic.Int64
		err := together(64, func(int) error {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.Keys {
					return nil
				}
				if err := c.write(ctx, keyName(i), docs[i%len(docs)]); err != nil {
					return fmt.Errorf("populate %s: %w", c.name, err)
				}
			}
		})
		if err != nil {
			return err
		}
		if c.end != nil {
			if err := c.end(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// race lets contestants take turns, forth and back, so that what drifts hits
// both sides of a ratio alike.
func (b *bench) race(ctx context.Context, name string, field []*contestant, writers int, docs [][]byte) (map[string][]sample, error) {
	b.Progress(name)
	samples := map[string][]sample{}
	for round := range b.Rounds {
		order := slices.Clone(field)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, c := range order {
			streams := make([]*stream, writers)
			for w := range streams {
				streams[w] = newStream(round, w, b.Keys, docs)
			}
			if c.begin != nil {
				c.begin()
			}
			s, err := b.settled(ctx, c.name, writers, b.Slice, func(ctx context.Context, w, _ int) error {
				id, doc := streams[w].next()
				return c.write(ctx, id, doc)
			}, c.settle)
			if err == nil && c.end != nil {
				err = c.end(ctx)
			}
			if err != nil {
				return nil, err
			}
			samples[c.name] = append(samples[c.name], s)
		}
	}
	return samples, nil
}

// compare reports the ratios of a case; barred says that its targets count.
func (b *bench) compare(part Part, name string, cases []comparison, field []*contestant, samples map[string][]sample, writers int, barred bool) {
	for _, c := range cases {
		x, y := samples[c.who], samples[c.beside]
		if x == nil || y == nil {
			continue
		}
		row := Row{Part: part, Case: fmt.Sprintf("%s: %s / %s", name, c.who, c.beside)}
		if barred {
			row.Target = target(c.targets, writers, atLeast)
		}
		notes := []string{fmt.Sprintf("%s against %s", middle(x), middle(y))}
		for _, f := range field {
			if f.note != nil && (f.name == c.who || f.name == c.beside) {
				notes = append(notes, f.note())
			}
		}
		row.Figures = strings.Join(notes, "; ")
		b.report.add(row.versus(x, y), ratios(x, y, rate)...)
	}
}

func target(bars map[int]float64, writers int, bar func(float64) *Target) *Target {
	if bound, ok := bars[writers]; ok {
		return bar(bound)
	}
	return nil
}

func sizeName(size int) string {
	if size%(1<<10) == 0 {
		return fmt.Sprintf("%d KB", size>>10)
	}
	return fmt.Sprintf("%d B", size)
}
