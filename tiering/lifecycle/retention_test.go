package lifecycle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// tenDays keeps history for ten days, and two versions whatever their age.
var tenDays = tiering.Policy{KeepFor: tiering.Duration(10 * day), KeepVersions: 2, RetireAfter: tiering.Duration(time.Hour)}

func TestWhatRetentionKeepsInCold(t *testing.T) {
	k := key("k")
	touch := warm.Row{Op: tiering.OpTouch, Expiry: warm.Expiry{TTL: &tiering.TTL{Life: 1000 * day}}}
	puts := func(count int) func(*node) {
		return func(n *node) {
			for range count {
				n.put("k")
			}
		}
	}
	session := tenDays
	session.Class, session.TTL = tiering.ClassSession, tiering.Duration(time.Hour)
	for _, c := range []struct {
		name   string
		policy tiering.Policy
		do     func(n *node)
		wait   time.Duration
		want   string
	}{
		{"nothing before keep_for has passed", tenDays, puts(5), 9 * day, "put1 put2 put3 put4 put5"},
		{"after it the newest keep_versions behind the head", tenDays, puts(5), 11 * day, "put4 put5"},
		{"keep_for counts from when a version was superseded", tenDays, func(n *node) {
			puts(3)(n)
			n.pass(20 * day)
			n.put("k")
		}, 5 * day, "put3 put4"},
		{"a pinned key keeps all", tenDays, func(n *node) {
			puts(5)(n)
			n.commit(k, row(tiering.OpPin))
		}, 11 * day, "put1 put2 put3 put4 put5 pin5"},
		{"until it is unpinned", tenDays, func(n *node) {
			puts(5)(n)
			n.commit(k, row(tiering.OpPin))
			n.commit(k, row(tiering.OpUnpin))
		}, 11 * day, "put4 put5 pin5 unpin5"},
		{"touches go with their version", tenDays, func(n *node) {
			for range 3 {
				n.put("k")
				n.commit(k, touch)
				n.flush()
			}
		}, 11 * day, "put2 touch2 put3 touch3"},
		{"a touch of the current version stays, wherever that lies", tenDays, func(n *node) {
			n.put("k")
			n.flush()
			n.commit(k, touch)
		}, 11 * day, "put1 touch1"},
		{"versions are counted, not subtracted", tenDays, func(n *node) {
			puts(2)(n)
			n.no(n.store.RaiseFloor(n.ctx, tenant, "notes", 1000))
			n.put("k")
		}, 11 * day, "put2 put1001"},
		{"a deleted key is covered by keep_for", tenDays, func(n *node) {
			puts(2)(n)
			n.del("k")
		}, 9 * day, "put1 put2 delete3"},
		{"and by nothing else", tenDays, func(n *node) {
			puts(2)(n)
			n.del("k")
		}, 11 * day, ""},
		{"a deletion of what was made again is history like any other", tenDays, func(n *node) {
			n.put("k")
			n.del("k")
			puts(2)(n)
		}, 11 * day, "put3 put4"},
		{"a session is kept for keep_for after its life", session, func(n *node) {
			n.tick(time.Second)
			r := put([]byte(`{}`))
			r.Expiry = warm.Expiry{New: time.Hour}
			n.commit(k, r)
			n.pass(2 * time.Hour)
			n.sweep()
		}, 9 * day, "put1 expire2"},
		{"and then collected", session, func(n *node) {
			n.tick(time.Second)
			r := put([]byte(`{}`))
			r.Expiry = warm.Expiry{New: time.Hour}
			n.commit(k, r)
			n.pass(2 * time.Hour)
			n.sweep()
		}, 11 * day, ""},
		{"versions in many segments go oldest first", tenDays, func(n *node) {
			for range 6 {
				n.put("k")
				n.flush()
			}
		}, 11 * day, "put5 put6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, lifecycle.Config{})
			n.policy("notes", c.policy)
			c.do(n)
			n.flush()
			n.pass(2 * time.Hour)
			n.sweep()
			n.pass(c.wait)
			n.settle()
			if got := n.records(k); got != c.want {
				t.Errorf("cold holds %q, want %q", got, c.want)
			}
			n.consistent()
		})
	}
}

// Otherwise a reader asking for the version that stood at some time would be
// given an older one.
func TestVersionsLeaveOldestFirst(t *testing.T) {
	n := newNode(t, lifecycle.Config{})
	n.policy("notes", tenDays)
	for range 5 {
		n.put("k")
		n.flush()
	}
	n.pass(2 * time.Hour)
	n.sweep()
	// The segment of version 2 waits for its backup, and is not rewritten.
	waits := n.segments(tiering.SegmentFinished)[1].Name
	n.no(n.store.SetCopy(n.ctx, waits, tiering.Backup, tiering.CopyMissing))
	n.pass(11 * day)
	n.settle()
	if got := n.records(key("k")); got != "put2 put3 put4 put5" {
		t.Errorf("cold holds %q, want all from version 2 on", got)
	}
	n.no(n.store.SetCopy(n.ctx, waits, tiering.Backup, tiering.CopyVerified))
	n.settle()
	if got := n.records(key("k")); got != "put4 put5" {
		t.Errorf("when it is rewritten cold holds %q", got)
	}
}

func TestAVersionThatWarmStillHoldsStaysInCold(t *testing.T) {
	n := newNode(t, lifecycle.Config{})
	n.policy("notes", tenDays)
	for range 5 {
		n.put("k")
	}
	n.flush()
	n.pass(20 * day)
	n.gc() // without a sweep before it nothing has left warm
	n.pass(2 * time.Hour)
	n.gc()
	if got := n.records(key("k")); got != "put1 put2 put3 put4 put5" {
		t.Errorf("cold holds %q", got)
	}
}

func TestAKeyThatLeftColdLeavesWarm(t *testing.T) {
	n := newNode(t, lifecycle.Config{})
	n.policy("notes", tenDays)
	n.put("k")
	n.del("k")
	n.put("other")
	n.flush()
	n.pass(11 * day)
	n.settle()
	n.sweep()
	cur, err := n.store.Head(n.ctx, key("k"))
	n.no(err)
	if cur.Head.Version != 0 {
		t.Errorf("the tombstone is still there: %+v", cur.Head)
	}
	if h := n.put("k"); h.Version <= 2 {
		t.Errorf("the key came back as version %d", h.Version)
	}
}

// resurrected returns the keys that are deleted, and that a rebuild from some
// bucket would find alive.
func (n *node) resurrected() (out []string) {
	n.Helper()
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		for k, r := range n.rebuilt(c) {
			cur, err := n.store.Head(n.ctx, k)
			n.no(err)
			if r.Op == tiering.OpPut && (cur.Head.Version == 0 || cur.Head.Op.Deleting()) {
				out = append(out, k.String())
			}
		}
	}
	return out
}

// A deletion is dropped only when nothing older of its key is left in
// either bucket, whatever state the object is in that holds it.
func TestRaceR36ADeletedKeyNeverComesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		// leave arranges that an older record of the key stays in some object
		// while its deletion is due.
		leave func(n *node)
		// stays: the older record cannot be collected, so the deletion stays too.
		stays bool
		// places are where it is run besides the embedded tiers.
		places []place
	}{
		{"the older version lies in the same segment", func(n *node) {
			n.put("k")
			n.del("k")
			n.flush()
		}, false, nil},
		{"in another one", func(n *node) {
			n.put("k")
			n.flush()
			n.del("k")
			n.flush()
		}, false, []place{servers}},
		{"in one that cannot be read", func(n *node) {
			n.put("k")
			n.flush()
			n.del("k")
			n.flush()
			n.buckets[tiering.Primary].Inject(coldtest.Fault{Call: coldtest.Read, Name: n.objects(tiering.Primary)[0], Flip: true, FlipAt: 40})
			n.buckets[tiering.Backup].Inject(coldtest.Fault{Call: coldtest.Read, Name: n.objects(tiering.Primary)[0], Flip: true, FlipAt: 40})
		}, true, nil},
		{"in an object that is merged with that of the deletion, and cannot be deleted", func(n *node) {
			n.put("k")
			n.flush()
			bad := n.objects(tiering.Primary)[0]
			n.del("k")
			n.flush()
			for i := range 6 { // so that there is enough to merge at once
				n.put(fmt.Sprint("other", i))
				n.flush()
			}
			for _, b := range n.buckets {
				b.Inject(coldtest.Fault{Call: coldtest.Delete, Name: bad, Before: errors.New("access denied")})
			}
		}, true, nil},
		{"in a stranger", func(n *node) {
			n.put("k")
			n.flush()
			n.stranger(tiering.Backup, n.archive.Name(n.clock(), 77), "01ANOTHERLIFE", n.scan(tiering.Primary))
			n.del("k")
			n.flush()
		}, true, nil},
		{"as a touch alone", func(n *node) {
			n.put("k")
			n.flush()
			touched := n.commit(key("k"), warm.Row{Op: tiering.OpTouch, Expiry: warm.Expiry{TTL: &tiering.TTL{Life: 1000 * day}}})
			if touched.Revision != 1 {
				n.Fatalf("%+v", touched)
			}
			n.flush()
			n.del("k")
			n.flush()
		}, false, nil},
	} {
		inPlaces(t, c.name, append(c.places, embedded), func(t *testing.T, p place) {
			n := newNodeAt(t, p, lifecycle.Config{})
			n.policy("notes", tenDays)
			c.leave(n)
			n.pass(2 * time.Hour)
			n.sweep()
			n.pass(11 * day)
			for range 12 {
				if _, err := n.engine.GC(n.ctx, false); err != nil && !strings.Contains(err.Error(), "access denied") {
					t.Fatal(err)
				}
				n.sweep()
				if got := n.resurrected(); len(got) > 0 {
					t.Fatalf("a rebuild brings back %v", got)
				}
				n.pass(20 * time.Minute)
			}
			left := n.rebuilt(tiering.Primary)[key("k")]
			if c.stays && left.Op != tiering.OpDelete {
				t.Errorf("of the key %v is left, want its deletion", left.Op)
			}
			if !c.stays && left.Version != 0 {
				t.Errorf("of the key %v is left, want nothing", left.Op)
			}
		})
	}
}

// stranger puts an object into one bucket that the catalog does not know.
func (n *node) stranger(c tiering.Copy, name, epoch string, records []cold.Record, covers ...tiering.Range) {
	n.Helper()
	enc, err := cold.Encode(tenant, covers, records, &cold.EncodeOptions{Epoch: epoch})
	n.no(err)
	n.memory[c].Replace(name, enc.Data)
}

// The check above is worth something: a merge that drops deletions by their age
// alone fails it.
func TestRaceR36DroppingDeletionsByAgeBringsKeysBack(t *testing.T) {
	inPlaces(t, "by age", places(), func(t *testing.T, p place) { dropByAge(newNodeAt(t, p, lifecycle.Config{})) })
}

func dropByAge(n *node) {
	n.policy("notes", tenDays)
	n.put("k")
	n.flush()
	n.del("k")
	n.flush()
	n.pass(11 * day)
	epoch, err := n.store.Epoch(n.ctx)
	n.no(err)
	for _, s := range n.segments(tiering.SegmentFinished) {
		seg, err := n.archive.OpenObject(n.ctx, tiering.Primary, s.Name)
		n.no(err)
		var kept []cold.Record
		deletion := false
		for r, err := range seg.Records() {
			n.no(err)
			if r.Op.Deleting() && n.clock().Sub(r.At) > 10*day {
				deletion = true
				continue
			}
			kept = append(kept, r)
		}
		if !deletion {
			continue
		}
		for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
			n.stranger(c, n.archive.Name(n.clock(), 1), epoch, kept, s.Ranges...)
			n.no(n.memory[c].Delete(n.ctx, s.Name))
		}
	}
	if got := n.resurrected(); len(got) != 2 {
		n.Errorf("a rebuild brings back %v, want k from both buckets: the check sees nothing", got)
	}
}

// TestWhatBecomesKeptWhileACollectionRunsIsKept: what covers a version is acknowledged
// while a segment without it is being written; neither that segment nor one that comes
// later in the run lets it go.
func TestWhatBecomesKeptWhileACollectionRunsIsKept(t *testing.T) {
	generous := tenDays
	generous.KeepFor = tiering.Duration(1000 * day)
	many := tenDays
	many.KeepVersions = 100
	for _, c := range []struct {
		name   string
		change func(n *node)
		want   string
	}{
		{"nothing changes", func(*node) {}, "put4 put5"},
		{"a longer keep_for", func(n *node) { n.policy("notes", generous) }, "put1 put2 put3 put4 put5"},
		{"more keep_versions", func(n *node) { n.policy("notes", many) }, "put1 put2 put3 put4 put5"},
		{"pins", func(n *node) {
			n.commit(key("a"), row(tiering.OpPin))
			n.commit(key("b"), row(tiering.OpPin))
		}, "put1 put2 put3 put4 put5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, lifecycle.Config{})
			n.policy("notes", tenDays)
			for _, id := range []string{"a", "b"} {
				for range 5 {
					n.put(id)
				}
				n.flush()
			}
			n.pass(11 * day)
			n.sweep() // out of warm
			reached, gate := make(chan struct{}), make(chan struct{})
			n.buckets[tiering.Primary].Inject(coldtest.Fault{Call: coldtest.Create, Times: 1, Reached: reached, Gate: gate})
			done := make(chan error, 1)
			go func() {
				_, err := n.engine.GC(n.ctx, false)
				done <- err
			}()
			<-reached
			c.change(n)
			close(gate)
			n.no(<-done)
			n.pass(2 * time.Hour)
			n.gc() // takes what was replaced
			for _, id := range []string{"a", "b"} {
				if got := n.records(key(id)); got != c.want {
					t.Errorf("%s has %s, want %s", id, got, c.want)
				}
			}
			n.consistent()
		})
	}
}
