package lifecycle_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// merged is a node whose eight segments became one, their grace period over.
func merged(t *testing.T, c lifecycle.Config) *node {
	n := newNode(t, c)
	n.policy("notes", tiering.Policy{})
	for i := range 8 {
		n.put(fmt.Sprint("k", i))
		n.flush()
	}
	n.gc()
	n.pass(time.Hour)
	return n
}

func TestAListingThatFailsEndsTheRunBeforeItDeletes(t *testing.T) {
	down := errors.New("connection reset")
	for _, f := range []struct {
		name  string
		fault coldtest.Fault
	}{
		{"at once", coldtest.Fault{Call: coldtest.List, Before: down}},
		{"half way", coldtest.Fault{Call: coldtest.List, After: down}},
	} {
		for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
			t.Run(fmt.Sprint(f.name, " ", c), func(t *testing.T) {
				n := merged(t, lifecycle.Config{})
				before := [2][]string{n.objects(0), n.objects(1)}
				n.buckets[c].Inject(f.fault)
				if _, err := n.engine.GC(n.ctx, false); !errors.Is(err, down) {
					t.Fatalf("the run: %v", err)
				}
				if after := [2][]string{n.objects(0), n.objects(1)}; !reflect.DeepEqual(before, after) {
					t.Errorf("objects went from %v to %v", before, after)
				}
				n.buckets[c].Clear()
				if r := n.gc(); r.Objects != 16 {
					t.Errorf("when it is back: %+v", r)
				}
			})
		}
	}
}

func TestARunDeletesNoMoreThanItsCap(t *testing.T) {
	n := merged(t, lifecycle.Config{CollectCap: 6})
	var deleted []int64
	for range 4 {
		n.restart() // what is left to do is in the catalog
		deleted = append(deleted, n.gc().Objects)
	}
	if fmt.Sprint(deleted) != "[6 6 4 0]" {
		t.Errorf("the runs deleted %v objects", deleted)
	}
	n.consistent()
}

func TestTheGracePeriodOutlivesARestart(t *testing.T) {
	n := newNode(t, lifecycle.Config{MergeCount: 2, Grace: 3 * time.Hour})
	n.policy("notes", tiering.Policy{})
	for i := range 2 {
		n.put(fmt.Sprint("k", i))
		n.flush()
	}
	n.gc()
	for range 3 {
		n.restart()
		n.pass(59 * time.Minute)
		if r := n.gc(); r.Objects != 0 || r.Waiting != 2 || r.WaitingBytes == 0 {
			t.Fatalf("within the grace period: %+v", r)
		}
	}
	n.pass(3 * time.Minute)
	if r := n.gc(); r.Objects != 4 {
		t.Errorf("after it: %+v", r)
	}
}

func TestNothingIsCollectedWhileTheClockIsNotTrusted(t *testing.T) {
	n := merged(t, lifecycle.Config{})
	n.tick(300 * day)
	before := n.objects(tiering.Primary)
	r, err := n.engine.GC(n.ctx, false)
	n.no(err)
	if _, err := n.engine.MergeOnce(n.ctx); err != nil {
		t.Fatal(err)
	}
	if r.Blocked == "" || !slices.Equal(before, n.objects(tiering.Primary)) {
		t.Errorf("the run said %+v", r)
	}
	n.no(n.engine.ConfirmClock(n.ctx))
	if r := n.gc(); r.Objects == 0 {
		t.Errorf("after it was confirmed: %+v", r)
	}
}

func TestADryRunChangesNothingAndSaysWhatARunDoes(t *testing.T) {
	n := merged(t, lifecycle.Config{})
	n.policy("notes", tenDays)
	for range 6 {
		n.put("k0")
	}
	n.put("gone")
	n.del("gone")
	n.flush()
	n.pass(2 * time.Hour)
	n.sweep()
	n.pass(8 * day)
	r, err := n.engine.GC(n.ctx, true)
	n.no(err)
	if len(r.Dropped) != 0 || r.NextVersions != 7 {
		t.Errorf("before anything is due it says %+v, want 7 versions due next", r)
	}
	n.pass(3 * day)
	n.stranger(tiering.Backup, n.archive.Name(n.clock().Add(-48*time.Hour), 1), n.epoch(), nil)

	state := func() any {
		return []any{n.segments(""), n.objects(tiering.Primary), n.objects(tiering.Backup), n.scan(tiering.Primary), n.engine.Parked(n.ctx)}
	}
	before := state()
	dry, err := n.engine.GC(n.ctx, true)
	n.no(err)
	if !reflect.DeepEqual(before, state()) {
		t.Error("a dry run changed something")
	}
	ran := n.gc()
	if !dry.DryRun || ran.DryRun {
		t.Error("a report does not say which it is")
	}
	if want := map[string]int64{"history": 5, "deleted": 1}; !reflect.DeepEqual(dry.Dropped, want) || !reflect.DeepEqual(ran.Dropped, want) {
		t.Errorf("a dry run would drop %v, a run dropped %v, want %v", dry.Dropped, ran.Dropped, want)
	}
	if dry.Objects != ran.Objects || dry.Bytes != ran.Bytes || ran.Objects != 17 || !reflect.DeepEqual(dry.Strangers, ran.Strangers) {
		t.Errorf("a dry run says\n%+v\na run did\n%+v", dry, ran)
	}
	for i := range ran.Rewritten { // what a dry run cannot know
		ran.Rewritten[i].Into, ran.Rewritten[i].After = "", 0
	}
	if len(ran.Rewritten) != 2 || !reflect.DeepEqual(dry.Rewritten, ran.Rewritten) {
		t.Errorf("a dry run would rewrite\n%+v\na run rewrote\n%+v", dry.Rewritten, ran.Rewritten)
	}
}

func (n *node) epoch() string {
	n.Helper()
	e, err := n.store.Epoch(n.ctx)
	n.no(err)
	return e
}

func TestStrangers(t *testing.T) {
	old := 48 * time.Hour
	for _, c := range []struct {
		name string
		make func(n *node) (object string)
		kept string // why, "" when it is deleted
	}{
		{"left over, covered by segments that are known", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-old), 3)
			for c := range n.memory {
				n.stranger(tiering.Copy(c), name, n.epoch(), nil, tiering.Range{From: 1, To: 2})
			}
			return name
		}, ""},
		{"in one bucket alone", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-old), 3)
			n.stranger(tiering.Backup, name, n.epoch(), nil, tiering.Range{From: 1, To: 2})
			return name
		}, ""},
		{"the marker of an erase", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-old), 3)
			n.no(errors.Join(n.archive.Occupy(n.ctx, tiering.Primary, name), n.archive.Occupy(n.ctx, tiering.Backup, name)))
			return name
		}, ""},
		{"young by its name", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-23*time.Hour), 3)
			n.stranger(tiering.Primary, name, n.epoch(), nil, tiering.Range{From: 1, To: 2})
			return name
		}, "it is younger than 24h0m0s"},
		{"young by its bucket", func(n *node) string {
			n.mu.Lock()
			n.now = time.Now().UTC() // the clock that a bucket in memory goes by
			n.mu.Unlock()
			n.no(n.engine.ConfirmClock(n.ctx))
			name := n.archive.Name(n.clock().Add(-old), 3)
			n.stranger(tiering.Primary, name, n.epoch(), nil, tiering.Range{From: 1, To: 2})
			return name
		}, "it is younger than 24h0m0s"},
		{"of another life of the store", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-old), 3)
			n.stranger(tiering.Primary, name, "01ANOTHERLIFE", nil, tiering.Range{From: 1, To: 2})
			return name
		}, "it is of another life of the store, 01ANOTHERLIFE"},
		{"that covers what no segment does", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-old), 3)
			n.stranger(tiering.Primary, name, n.epoch(), nil, tiering.Range{From: 1, To: 900})
			return name
		}, "it covers changes that no segment of the catalog does: was the store set back?"},
		{"that cannot be read", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-old), 3)
			n.memory[tiering.Primary].Replace(name, []byte("half an obj"))
			return name
		}, "it cannot be read"},
		{"of somebody else", func(n *node) string {
			n.memory[tiering.Primary].Replace("seg/readme.txt", []byte("keep me"))
			return "seg/readme.txt"
		}, "tierd did not make it"},
		{"that an open intent names", func(n *node) string {
			name := n.archive.Name(n.clock().Add(-old), 3)
			n.no(n.store.StartSegment(n.ctx, tiering.SegmentInfo{Name: name, Tenant: tenant, Owner: "erase", Token: 3}))
			n.stranger(tiering.Primary, name, n.epoch(), nil, tiering.Range{From: 1, To: 2})
			return name
		}, "no stranger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, lifecycle.Config{})
			n.policy("notes", tiering.Policy{})
			n.put("k")
			n.flush()
			name := c.make(n)
			r := n.gc()
			there := slices.Contains(n.objects(tiering.Primary), name) || slices.Contains(n.objects(tiering.Backup), name)
			if there != (c.kept != "") {
				t.Errorf("it is there: %v", there)
			}
			said := "no stranger"
			for _, s := range r.Strangers {
				if s.Name == name {
					said = s.Kept
				}
			}
			if said != c.kept || len(r.Strangers) > 1 {
				t.Errorf("the report says %q (%+v), want %q", said, r.Strangers, c.kept)
			}
			n.consistent()
		})
	}
}

func TestGCWhileAnotherDaemonMerges(t *testing.T) {
	n := newNode(t, lifecycle.Config{Holder: "a"})
	if _, ok, err := n.store.Acquire(n.ctx, lifecycle.MergeLease, "b", time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := n.engine.GC(n.ctx, false); tiering.CodeOf(err) != tiering.CodeLeaseHeld {
		t.Errorf("a run: %v, want lease_held", err)
	}
	if _, err := n.engine.GC(n.ctx, true); err != nil {
		t.Errorf("a dry run: %v", err)
	}
}

// A collection lists objects, and works for minutes. An erase that meets a stranger
// meanwhile occupies its name, so that nothing lands there that is still on its way: the
// collection must leave that marker, whatever it is about to do.
func TestACollectionLeavesAMarkerThatWasJustMade(t *testing.T) {
	large := make([]byte, 8<<10)
	rand.NewChaCha8([32]byte{}).Read(large)
	for _, c := range []struct {
		name    string
		records []cold.Record
		call    coldtest.Call // where the collection is when the marker is made
	}{
		{"before it looks", nil, coldtest.Read},
		{"when it has looked", []cold.Record{{Key: key("k"), Op: tiering.OpPut, Version: 1, Body: large, Digest: tiering.DigestOf(large)}}, coldtest.Delete},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, lifecycle.Config{})
			n.policy("notes", tiering.Policy{})
			name := n.archive.Name(n.clock().Add(-48*time.Hour), 1)
			for _, copied := range []tiering.Copy{tiering.Primary, tiering.Backup} {
				n.stranger(copied, name, n.epoch(), c.records)
			}
			reached, gate := make(chan struct{}), make(chan struct{})
			n.buckets[tiering.Primary].Inject(coldtest.Fault{Call: c.call, Name: name, Times: 1, Reached: reached, Gate: gate})
			done := make(chan error, 1)
			go func() {
				_, err := n.engine.GC(n.ctx, false)
				done <- err
			}()
			<-reached
			errs := n.archive.OccupyBoth(n.ctx, name)
			n.no(errors.Join(errs[0], errs[1]))
			close(gate)
			n.no(<-done)
			for _, copied := range []tiering.Copy{tiering.Primary, tiering.Backup} {
				if !slices.Contains(n.names(copied), name) || slices.Contains(n.objects(copied), name) {
					t.Errorf("the marker is gone from %s", copied)
				}
			}
			n.pass(25 * time.Hour)
			n.gc()
			if left := append(n.names(tiering.Primary), n.names(tiering.Backup)...); slices.Contains(left, name) {
				t.Errorf("a day later there is %v", left)
			}
		})
	}
}
