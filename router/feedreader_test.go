package router

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// countedFeed counts how often the feed is read, and how many wait for it now.
type countedFeed struct {
	warm.Store
	reads, waiting atomic.Int64
}

func (c *countedFeed) ReadFeed(ctx context.Context, after int64, limit int) ([]warm.FeedEntry, error) {
	c.reads.Add(1)
	return c.Store.ReadFeed(ctx, after, limit)
}

func (c *countedFeed) WaitFeed(ctx context.Context, after int64) error {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	return c.Store.WaitFeed(ctx, after)
}

// However many watch, the store is waited for once and read once for what is new,
// and every watcher sees all of it.
func TestWatchersShareTheEndOfTheFeed(t *testing.T) {
	feed := &countedFeed{}
	w := open(t, setup{warm: func(s warm.Store) warm.Store {
		feed.Store = s
		return feed
	}})
	const watchers, writes = 50, 10
	seen := make(chan string, watchers*writes)
	var all sync.WaitGroup
	for range watchers {
		s, err := w.r.Watch(w.ctx, &tiering.WatchOptions{Namespace: space})
		w.no(err)
		all.Go(func() {
			defer s.Close()
			for range writes {
				e, err := s.Next(w.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				seen <- e.Key
			}
		})
	}
	for i := range writes {
		w.eventually("one waits for all", func() bool { return feed.waiting.Load() == 1 })
		w.put(fmt.Sprint(i), `{}`)
		for range watchers {
			if key := <-seen; key != fmt.Sprint(i) {
				t.Fatalf("a watcher sees %s in round %d", key, i)
			}
		}
	}
	all.Wait()
	if n := feed.reads.Load(); n > 3*writes {
		t.Errorf("%d watchers of %d writes read the feed %d times", watchers, writes, n)
	}
}

// When the watcher that waits for all leaves, another one waits.
func TestAWatcherThatLeavesLeavesNobodyBehind(t *testing.T) {
	feed := &countedFeed{}
	w := open(t, setup{warm: func(s warm.Store) warm.Store {
		feed.Store = s
		return feed
	}})
	first, err := w.r.Watch(w.ctx, nil)
	w.no(err)
	ctx, leave := context.WithCancel(w.ctx)
	left := make(chan error, 1)
	go func() {
		_, err := first.Next(ctx)
		left <- err
	}()
	w.eventually("the first waits", func() bool { return feed.waiting.Load() == 1 })
	second, err := w.r.Watch(w.ctx, nil)
	w.no(err)
	defer second.Close()
	got := make(chan tiering.Event, 1)
	go func() { got <- w.next(second) }()
	leave()
	if err := <-left; err == nil {
		t.Error("it saw something")
	}
	w.put("a", `{}`)
	if e := <-got; e.Key != "a" {
		t.Errorf("the second sees %+v", e)
	}
	w.no(first.Close())
}
