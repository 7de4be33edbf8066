package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

const tenant = "acme"

// day is long enough to age things and short enough that no jump of the clock
// is suspected.
const day = 24 * time.Hour

// node is a warm store, two buckets in memory and an engine over them, with a
// clock that stands until it is moved.
type node struct {
	*testing.T
	ctx     context.Context
	mu      sync.Mutex
	now     time.Time
	store   warm.Store
	memory  [2]rawBucket
	buckets [2]*coldtest.FaultBucket
	archive *cold.Archive
	engine  *lifecycle.Engine
	config  lifecycle.Config
}

// Its test waits for the disk more than for the processor, so that it runs
// beside others.
func newNode(t *testing.T, c lifecycle.Config) *node {
	t.Helper()
	return newNodeAt(t, embedded, c)
}

func newNodeAt(t *testing.T, p place, c lifecycle.Config) *node {
	t.Helper()
	t.Parallel()
	n := &node{T: t, ctx: t.Context(), now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)}
	tiers := p.open(t, t.TempDir(), n.clock)
	n.store, n.memory = tiers.warm, tiers.buckets
	for i := range n.memory {
		n.buckets[i] = coldtest.NewFaultBucket(n.memory[i])
	}
	n.archive = cold.NewArchive(n.buckets[0], n.buckets[1], nil)
	c.Warm, c.Archive = n.store, n.archive
	n.config = c
	n.restart()
	return n
}

// restart forgets what the engine kept in memory, as a new process does.
func (n *node) restart() { n.engine = lifecycle.New(n.config) }

func (n *node) clock() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// tick moves the clock.
func (n *node) tick(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = n.now.Add(d)
}

// pass moves the clock, and has the engine believe it.
func (n *node) pass(d time.Duration) {
	n.Helper()
	n.tick(d)
	n.no(n.engine.ConfirmClock(n.ctx))
}

func (n *node) no(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func key(id string) tiering.Key { return tiering.Key{Tenant: tenant, Namespace: "notes", ID: id} }

// policy puts a namespace's policy in force.
func (n *node) policy(ns string, p tiering.Policy) {
	n.Helper()
	full := p.WithDefaults()
	_, err := n.store.EnsureNamespace(n.ctx, warm.Namespace{Tenant: tenant, Name: ns, Kind: full.Kind, Class: full.Class})
	n.no(err)
	body, err := json.Marshal(p)
	n.no(err)
	n.commit(tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: ns}, put(body))
}

func put(body []byte) warm.Row {
	return warm.Row{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body)}
}

func row(op tiering.Op) warm.Row { return warm.Row{Op: op} }

// commit makes one row and returns the head that it made.
func (n *node) commit(k tiering.Key, r warm.Row) warm.Head {
	n.Helper()
	results, err := n.store.Commit(n.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{r}}}})
	n.no(err)
	if got := results[0][0]; got.Status != warm.Done {
		n.Fatalf("%s of %s: %+v", r.Op, k, got)
	}
	return results[0][0].Head
}

// put writes a document that says which version of which key it is.
func (n *node) put(id string) warm.Head {
	n.Helper()
	n.tick(time.Second)
	return n.commit(key(id), put([]byte(fmt.Sprintf(`{"id":%q,"at":%q}`, id, n.clock()))))
}

func (n *node) del(id string) warm.Head {
	n.Helper()
	n.tick(time.Second)
	return n.commit(key(id), row(tiering.OpDelete))
}

// flush makes a segment of what was committed.
func (n *node) flush() {
	n.Helper()
	n.no(n.engine.Flush(n.ctx))
}

// segments returns the catalog's segments in a state, "" for all.
func (n *node) segments(state tiering.SegmentState) []tiering.SegmentInfo {
	n.Helper()
	s, err := n.store.Segments(n.ctx, "", state, "", 10_000)
	n.no(err)
	return s
}

// objects returns the names of a bucket.
func (n *node) objects(c tiering.Copy) []string {
	n.Helper()
	return slices.DeleteFunc(n.names(c), func(name string) bool {
		data, err := n.memory[c].Read(n.ctx, name, 0, -1)
		n.no(err)
		return cold.Occupied(data)
	})
}

// names is objects with the names that are occupied.
func (n *node) names(c tiering.Copy) []string {
	n.Helper()
	var out []string
	for info, err := range n.memory[c].List(n.ctx, cold.SegmentPrefix) {
		n.no(err)
		out = append(out, info.Name)
	}
	return out
}

// scan reads every record of every object in a bucket, as a rebuild does; what
// fails on demand does not fail here.
func (n *node) scan(c tiering.Copy) []cold.Record {
	n.Helper()
	var out []cold.Record
	for _, name := range n.objects(c) {
		data, err := n.memory[c].Read(n.ctx, name, 0, -1)
		n.no(err)
		s, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
		n.no(err)
		for r, err := range s.Records() {
			n.no(err)
			out = append(out, r)
		}
	}
	slices.SortFunc(out, cold.Record.Compare)
	return out
}

// rebuilt is what a rebuild from one bucket would make of each key: the newest
// version that it finds.
func (n *node) rebuilt(c tiering.Copy) map[tiering.Key]cold.Record {
	n.Helper()
	out := map[tiering.Key]cold.Record{}
	for _, r := range n.scan(c) {
		if r.Op.Versioned() {
			out[r.Key] = r
		}
	}
	return out
}

// fromCold reads a version the way a reader does: by its locations.
func (n *node) fromCold(k tiering.Key, version int64) (cold.Record, bool) {
	n.Helper()
	locs, err := n.store.Locations(n.ctx, k)
	n.no(err)
	for _, l := range locs {
		if _, ok := l.Block(version); !ok {
			continue
		}
		r, _, err := n.archive.Read(n.ctx, l, version)
		if errors.Is(err, tiering.ErrNotFound) {
			continue
		}
		n.no(err)
		return r, true
	}
	return cold.Record{}, false
}

// lost says which finished segment a bucket does not hold whole though the
// catalog says so, nil for none.
func (n *node) lost() error {
	n.Helper()
	for _, s := range n.segments(tiering.SegmentFinished) {
		for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
			if s.Copies[c] != tiering.CopyVerified {
				continue
			}
			data, err := n.memory[c].Read(n.ctx, s.Name, 0, -1)
			if err != nil || tiering.DigestOf(data) != s.SHA256 {
				return fmt.Errorf("%s of %s: %d bytes, %w: the catalog says that it is verified", c, s.Name, len(data), err)
			}
		}
	}
	return nil
}

func (n *node) consistent() {
	n.Helper()
	n.no(n.lost())
}

// settle runs the engine until nothing is due but what time will bring.
func (n *node) settle() {
	n.Helper()
	for range 4 {
		n.sweep()
		n.gc()
		n.pass(61 * time.Minute)
	}
	n.gc()
}

func (n *node) gc() lifecycle.GCReport {
	n.Helper()
	r, err := n.engine.GC(n.ctx, false)
	n.no(err)
	return r
}

func (n *node) sweep() {
	n.Helper()
	n.no(n.engine.Sweep(n.ctx))
}

// records says in one word each what a bucket holds of a key.
func (n *node) records(k tiering.Key) string {
	n.Helper()
	var out [2][]string
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		for _, r := range n.scan(c) {
			if r.Key == k {
				out[c] = append(out[c], fmt.Sprintf("%s%d", r.Op, r.Version))
			}
		}
	}
	if !slices.Equal(out[0], out[1]) {
		n.Fatalf("the primary holds %v, the backup %v", out[0], out[1])
	}
	return strings.Join(out[0], " ")
}

func same(a, b []cold.Record) bool {
	return slices.EqualFunc(a, b, func(x, y cold.Record) bool {
		bodies := bytes.Equal(x.Body, y.Body)
		x.Body, y.Body = nil, nil
		return bodies && fmt.Sprintf("%+v", x) == fmt.Sprintf("%+v", y)
	})
}
