package lifecycle_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

func TestAMergeKeepsEveryByteAndTime(t *testing.T) {
	n := newNode(t, lifecycle.Config{})
	n.policy("notes", tiering.Policy{})
	for i := range 8 {
		for k := range 5 {
			n.put(fmt.Sprint("k", k, "/", i%3))
		}
		switch i {
		case 2:
			n.commit(key("k0/0"), row(tiering.OpPin))
		case 4:
			n.commit(key("k1/0"), warm.Row{Op: tiering.OpTouch, Expiry: warm.Expiry{TTL: &tiering.TTL{Life: time.Hour}}})
		case 5:
			n.del("k2/0")
		}
		n.flush()
	}
	before := n.scan(tiering.Primary)
	var positions []tiering.Range
	for _, s := range n.segments(tiering.SegmentFinished) {
		positions = append(positions, s.Ranges...)
	}

	r := n.gc()
	finished := n.segments(tiering.SegmentFinished)
	if len(finished) != 1 || len(r.Rewritten) != 1 || len(r.Rewritten[0].Sources) != 8 || len(r.Dropped) != 0 {
		t.Fatalf("%d segments are left, the report says %+v", len(finished), r)
	}
	want := []tiering.Range{{From: positions[0].From, To: positions[len(positions)-1].To}}
	if got := finished[0]; !slices.Equal(got.Ranges, want) || got.Verified() != 2 || got.Count != int64(len(before)) {
		t.Errorf("the merged segment is %+v, want ranges %v and %d records", got, want, len(before))
	}
	n.consistent()
	for _, rec := range before {
		if !rec.Op.Versioned() {
			continue
		}
		if got, ok := n.fromCold(rec.Key, rec.Version); !ok || string(got.Body) != string(rec.Body) || !got.At.Equal(rec.At) || got.Pos != rec.Pos {
			t.Errorf("%s version %d is now %+v, %v", rec.Key, rec.Version, got, ok)
		}
	}
	if len(n.objects(tiering.Primary)) != 9 {
		t.Errorf("within the grace period the buckets hold %v", n.objects(tiering.Primary))
	}

	n.pass(time.Hour)
	if r = n.gc(); r.Objects != 16 || r.Bytes == 0 {
		t.Errorf("after the grace period: %+v", r)
	}
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if after := n.scan(c); !same(before, after) {
			t.Errorf("%s held %d records before the merge and %d after, or others", c, len(before), len(after))
		}
	}
	if all := n.segments(""); len(all) != 1 {
		t.Errorf("the catalog still has %d rows", len(all))
	}
}

func TestWhatIsMerged(t *testing.T) {
	seg := func(size int64) tiering.SegmentInfo {
		return tiering.SegmentInfo{Size: size, RawSize: size, Copies: [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}}
	}
	many := func(count int, size int64) (out []tiering.SegmentInfo) {
		for range count {
			out = append(out, seg(size))
		}
		return out
	}
	of := func(segments []tiering.SegmentInfo, records int64) []tiering.SegmentInfo {
		for i := range segments {
			segments[i].Count = records
		}
		return segments
	}
	missing := seg(10)
	missing.Copies[tiering.Backup] = tiering.CopyMissing
	for _, c := range []struct {
		name     string
		segments []tiering.SegmentInfo
		want     []int // sizes of the runs
	}{
		{"too few", many(7, 10), nil},
		{"enough", many(8, 10), []int{8}},
		{"all that lie side by side", many(20, 10), []int{20}},
		{"a large one parts them", slices.Concat(many(7, 10), many(1, 5<<20), many(9, 10)), []int{9}},
		{"one without its backup parts them", slices.Concat(many(7, 10), []tiering.SegmentInfo{missing}, many(8, 10)), []int{8}},
		{"together at most 16 MiB", many(28, 1<<20), []int{16, 12}},
		{"one that outweighs the others waits until they have grown", slices.Concat(many(1, 1<<20), many(7, 10)), nil},
		{"or stays behind", slices.Concat(many(1, 1<<20), many(8, 10)), []int{8}},
		{"at most 256 at once", many(300, 10), []int{256, 44}},
		{"together at most 25,000 records", of(many(20, 10), 2500), []int{10, 10}},
		{"so that few of many records stay as they are", of(many(20, 10), 5000), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []int
			for _, run := range lifecycle.Mergeable(c.segments, 8, 4<<20) {
				got = append(got, len(run))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("merges %v, want %v", got, c.want)
			}
		})
	}
}

func TestTenantsAreNotMerged(t *testing.T) {
	n := newNode(t, lifecycle.Config{MergeCount: 3})
	n.policy("notes", tiering.Policy{})
	_, err := n.store.EnsureNamespace(n.ctx, warm.Namespace{Tenant: "globex", Name: "notes", Kind: tiering.KindState, Class: tiering.ClassPersistent})
	n.no(err)
	for range 3 {
		n.put("k")
		n.commit(tiering.Key{Tenant: "globex", Namespace: "notes", ID: "k"}, put([]byte(`{}`)))
		n.flush()
	}
	n.gc()
	var tenants []string
	for _, s := range n.segments(tiering.SegmentFinished) {
		tenants = append(tenants, s.Tenant)
	}
	slices.Sort(tenants)
	if fmt.Sprint(tenants) != "[acme globex]" {
		t.Errorf("segments of %v are left", tenants)
	}
	n.consistent()
}

// Bytes are written about as often as segments double, however they trickle in.
func TestBytesAreNotRewrittenOverAndOver(t *testing.T) {
	n := newNode(t, lifecycle.Config{Grace: time.Second})
	n.policy("notes", tiering.Policy{})
	var written, last int64
	const segments = 120
	for i := range segments {
		n.put(fmt.Sprint("k", i))
		n.flush()
		r := n.gc()
		for _, w := range r.Rewritten {
			written += w.After
		}
		last = n.segments(tiering.SegmentFinished)[0].Size
	}
	var total int64
	left := n.segments(tiering.SegmentFinished)
	for _, s := range left {
		total += s.Size
	}
	t.Logf("%d segments became %d; %d bytes are kept, %d were written by merges, the first is of %d", segments, len(left), total, written, last)
	if written > 8*total {
		t.Errorf("merges wrote %d bytes for %d that are kept", written, total)
	}
	if len(left) > 20 {
		t.Errorf("%d segments are left of %d", len(left), segments)
	}
}

func TestAMergeReadsTheCopyThatIsSound(t *testing.T) {
	n := newNode(t, lifecycle.Config{MergeCount: 2})
	n.policy("notes", tiering.Policy{})
	n.put("a")
	n.flush()
	n.put("b")
	n.flush()
	before := n.scan(tiering.Backup)
	for i, name := range n.objects(tiering.Primary) {
		data, err := n.memory[tiering.Primary].Read(n.ctx, name, 0, -1)
		n.no(err)
		data[len(data)/(i+2)] ^= 1
		n.memory[tiering.Primary].Replace(name, data)
	}
	if r := n.gc(); len(r.Rewritten) != 1 {
		t.Fatalf("not merged: %+v", r)
	}
	n.pass(2 * time.Hour)
	n.gc()
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if !same(before, n.scan(c)) {
			t.Errorf("%s does not hold what the sound copy held", c)
		}
	}
}

// A segment that no copy can serve waits alone, and does not keep the others
// from being merged; one that keeps failing shows as parked.
func TestADamagedSegmentWaitsAlone(t *testing.T) {
	damaged := func(t *testing.T, segments int) (*node, string) {
		n := newNode(t, lifecycle.Config{MergeCount: 2})
		n.policy("notes", tiering.Policy{})
		for i := range segments {
			n.put(fmt.Sprint("k", i))
			n.flush()
		}
		bad := n.objects(tiering.Primary)[1]
		for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
			data, err := n.memory[c].Read(n.ctx, bad, 0, -1)
			n.no(err)
			data[len(data)/2] ^= 1
			n.memory[c].Replace(bad, data)
		}
		return n, bad
	}
	t.Run("the others are merged", func(t *testing.T) {
		n, bad := damaged(t, 5)
		r := n.gc()
		if len(r.Left) != 1 || r.Left[0].Segment != bad || len(r.Rewritten) != 1 || len(r.Rewritten[0].Sources) != 4 {
			t.Errorf("the report says %+v", r)
		}
		s, ok, err := n.store.Segment(n.ctx, bad)
		n.no(err)
		if !ok || s.State != tiering.SegmentFinished {
			t.Errorf("the damaged segment is %+v, %v", s, ok)
		}
	})
	t.Run("it is tried again ever more rarely", func(t *testing.T) {
		n, bad := damaged(t, 2)
		tries := 0
		for range 12 * 24 {
			before := n.buckets[tiering.Primary].Calls(coldtest.Read)
			_, err := n.engine.MergeOnce(n.ctx)
			n.no(err)
			if n.buckets[tiering.Primary].Calls(coldtest.Read) > before {
				tries++
			}
			n.pass(5 * time.Minute)
		}
		if tries < 8 || tries > 16 {
			t.Errorf("it was tried %d times in a day", tries)
		}
		parked := n.engine.Parked(n.ctx)
		if len(parked) != 1 || parked[0].Move != "merge" || parked[0].Subject != bad {
			t.Errorf("parked: %+v", parked)
		}
	})
}

// A bucket that fails never costs the only copy, and what was begun is mended
// when it is back.
func TestAFailingBucketLosesNothing(t *testing.T) {
	down := errors.New("connection refused")
	for _, call := range []coldtest.Call{coldtest.Create, coldtest.Stat, coldtest.Read, coldtest.Delete} {
		for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
			t.Run(fmt.Sprint(call, " of ", c), func(t *testing.T) {
				n := newNode(t, lifecycle.Config{MergeCount: 2})
				n.policy("notes", tiering.Policy{})
				for i := range 4 {
					n.put(fmt.Sprint("k", i))
					n.flush()
				}
				before := n.scan(tiering.Primary)
				n.buckets[c].Inject(coldtest.Fault{Call: call, Before: down})
				for range 4 {
					_, err := n.engine.MergeOnce(n.ctx)
					if err != nil && !errors.Is(err, down) {
						t.Fatal(err)
					}
					n.consistent()
					n.pass(2 * time.Hour)
				}
				n.buckets[c].Clear()
				for range 2 {
					n.gc()
					n.pass(2 * time.Hour)
				}
				n.gc()
				for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
					if !same(before, n.scan(c)) {
						t.Errorf("%s does not hold what it held", c)
					}
				}
				if got := n.segments(""); len(got) != 1 || len(n.objects(c)) != 1 {
					t.Errorf("%d rows and %d objects are left, want one merged segment", len(got), len(n.objects(c)))
				}
			})
		}
	}
}

// A merge under a lease that went to another daemon changes nothing.
func TestAPausedMergerIsFenced(t *testing.T) {
	n := newNode(t, lifecycle.Config{MergeCount: 2, Holder: "a", LeaseTTL: time.Minute})
	n.policy("notes", tiering.Policy{})
	for i := range 2 {
		n.put(fmt.Sprint("k", i))
		n.flush()
	}
	reached, gate := make(chan struct{}), make(chan struct{})
	n.buckets[tiering.Backup].Inject(coldtest.Fault{Call: coldtest.Create, Times: 1, Reached: reached, Gate: gate})
	paused := make(chan lifecycle.GCReport, 1)
	first := n.engine
	go func() {
		r, _ := first.GC(n.ctx, false)
		paused <- r
	}()
	<-reached
	n.config.Holder = "b"
	n.restart()
	n.pass(2 * time.Minute)
	if r := n.gc(); len(r.Rewritten) != 1 {
		t.Fatalf("the successor: %+v", r)
	}
	close(gate)
	if r := <-paused; len(r.Rewritten) > 0 || len(r.Left) == 0 {
		t.Errorf("the paused one: %+v", r)
	}
	n.consistent()
	if got := n.segments(tiering.SegmentFinished); len(got) != 1 {
		t.Errorf("%d segments are finished", len(got))
	}
	n.pass(2 * time.Hour)
	n.gc()
	if got := n.objects(tiering.Backup); len(got) != 1 {
		t.Errorf("the paused upload is left: %v", got)
	}
}

// Archiver and merger sweep their own intents and leave those of the other.
func TestIntentsHaveOwners(t *testing.T) {
	n := newNode(t, lifecycle.Config{MergeCount: 2})
	n.policy("notes", tiering.Policy{})
	for i, owner := range []string{"archive", "merge", "erase"} {
		n.no(n.store.StartSegment(n.ctx, tiering.SegmentInfo{Name: fmt.Sprintf("seg/0%d-1.tseg", i), Tenant: tenant, Owner: owner, Token: 1}))
	}
	states := func() (out []string) {
		for _, name := range []string{"seg/00-1.tseg", "seg/01-1.tseg", "seg/02-1.tseg"} {
			s, _, err := n.store.Segment(n.ctx, name)
			n.no(err)
			out = append(out, string(s.State))
		}
		return out
	}
	n.put("k")
	n.flush()
	if got := fmt.Sprint(states()); got != "[deleting started started]" {
		t.Errorf("after the archiver: %s", got)
	}
	n.gc()
	if got := fmt.Sprint(states()); got != "[deleting deleting started]" {
		t.Errorf("after the merger: %s", got)
	}
}

// What was erased does not come back by a merge, whichever came first.
func TestAMergeDoesNotBringBackWhatWasErased(t *testing.T) {
	prepare := func(t *testing.T) *node {
		n := newNode(t, lifecycle.Config{MergeCount: 2})
		n.policy("notes", tiering.Policy{})
		n.put("ada")
		n.flush()
		n.put("bob")
		n.flush()
		return n
	}
	erase := func(n *node) {
		n.no(n.store.StartErase(n.ctx, warm.Erasure{ID: "01", Selector: warm.Selector{Tenant: tenant, Namespace: "notes", ID: "ada"}, Started: n.clock()}))
		for more := true; more; {
			var err error
			_, more, err = n.store.EraseKeys(n.ctx, "01", 10)
			n.no(err)
		}
	}
	gone := func(n *node) {
		n.Helper()
		locs, err := n.store.Locations(n.ctx, key("ada"))
		n.no(err)
		if len(locs) > 0 {
			n.Errorf("it lies in %v again", locs)
		}
	}
	t.Run("an erasure under way keeps its tenant from being merged", func(t *testing.T) {
		n := prepare(t)
		erase(n)
		if r := n.gc(); len(r.Rewritten) > 0 {
			t.Errorf("merged: %+v", r.Rewritten)
		}
		gone(n)
	})
	t.Run("what the catalog does not list of a segment stays unlisted", func(t *testing.T) {
		n := prepare(t)
		erase(n)
		for _, s := range n.segments("") {
			n.no(n.store.CleanSegment(n.ctx, "01", s.Name))
		}
		_, err := n.store.FinishErase(n.ctx, "01")
		n.no(err)
		if r := n.gc(); len(r.Rewritten) != 1 || len(r.Left) > 0 || len(n.engine.Parked(n.ctx)) > 0 {
			t.Errorf("%+v", r)
		}
		if _, ok := n.fromCold(key("ada"), 1); ok {
			t.Error("it can be read again")
		}
		if _, ok := n.fromCold(key("bob"), 1); !ok {
			t.Error("what lies beside it can not")
		}
	})
	t.Run("an erasure that comes while the merge uploads makes it fail", func(t *testing.T) {
		n := prepare(t)
		reached, gate := make(chan struct{}), make(chan struct{})
		n.buckets[tiering.Primary].Inject(coldtest.Fault{Call: coldtest.Create, Times: 1, Reached: reached, Gate: gate})
		merged := make(chan lifecycle.GCReport, 1)
		go func() {
			r, _ := n.engine.GC(n.ctx, false)
			merged <- r
		}()
		<-reached
		erase(n)
		close(gate)
		if r := <-merged; len(r.Rewritten) > 0 || len(r.Left) == 0 {
			t.Errorf("the merge went through: %+v", r)
		}
		gone(n)
	})
}
