package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// hotKeys is how many keys there are whose heads are updated again and again.
const hotKeys = 1000

// keys is the part Keys: few keys that are written often. Heads have to be
// updated in their page (HOT), and a key must not become slower with age.
func (b *bench) keys(ctx context.Context) error {
	n, err := b.openNode(ctx, "keys", nodeOptions{})
	if err != nil {
		return err
	}
	docs := documents(pool(1<<10), 1<<10)
	b.Progress(fmt.Sprintf("%d keys", hotKeys))
	streams := make([]*stream, 64)
	for w := range streams {
		streams[w] = newStream(0, w, hotKeys, docs)
	}
	s, err := b.slice(ctx, "keys", len(streams), 2*b.Slice, func(ctx context.Context, w, _ int) error {
		id, doc := streams[w].next()
		return n.write(ctx, id, doc)
	})
	if err != nil {
		return err
	}
	updates, inPage, err := b.headUpdates(ctx, n.schema)
	if err != nil {
		return err
	}
	b.report.add(Row{Part: Keys, Case: fmt.Sprintf("%d keys, 64 writers: HOT updates of heads / all", hotKeys), Target: atLeast(0.99),
		Figures: fmt.Sprintf("%s of %s; %s", thousands(float64(inPage)), thousands(float64(updates)), s)}, float64(inPage)/float64(max(1, updates)))

	count := 10 * b.Versions
	b.Progress(fmt.Sprintf("one key, %d writes", count))
	n.tally.reset()
	hundredths, err := b.oneKey(ctx, n, count, docs)
	if err != nil {
		return err
	}
	early, late := median(hundredths[:10]), median(hundredths[90:])
	b.report.add(Row{Part: Keys, Case: fmt.Sprintf("one key, %s writes by 64 writers: last tenth / first", thousands(float64(count))), Target: atLeast(0.9),
		Figures: fmt.Sprintf("%s/s against %s/s; %s", thousands(late), thousands(early), n.tally.String())}, late/early)
	return nil
}

// oneKey writes one key count times, and returns the rate of each hundredth.
func (b *bench) oneKey(ctx context.Context, n *node, count int, docs [][]byte) ([]float64, error) {
	var mu sync.Mutex
	written, last := 0, time.Now()
	var rates []float64
	err := together(64, func(w int) error {
		for i := 0; ; i++ {
			mu.Lock()
			over := written >= count
			mu.Unlock()
			if over {
				return nil
			}
			if err := n.write(ctx, "one", docs[(w*7+i)%len(docs)]); err != nil {
				return err
			}
			mu.Lock()
			if written++; written%(count/100) == 0 {
				now := time.Now()
				rates = append(rates, float64(count/100)/now.Sub(last).Seconds())
				last = now
			}
			mu.Unlock()
		}
	})
	if err == nil && len(rates) < 100 {
		err = errors.New("the one key was not written often enough")
	}
	return rates, err
}

// headUpdates asks PostgreSQL how many updates of heads there were, and how
// many of them stayed in their page. The counters come in up to a second late.
func (b *bench) headUpdates(ctx context.Context, schema string) (updates, inPage int64, err error) {
	c, err := pgx.Connect(ctx, b.Warm)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	for quiet := 0; quiet < 3; {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
		before := updates
		err := c.QueryRow(ctx, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'head'`, schema).Scan(&updates, &inPage)
		if err != nil {
			return 0, 0, err
		}
		quiet++
		if updates != before {
			quiet = 0
		}
	}
	return updates, inPage, nil
}

// together runs work side by side and returns the first error; the others go on
// to their end.
func together(n int, work func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = work(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
