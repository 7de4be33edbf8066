package warmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The tenant and namespace that tests write to unless they say otherwise.
const (
	tenant = "acme"
	space  = "notes"
)

// fixture is a fresh store on a clock that stands still.
type fixture struct {
	testing.TB
	h     Harness
	test  *testing.T
	place string
	clock *clock
	store warm.Store
	ctx   context.Context
	// lose, when set, takes the place of the next answers of commits.
	lose func() error
}

// setup opens a fresh store with the namespace space.
func setup(t *testing.T, h Harness) *fixture {
	t.Helper()
	f := bare(t, h)
	f.ensure(tenant, space)
	return f
}

// bare opens a fresh store without any namespace.
func bare(t *testing.T, h Harness) *fixture {
	t.Helper()
	f := &fixture{TB: t, h: h, test: t, place: t.Name() + " " + uuid.NewString(), clock: newClock(), ctx: t.Context()}
	f.open()
	t.Cleanup(func() {
		if f.store == nil {
			return
		}
		if err := f.store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

func (f *fixture) open() {
	f.Helper()
	f.store = f.h.Open(f.test, f.place, Options{Clock: f.clock.Now, AfterCommit: func() error {
		if f.lose != nil {
			return f.lose()
		}
		return nil
	}})
}

// reopen closes the store and opens the same data.
func (f *fixture) reopen() {
	f.Helper()
	f.no(f.store.Close())
	f.store = nil
	f.open()
}

// no fails the test for an error.
func (f *fixture) no(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) ensure(tenant, name string) {
	f.Helper()
	_, err := f.store.EnsureNamespace(f.ctx, warm.Namespace{Tenant: tenant, Name: name, Kind: tiering.KindState, Class: tiering.ClassPersistent})
	f.no(err)
}

// key names a key of the usual namespace.
func key(id string) tiering.Key {
	return tiering.Key{Tenant: tenant, Namespace: space, ID: id}
}

// put is a row that writes body.
func put(body string) warm.Row {
	return warm.Row{Op: tiering.OpPut, Body: []byte(body), Digest: tiering.DigestOf([]byte(body)), Query: true}
}

// op is a row of any other op.
func op(o tiering.Op) warm.Row { return warm.Row{Op: o} }

func (f *fixture) live(k tiering.Key) bool {
	f.Helper()
	cur, err := f.store.Load(f.ctx, k)
	f.no(err)
	return cur.Head.Live(cur.Now)
}

// ttl is an expiry of its own.
func ttl(d time.Duration) warm.Expiry { return warm.Expiry{TTL: &tiering.TTL{Life: d}} }

// change is a change of one row without a condition.
func change(k tiering.Key, rows ...warm.Row) warm.Change {
	return warm.Change{Key: k, Rows: rows}
}

func batch(changes ...warm.Change) *warm.Batch {
	slices.SortFunc(changes, func(a, b warm.Change) int { return a.Key.Compare(b.Key) })
	return &warm.Batch{ID: uuid.New(), Changes: changes}
}

// commit commits changes in one batch. The results are in key order.
func (f *fixture) commit(changes ...warm.Change) [][]warm.Result {
	f.Helper()
	results, err := f.store.Commit(f.ctx, batch(changes...))
	f.no(err)
	if len(results) != len(changes) {
		f.Fatalf("%d results for %d changes", len(results), len(changes))
	}
	return results
}

// one commits a single row and returns its result.
func (f *fixture) one(k tiering.Key, row warm.Row, conditions ...tiering.Condition) warm.Result {
	f.Helper()
	c := change(k, row)
	for _, cond := range conditions {
		c.If = cond
	}
	return f.commit(c)[0][0]
}

// must commits a single row that has to be done.
func (f *fixture) must(k tiering.Key, row warm.Row, conditions ...tiering.Condition) warm.Result {
	f.Helper()
	r := f.one(k, row, conditions...)
	f.status(r, warm.Done)
	return r
}

var statusNames = []string{"Done", "NoChange", "Conflict", "UserFixed", "Replayed", "Mismatch", "Again", "NoNamespace", "Refused"}

func name(s warm.Status) string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprint(uint8(s))
}

// status fails the test for another outcome than the wanted ones.
func (f *fixture) status(r warm.Result, want ...warm.Status) {
	f.Helper()
	if slices.Contains(want, r.Status) {
		return
	}
	var names []string
	for _, s := range want {
		names = append(names, name(s))
	}
	f.Fatalf("status %s, want %s (%+v)", name(r.Status), strings.Join(names, " or "), r)
}

func (f *fixture) load(k tiering.Key) warm.Current {
	f.Helper()
	cur, err := f.store.Load(f.ctx, k)
	f.no(err)
	return cur
}

// body fails the test unless the live bytes of k are want; "" for nothing.
func (f *fixture) body(k tiering.Key, want string) {
	f.Helper()
	if got := string(f.load(k).Body); got != want {
		f.Fatalf("%s holds %q, want %q", k, got, want)
	}
}

// feed reads the whole feed.
func (f *fixture) feed() []warm.FeedEntry {
	f.Helper()
	if f.h.Settle != nil {
		f.h.Settle(f.test, f.store)
	}
	first, last, err := f.store.FeedBounds(f.ctx)
	f.no(err)
	var out []warm.FeedEntry
	for at := first - 1; at < last; {
		entries, err := f.store.ReadFeed(f.ctx, at, 1000)
		f.no(err)
		if len(entries) == 0 {
			f.Fatalf("the feed ends at %d, its last position is %d", at, last)
		}
		out = append(out, entries...)
		at = entries[len(entries)-1].Pos
	}
	return out
}

// equal fails the test when two values differ.
func equal[T comparable](f *fixture, what string, got, want T) {
	f.Helper()
	if got != want {
		f.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// ids returns the ids of a page, in order.
func ids(page []warm.Current) string {
	var out []string
	for _, cur := range page {
		out = append(out, cur.Head.Key.ID)
	}
	return strings.Join(out, " ")
}

// archived puts versions of k into a finished segment with two copies in the
// given states.
func (f *fixture) archived(name string, primary, backup tiering.CopyState, k tiering.Key, low, high int64) {
	f.Helper()
	s := tiering.SegmentInfo{Name: name, Tenant: k.Tenant, Token: 1}
	f.no(f.store.StartSegment(f.ctx, s))
	s.Copies = [2]tiering.CopyState{primary, backup}
	loc := tiering.Location{Key: k, Segment: name, MinVersion: low, MaxVersion: high, Blocks: []tiering.BlockRef{{FirstVersion: low, Offset: 64, Length: 128}}}
	f.no(f.store.FinishSegment(f.ctx, s, []tiering.Location{loc}, "", 0))
}
