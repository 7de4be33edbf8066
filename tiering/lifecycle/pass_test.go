package lifecycle_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// fill commits documents in transactions of so many each.
func (n *node) fill(documents, each int) {
	n.Helper()
	for first := 0; first < documents; first += each {
		b := &warm.Batch{ID: uuid.New()}
		for i := first; i < min(first+each, documents); i++ {
			b.Changes = append(b.Changes, warm.Change{Key: key(fmt.Sprintf("d/%05d", i)), Rows: []warm.Row{put(fmt.Appendf(nil, `{"n":%d}`, i))}})
		}
		_, err := n.store.Commit(n.ctx, b)
		n.no(err)
	}
}

// countedStore counts the calls that may not grow with the documents of a page.
type countedStore struct {
	warm.Store
	demotions, lookups, singly int
}

func (c *countedStore) DemoteAll(ctx context.Context, of []warm.Demotion) ([]bool, error) {
	c.demotions++
	return c.Store.DemoteAll(ctx, of)
}

func (c *countedStore) LocationsOf(ctx context.Context, keys []tiering.Key) (map[tiering.Key][]tiering.Location, error) {
	c.lookups++
	return c.Store.LocationsOf(ctx, keys)
}

func (c *countedStore) Locations(ctx context.Context, k tiering.Key) ([]tiering.Location, error) {
	c.singly++
	return c.Store.Locations(ctx, k)
}

// A sweep over many documents looks where they lie a page at a time, reads a block of
// each copy once a page, and drops a chunk in one transaction.
func TestManyDocumentsAreDemotedTogether(t *testing.T) {
	n := newNode(t, lifecycle.Config{})
	n.policy("notes", tiering.Policy{})
	const documents = 1200
	n.fill(documents, 400)
	n.flush()
	n.pass(40 * day)
	c := &countedStore{Store: n.store}
	n.config.Warm = c
	n.restart()
	before := n.buckets[tiering.Backup].Calls(coldtest.Read)

	n.no(n.engine.Sweep(n.ctx))

	for i := range documents {
		cur, err := n.store.Head(n.ctx, key(fmt.Sprintf("d/%05d", i)))
		n.no(err)
		if cur.Head.InWarm {
			t.Fatalf("document %d is still in warm", i)
		}
	}
	if c.demotions != documents/25+1 { // a page is 500: the last chunk of the last page is its own
		t.Errorf("%d transactions for %d documents", c.demotions, documents)
	}
	if c.lookups > 4 || c.singly > 0 {
		t.Errorf("%d looks at the catalog, and %d for one key alone", c.lookups, c.singly)
	}
	if reads := n.buckets[tiering.Backup].Calls(coldtest.Read) - before; reads > 100 {
		t.Errorf("%d reads of the backup for %d documents that lie side by side", reads, documents)
	}
}

// How many transactions are read at a time follows from how much they hold, so that a
// page of the feed is not a thousand times as large as a run where each holds a
// thousand changes.
func TestPagesOfTheFeedFollowItsTransactions(t *testing.T) {
	for _, c := range []struct {
		name                   string
		entries, changes, want int
	}{
		{"a change each", 50, 50, 2000},
		{"ten", 50, 500, 2000},
		{"a thousand", 50, 50_000, 24},
		{"more than a run each", 2, 100_000, 1},
		{"none: an erase took them", 0, 0, 2000},
	} {
		if got := lifecycle.NextPage(c.entries, c.changes); got != c.want {
			t.Errorf("%s: %d transactions, want %d", c.name, got, c.want)
		}
	}
}

// A pass rests twice as long as it works, but for the first second of a step; a step
// ends after ten, and after the pass warm is left alone for a while.
func TestAPassRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name        string
			piece       time.Duration // of work
			pieces      int           // in one step, which then has lasted
			lasts, next time.Duration
		}{
			{"what is done at once", 100 * time.Millisecond, 10, time.Second, 4 * time.Second},
			{"what is not", 100 * time.Millisecond, 40, 4*time.Second + 2*3*time.Second, 16 * time.Second},
			{"in pieces too small to rest after", time.Millisecond, 4000, 4*time.Second + 2*3*time.Second, 16 * time.Second},
		} {
			began := time.Now()
			p := lifecycle.NewPaced()
			for i := range c.pieces {
				if p.Tired() {
					t.Fatalf("%s: tired after %d pieces", c.name, i)
				}
				p.Work(t.Context(), c.piece)
			}
			if took := time.Since(began); took < c.lasts-20*time.Millisecond || took > c.lasts {
				t.Errorf("%s: it lasted %v, want %v", c.name, took, c.lasts)
			}
			if rests := p.End(); rests != c.next {
				t.Errorf("%s: the next pass begins after %v, want %v", c.name, rests, c.next)
			}
		}
	})
}

// Documents that expire while a long pass goes on do not wait for its end: each step
// begins with them.
func TestALongPassHoldsUpNoExpiry(t *testing.T) {
	n := newNode(t, lifecycle.Config{})
	n.policy("notes", tiering.Policy{})
	n.fill(1200, 400)
	n.flush()
	n.pass(40 * day)
	r := put([]byte(`{}`))
	r.Expiry = warm.Expiry{TTL: &tiering.TTL{Life: time.Minute}}
	expires := n.commit(key("expires"), r)
	step := n.engine.SweepInSteps(t, 0) // a page each
	if step(n.ctx); step(n.ctx) {
		t.Fatal("the pass was over after two pages of three")
	}
	n.pass(time.Hour)
	step(n.ctx)
	if cur, err := n.store.Head(n.ctx, key("expires")); err != nil || !cur.Head.Op.Deleting() || cur.Head.Version <= expires.Version {
		t.Errorf("it is %+v, %v", cur.Head, err)
	}
	for range 10 {
		if step(n.ctx) {
			return
		}
	}
	t.Error("the pass has no end")
}
