package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/sqlite"
)

// site is a store with its two buckets and an engine, on a clock that stands
// until it is moved.
type site struct {
	testing.TB
	ctx             context.Context
	clock           *siteClock
	primary, backup *coldtest.Memory
	archive         *cold.Archive
	path            string // of the warm store
	warm            *sqlite.Store
	engine          *lifecycle.Engine
}

type siteClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *siteClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *siteClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newSite opens an empty store over empty buckets.
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{
		TB: t, ctx: t.Context(), clock: &siteClock{now: time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)},
		primary: &coldtest.Memory{}, backup: &coldtest.Memory{},
	}
	s.archive = cold.NewArchive(s.primary, s.backup, nil)
	s.open(filepath.Join(t.TempDir(), "warm.db"), false)
	return s
}

// open opens the warm store at path, and an engine over it.
func (s *site) open(path string, restore bool) {
	s.Helper()
	store, err := sqlite.Open(s.ctx, path, &sqlite.Options{Clock: s.clock.Now, Restore: restore})
	s.no(err)
	s.Cleanup(func() { _ = store.Close() })
	s.path, s.warm = path, store
	s.engine = lifecycle.New(lifecycle.Config{Warm: store, Archive: s.archive, SegmentAge: time.Nanosecond})
}

func (s *site) no(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// tenant is whose documents tests write unless they say otherwise.
const siteTenant = "acme"

func note(id string) tiering.Key {
	return tiering.Key{Tenant: siteTenant, Namespace: "notes", ID: id}
}

func putOf(body string) warm.Row {
	return warm.Row{Op: tiering.OpPut, Body: []byte(body), Digest: tiering.DigestOf([]byte(body)), Query: true}
}

// commit commits one row, which must be done, an instant after the one before.
func (s *site) commit(k tiering.Key, row warm.Row) warm.Head {
	s.Helper()
	s.clock.advance(time.Second)
	r, err := s.warm.Commit(s.ctx, &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{row}}}})
	s.no(err)
	if r[0][0].Status != warm.Done {
		s.Fatalf("%s of %s: status %d", row.Op, k, r[0][0].Status)
	}
	return r[0][0].Head
}

func (s *site) put(k tiering.Key, body string) warm.Head {
	s.Helper()
	return s.commit(k, putOf(body))
}

func (s *site) do(k tiering.Key, op tiering.Op) warm.Head {
	s.Helper()
	return s.commit(k, warm.Row{Op: op})
}

// namespace creates a namespace with its policy, as the router does.
func (s *site) namespace(tenant, name string, p tiering.Policy) {
	s.Helper()
	p = tiering.Policy{Kind: p.Kind, Class: p.Class, TTL: p.TTL, Deleted: p.Deleted}
	full := p.WithDefaults()
	_, err := s.warm.EnsureNamespace(s.ctx, warm.Namespace{Tenant: tenant, Name: name, Kind: full.Kind, Class: full.Class})
	s.no(err)
	body, err := json.Marshal(p)
	s.no(err)
	s.put(tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: name}, string(body))
}

// flush archives everything committed so far.
func (s *site) flush() {
	s.Helper()
	s.no(s.engine.Flush(s.ctx))
}

// objects are the names in a bucket.
func (s *site) objects(b cold.Bucket, prefix string) (names []string) {
	s.Helper()
	for info, err := range b.List(s.ctx, prefix) {
		s.no(err)
		names = append(names, info.Name)
	}
	return names
}

// segments are the names of the usual tenant's finished segments, oldest first.
func (s *site) segments() (names []string) {
	s.Helper()
	all, err := s.warm.Segments(s.ctx, siteTenant, tiering.SegmentFinished, "", 100)
	s.no(err)
	for _, info := range all {
		names = append(names, info.Name)
	}
	return names
}

// rebuild lets the warm store die and rebuilds it from one bucket.
func (s *site) rebuild(o lifecycle.RebuildOptions) *lifecycle.RebuildReport {
	s.Helper()
	report, err := s.tryRebuild(o)
	s.no(err)
	return report
}

func (s *site) tryRebuild(o lifecycle.RebuildOptions) (*lifecycle.RebuildReport, error) {
	s.Helper()
	s.no(s.warm.Close())
	s.open(filepath.Join(s.TempDir(), "warm.db"), true)
	return s.fill(o)
}

// fill rebuilds into the store that is open.
func (s *site) fill(o lifecycle.RebuildOptions) (*lifecycle.RebuildReport, error) {
	o.Archive = s.archive
	if o.Warm == nil {
		o.Warm = s.warm
	}
	if o.Now.IsZero() {
		o.Now = s.clock.Now()
	}
	return lifecycle.Rebuild(s.ctx, o)
}

// snapshot is everything that stands, and every tombstone, as text: what has to
// be the same after a rebuild.
func (s *site) snapshot() map[string]string {
	s.Helper()
	out := map[string]string{}
	var after tiering.Key
	for {
		page, err := s.warm.Walk(s.ctx, after, 100)
		s.no(err)
		if len(page) == 0 {
			return out
		}
		for _, cur := range page {
			after = cur.Head.Key
			full, err := s.warm.Load(s.ctx, after)
			s.no(err)
			h := full.Head
			out[h.Key.Tenant+"/"+h.Key.String()] = fmt.Sprintf("%s v%d.%d %s created %s updated %s expires %s ttl %s user %q pinned %t digest %s",
				h.Op, h.Version, h.Revision, full.Body, h.CreatedAt, h.UpdatedAt, h.ExpiresAt, h.TTL, h.User, h.Pinned, h.Digest)
		}
	}
}

func (s *site) body(k tiering.Key) string {
	s.Helper()
	cur, err := s.warm.Load(s.ctx, k)
	s.no(err)
	return string(cur.Body)
}

// history reads a version from cold, through the locations of the catalog.
func (s *site) history(k tiering.Key, version int64) (string, error) {
	s.Helper()
	locs, err := s.warm.Locations(s.ctx, k)
	s.no(err)
	for _, l := range locs {
		if _, ok := l.Block(version); !ok {
			continue
		}
		rec, _, err := s.archive.Read(s.ctx, l, version)
		if errors.Is(err, tiering.ErrNotFound) {
			continue
		}
		return string(rec.Body), err
	}
	return "", tiering.Errorf(tiering.CodeNotFound, "no location holds version %d", version)
}

// same fails the test for each line that differs.
func (s *site) same(got, want map[string]string) {
	s.Helper()
	for k, w := range want {
		if got[k] != w {
			s.Errorf("%s\n got %s\nwant %s", k, got[k], w)
		}
	}
	for k, g := range got {
		if _, ok := want[k]; !ok {
			s.Errorf("%s should not be there: %s", k, g)
		}
	}
}
