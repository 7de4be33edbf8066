package router

import (
	"context"
	"sync"
	"time"

	"github.com/tierd/tierd/warm"
)

// Hundreds of watchers stand at the end of the feed, and all wake over the same
// transaction. So one of them waits for it and reads it, and the others take what
// it read: a store is asked once for what is new, however many watch.

// The bounds of what is kept of the feed's end: watchers that wake together ask
// for it at once, and what an erase took from the feed must not be given out. What is
// older leaves memory when a watcher asks next; it is keys and owners, without bodies.
const (
	recentPages = 4
	recentFor   = time.Second
)

// feedReader waits for and reads the feed for all watchers.
type feedReader struct {
	store warm.Store
	clock func() time.Time

	mu     sync.Mutex
	pages  []feedPage    // the end of the feed, oldest first
	leads  chan struct{} // closed when who waits for the end has it; nil: nobody waits
	behind int64         // where that one waits
}

// feedPage is everything that the feed holds behind after, up to its last entry.
type feedPage struct {
	after   int64
	entries []warm.FeedEntry
	read    time.Time
}

func (p feedPage) last() int64 { return p.entries[len(p.entries)-1].Pos }

func newFeedReader(s warm.Store, clock func() time.Time) *feedReader {
	return &feedReader{store: s, clock: clock}
}

// recent returns what is kept of the feed behind after. f.mu is held.
func (f *feedReader) recent(after int64) []warm.FeedEntry {
	now := f.clock()
	for len(f.pages) > 0 && now.Sub(f.pages[0].read) > recentFor {
		f.pages = f.pages[1:]
	}
	for _, p := range f.pages {
		if after < p.after || after >= p.last() {
			continue
		}
		entries := p.entries
		for entries[0].Pos <= after {
			entries = entries[1:]
		}
		return entries
	}
	return nil
}

// read returns a page of the feed behind after.
func (f *feedReader) read(ctx context.Context, after int64) ([]warm.FeedEntry, error) {
	f.mu.Lock()
	page := f.recent(after)
	f.mu.Unlock()
	if page != nil {
		return page, nil
	}
	return f.store.ReadFeed(ctx, after, watchPage)
}

// wait blocks until the feed goes on behind after, or ctx ends.
func (f *feedReader) wait(ctx context.Context, after int64) error {
	for {
		f.mu.Lock()
		if f.recent(after) != nil {
			f.mu.Unlock()
			return nil
		}
		leads := f.leads
		if leads == nil {
			f.leads, f.behind = make(chan struct{}), after
			f.mu.Unlock()
			return f.lead(ctx, after)
		}
		ahead := after < f.behind // there may be something already that nobody waits for
		f.mu.Unlock()
		if ahead {
			return f.store.WaitFeed(ctx, after)
		}
		select {
		case <-leads:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lead waits for all who stand where after is, or behind it. When it gives up, one
// of them leads.
func (f *feedReader) lead(ctx context.Context, after int64) error {
	var entries []warm.FeedEntry
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(entries) > 0 {
			f.pages = append(f.pages, feedPage{after, entries, f.clock()})
			f.pages = f.pages[max(len(f.pages)-recentPages, 0):]
		}
		close(f.leads)
		f.leads = nil
	}()
	if err := f.store.WaitFeed(ctx, after); err != nil {
		return err
	}
	var err error
	entries, err = f.store.ReadFeed(ctx, after, watchPage)
	return err
}
