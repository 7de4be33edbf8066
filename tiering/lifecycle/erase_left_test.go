package lifecycle_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// What an erase that died, or an earlier life of the store, left behind.

// holds lists the bodies that the objects of a bucket hold, whoever knows of
// the objects.
func (s *site) holds(b cold.Bucket) (bodies []string) {
	s.Helper()
	for _, name := range s.objects(b, cold.SegmentPrefix) {
		data, err := b.Read(s.ctx, name, 0, -1)
		s.no(err)
		seg, err := cold.OpenSegment(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue
		}
		for r, err := range seg.Records() {
			s.no(err)
			if r.Key.Namespace == "notes" {
				bodies = append(bodies, fmt.Sprintf("%s%d %s", r.Op, r.Version, r.Body))
			}
		}
	}
	slices.Sort(bodies)
	return slices.Compact(bodies)
}

func (s *site) bothHold(want ...string) {
	s.Helper()
	for c, b := range []cold.Bucket{s.primary, s.backup} {
		if got := s.holds(b); !slices.Equal(got, want) {
			s.Errorf("%s holds %q, want %q", tiering.Copy(c), got, want)
		}
	}
}

func (s *site) owned(id, user, body string) warm.Head {
	s.Helper()
	r := putOf(body)
	r.User = user
	return s.commit(note(id), r)
}

func (s *site) tryErase(r tiering.EraseRequest) *tiering.EraseReceipt {
	s.Helper()
	no := false
	r.DryRun = &no
	receipt, err := s.engine.Erase(s.ctx, siteTenant, r)
	s.no(err)
	return receipt
}

func (s *site) erase(r tiering.EraseRequest) {
	s.Helper()
	if receipt := s.tryErase(r); receipt.State != "done" {
		s.Fatalf("the receipt is %+v", receipt)
	}
}

// order writes the order of an erase that came no further, to one bucket or both.
func (s *site) order(sel warm.Selector, to ...cold.Bucket) lifecycle.Order {
	s.Helper()
	epoch, err := s.warm.Epoch(s.ctx)
	s.no(err)
	o := lifecycle.NewOrder("01jorder", sel, epoch, 1000, s.clock.Now())
	for _, b := range to {
		s.no(b.Create(s.ctx, o.Name(), bytes.NewReader(o.Encode()), int64(len(o.Encode()))))
	}
	return o
}

func (s *site) collect() lifecycle.GCReport {
	s.Helper()
	s.no(s.engine.ConfirmClock(s.ctx))
	r, err := s.engine.GC(s.ctx, false)
	s.no(err)
	return r
}

func newNotes(t testing.TB) *site {
	t.Helper()
	s := newSite(t)
	s.namespace(siteTenant, "notes", tiering.Policy{})
	return s
}

// An erase gave a segment up and died with one of its names occupied; the store
// was rebuilt from the other bucket, and counts on the segment. Its copy can
// never be made again under that name, so it moves to another.
func TestASegmentWhoseNameIsOccupiedMoves(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	h := s.put(note("k"), `1`)
	s.flush()
	name := s.segments()[0]
	s.no(s.archive.Occupy(s.ctx, tiering.Primary, name))
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	want := s.snapshot()
	s.no(s.engine.Replicate(s.ctx))
	all, err := s.warm.Segments(s.ctx, "", "", "", 10)
	s.no(err)
	if len(all) != 1 || all[0].Name == name || all[0].Verified() != 2 {
		t.Fatalf("the catalog says %+v", all)
	}
	s.bothHold("put1 1")
	if got, err := s.history(note("k"), h.Version); got != `1` || err != nil {
		t.Errorf("in cold it is %q, %v", got, err)
	}
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	s.same(s.snapshot(), want)
}

// A user's key went whole, and cold keeps what another had there before him.
// Nobody reads that any more; an erase finds it all the same, and retention lets
// it go in its time.
func TestWhatAnEarlierOwnerLeftInCold(t *testing.T) {
	t.Parallel()
	left := []string{"delete2 ", `put1 "bobs"`}
	prepare := func(t *testing.T) *site {
		s := newNotes(t)
		s.owned("k", "bob", `"bobs"`)
		s.flush()
		s.do(note("k"), tiering.OpDelete)
		s.flush()
		s.owned("k", "ann", `"anns"`)
		s.flush()
		s.erase(tiering.EraseRequest{User: "ann"})
		s.bothHold(left...)
		if got, err := s.history(note("k"), 1); !errors.Is(err, tiering.ErrNotFound) {
			t.Errorf("it can be read: %q, %v", got, err)
		}
		return s
	}
	t.Run("an erase by id takes it", func(t *testing.T) {
		t.Parallel()
		s := prepare(t)
		s.erase(tiering.EraseRequest{Namespace: "notes", ID: "k"})
		s.bothHold()
	})
	t.Run("a merge keeps it, and does not show it", func(t *testing.T) {
		t.Parallel()
		s := prepare(t)
		s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, MergeCount: 2})
		if r := s.collect(); len(r.Rewritten) == 0 || len(r.Left) > 0 {
			t.Fatalf("the report is %+v", r)
		}
		s.bothHold(left...)
		if got, err := s.history(note("k"), 1); !errors.Is(err, tiering.ErrNotFound) {
			t.Errorf("it can be read: %q, %v", got, err)
		}
	})
	t.Run("retention lets it go, the deletion last", func(t *testing.T) {
		t.Parallel()
		s := prepare(t)
		s.clock.advance(364 * day)
		s.collect()
		s.bothHold(left...)
		for range 4 { // no rebuild in between finds a document that stands
			s.clock.advance(2 * day)
			if r := s.collect(); len(r.Left) > 0 {
				t.Fatalf("the report is %+v", r)
			}
			if got := s.holds(s.primary); slices.Contains(got, left[1]) && !slices.Contains(got, left[0]) {
				t.Fatalf("the deletion went first: %q is left", got)
			}
		}
		s.bothHold()
	})
	t.Run("a key that another has by now", func(t *testing.T) {
		t.Parallel()
		s := prepare(t)
		h := s.owned("k", "carl", `"carls"`)
		s.flush()
		s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, MergeCount: 2})
		s.collect()
		s.clock.advance(366 * day)
		for range 4 {
			s.clock.advance(2 * day)
			if r := s.collect(); len(r.Left) > 0 {
				t.Fatalf("the report is %+v", r)
			}
		}
		s.bothHold(fmt.Sprintf(`put%d "carls"`, h.Version))
		if got, err := s.history(note("k"), h.Version); got != `"carls"` || err != nil {
			t.Errorf("in cold it is %q, %v", got, err)
		}
	})
}

// Somebody's deletion was not archived when his successor under the key was
// erased, and with the key it left the feed. A rebuild does not bring his
// document back.
func TestADeletionThatOnlyWarmKnewOf(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	s.owned("k", "bob", `"bobs"`)
	s.owned("other", "bob", `"stays"`)
	s.flush()
	s.do(note("k"), tiering.OpDelete)
	s.owned("k", "ann", `"anns"`)
	s.erase(tiering.EraseRequest{User: "ann"})
	s.flush()
	s.bothHold(`put1 "stays"`)
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
	if got := s.body(note("k")); got != "" {
		t.Errorf("the deleted document is back: %s", got)
	}
	if got := s.body(note("other")); got != `"stays"` {
		t.Errorf("the other one is %q", got)
	}
}

// An object that one bucket alone holds, and that a store rebuilt from the other
// knows nothing of, is searched too before an erase is done.
func TestAnEraseSearchesWhatTheCatalogDoesNotKnow(t *testing.T) {
	t.Parallel()
	prepare := func(t *testing.T) (*site, string) {
		s := newNotes(t)
		s.put(note("bob"), `"bobs"`)
		s.flush()
		s.put(note("ann"), `"anns"`)
		s.put(note("carl"), `"carls"`)
		s.flush()
		stranger := s.segments()[1]
		s.no(s.backup.Delete(s.ctx, stranger))
		s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
		s.no(s.engine.Replicate(s.ctx))
		return s, stranger
	}
	t.Run("what is of others there stays there", func(t *testing.T) {
		t.Parallel()
		s, _ := prepare(t)
		s.erase(tiering.EraseRequest{Namespace: "notes", ID: "ann"})
		if got, want := s.holds(s.primary), []string{`put1 "bobs"`, `put1 "carls"`}; !slices.Equal(got, want) {
			t.Errorf("the primary holds %q, want %q", got, want)
		}
	})
	t.Run("one that cannot be read keeps it from being done", func(t *testing.T) {
		t.Parallel()
		s, stranger := prepare(t)
		s.primary.Replace(stranger, []byte("rotten"))
		r := s.tryErase(tiering.EraseRequest{Namespace: "notes", ID: "ann"})
		if r.State == "done" || !strings.Contains(r.Blocked, stranger) {
			t.Fatalf("the receipt is %+v", r)
		}
		s.no(s.primary.Delete(s.ctx, stranger))
		s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive})
		_, err := s.engine.EraseOnce(s.ctx)
		s.no(err)
		if r, err := s.engine.Erasure(s.ctx, siteTenant, r.ID); err != nil || r.State != "done" {
			t.Errorf("once it is gone: %+v, %v", r, err)
		}
	})
}

// An order that one bucket alone holds comes to the other, once it is certain
// that it is not on its way there, or back.
func TestAnOrderInOneBucketComesToTheOther(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	s.put(note("k"), `1`)
	s.flush()
	o := s.order(warm.Selector{Tenant: siteTenant, User: "ann"}, s.backup)
	s.no(s.engine.FinishOrders(s.ctx))
	if got := s.objects(s.primary, lifecycle.OrdersPrefix); len(got) > 0 {
		t.Fatalf("it is young, and the primary has %v", got)
	}
	s.clock.advance(time.Hour)
	s.no(s.engine.FinishOrders(s.ctx))
	got, err := s.primary.Read(s.ctx, o.Name(), 0, -1)
	if err != nil || !bytes.Equal(got, o.Encode()) {
		t.Errorf("the primary has %q, %v", got, err)
	}
	r, err := s.engine.Verify(s.ctx, lifecycle.VerifyOptions{})
	s.no(err)
	if !r.Sound() || len(r.Faults) > 0 {
		t.Errorf("a verification says %+v", r.Faults)
	}
}

// An erase after a rebuild as of an earlier time rewrites a segment that holds
// more than counts, and shows no more of it than before.
func TestAnEraseAfterARebuildAsOfShowsNothingBeyondTheCut(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	s.put(note("k"), `1`)
	s.put(note("subject"), `"anns"`)
	at := s.clock.Now()
	s.put(note("k"), `2`)
	s.put(note("later"), `3`)
	s.flush()
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary, AsOf: at})
	s.no(s.engine.Replicate(s.ctx))
	s.erase(tiering.EraseRequest{Namespace: "notes", ID: "subject"})
	if got, err := s.history(note("k"), 1); got != `1` || err != nil {
		t.Errorf("version 1 is %q, %v", got, err)
	}
	for _, k := range []tiering.Key{note("k"), note("later")} {
		locs, err := s.warm.Locations(s.ctx, k)
		s.no(err)
		for _, l := range locs {
			if l.MaxVersion > 1 || k == note("later") && l.MaxVersion > 0 {
				t.Errorf("%s lies at %+v", k, l)
			}
		}
	}
}

// An erase died with its store after the order stood. The rebuild leaves the
// subject out, and the order alone finishes the rest: in segments that count, in
// those that reach beyond a cut, and in objects that nobody knows.
func TestAnOrderFinishesWhatItsEraseDidNot(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	s.put(note("bob"), `"bobs"`)
	s.put(note("ann/1"), `"anns"`)
	s.flush()
	s.put(note("carl"), `"carls"`)
	at := s.clock.Now()
	s.put(note("ann/2"), `"anns too"`)
	s.flush()
	s.put(note("ann/3"), `"anns last"`)
	s.flush()
	s.order(warm.Selector{Tenant: siteTenant, Namespace: "notes", Prefix: "ann/"}, s.primary, s.backup)
	report := s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary, AsOf: at})
	if len(report.Rewrite) == 0 {
		t.Fatalf("the report is %+v", report)
	}
	want := s.snapshot()
	s.no(s.engine.Replicate(s.ctx))
	// A merge does not take them over: it would not know.
	s.engine = lifecycle.New(lifecycle.Config{Warm: s.warm, Archive: s.archive, MergeCount: 2})
	if r := s.collect(); len(r.Rewritten) > 0 {
		t.Errorf("merged: %+v", r.Rewritten)
	}
	s.no(s.engine.FinishOrders(s.ctx))
	s.bothHold(`put1 "bobs"`, `put1 "carls"`)
	s.same(s.snapshot(), want)
	s.rebuild(lifecycle.RebuildOptions{From: tiering.Backup})
	s.same(s.snapshot(), want)
}

// An order is written before warm knows of it, and stays there when the daemon dies in
// between: whoever asked was told nothing, and what it names still stands. Until a
// rebuild nobody carries it out, beside what an earlier life's order takes or where a
// segment moves.
func TestAnOrderThatWasNotBegunTakesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(s *site)
		want []string // in both buckets
	}{
		{"out of a marked segment", func(s *site) { s.no(s.engine.FinishOrders(s.ctx)) }, []string{`put1 "bobs"`}},
		{"out of one whose name is occupied", func(s *site) {
			s.put(note("carl"), `"carls"`)
			s.flush()
			for _, name := range s.segments() {
				s.no(s.primary.Delete(s.ctx, name))
				s.no(s.archive.Occupy(s.ctx, tiering.Primary, name))
			}
			if r := s.verify(lifecycle.DepthHash, true); !r.Sound() {
				s.Errorf("%+v", r)
			}
		}, []string{`put1 "bobs"`, `put4294967298 "carls"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newNotes(t)
			h := s.put(note("bob"), `"bobs"`)
			s.put(note("ann"), `"anns"`)
			s.flush()
			s.order(warm.Selector{Tenant: siteTenant, Namespace: "notes", ID: "ann"}, s.primary, s.backup)
			s.rebuild(lifecycle.RebuildOptions{From: tiering.Primary})
			epoch, err := s.warm.Epoch(s.ctx)
			s.no(err)
			for _, id := range []string{"bob", "carl"} {
				o := lifecycle.NewOrder("01jnotbegun"+id, warm.Selector{Tenant: siteTenant, Namespace: "notes", ID: id}, epoch, 1000, s.clock.Now())
				errs := s.archive.WriteBoth(s.ctx, o.Name(), o.Encode())
				s.no(errors.Join(errs[0], errs[1]))
			}
			c.do(s)
			s.bothHold(c.want...)
			if got, err := s.history(note("bob"), h.Version); got != `"bobs"` || err != nil {
				t.Errorf("in cold it is %q, %v", got, err)
			}
		})
	}
}

// What was given up before it was finished may land long after its grace. Its
// name is taken by then: nobody knows the object, and it may hold what was erased
// since.
func TestALateUploadFindsItsNameTaken(t *testing.T) {
	t.Parallel()
	s := newNotes(t)
	s.put(note("k"), `1`)
	s.flush()
	name := s.archive.Name(s.clock.Now(), 1)
	s.no(s.warm.StartSegment(s.ctx, tiering.SegmentInfo{Name: name, Tenant: siteTenant, State: tiering.SegmentStarted, Owner: lifecycle.MergeLease, Token: 1}))
	data, err := s.primary.Read(s.ctx, s.segments()[0], 0, -1)
	s.no(err)
	s.collect() // drops the intent
	s.clock.advance(2 * time.Hour)
	s.collect()
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if err := s.archive.Write(s.ctx, c, name, data); !errors.Is(err, tiering.ErrGone) {
			t.Errorf("it landed in %s: %v", c, err)
		}
	}
	s.clock.advance(25 * time.Hour)
	s.collect()
	for _, b := range []*coldtest.Memory{s.primary, s.backup} {
		if got := s.objects(b, cold.SegmentPrefix); len(got) != 1 {
			t.Errorf("in the end %v is left", got)
		}
	}
	// Later than that it is a stranger: no part of the store, and collected.
	s.no(errors.Join(firstOf(s.archive.WriteBoth(s.ctx, name, data))...))
	r := s.collect()
	if len(r.Strangers) != 1 || r.Strangers[0].Kept != "" {
		t.Errorf("the strangers are %+v", r.Strangers)
	}
	s.bothHold("put1 1")
}

// A policy that rotted in warm stops its namespace alone, and is mended from
// cold.
func TestADamagedPolicyStopsItsNamespaceAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		archived bool // there is a copy to mend it by
	}{{"a copy is in cold", true}, {"none is", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.namespace(siteTenant, "other", tiering.Policy{})
			if c.archived {
				s.namespace(siteTenant, "notes", tiering.Policy{})
			}
			_, err := s.warm.EnsureNamespace(s.ctx, warm.Namespace{Tenant: siteTenant, Name: "notes", Kind: tiering.KindState, Class: tiering.ClassPersistent})
			s.no(err)
			s.put(note("k"), `1`)
			other := tiering.Key{Tenant: siteTenant, Namespace: "other", ID: "k"}
			s.put(other, `2`)
			s.flush()
			if !c.archived {
				s.namespace(siteTenant, "notes", tiering.Policy{})
			}
			s.rot(`UPDATE version SET body = x'00' WHERE CAST(body AS TEXT) LIKE '{%' AND kid = (SELECT kid FROM head WHERE id = CAST('notes' AS BLOB))`)
			s.clock.advance(40 * day)
			s.no(s.engine.ConfirmClock(s.ctx))
			s.no(s.engine.Sweep(s.ctx))
			in := func(k tiering.Key) bool {
				cur, err := s.warm.Head(s.ctx, k)
				s.no(err)
				return cur.Head.InWarm
			}
			if in(other) {
				t.Error("the other namespace waits too")
			}
			if got := in(note("k")); got == c.archived {
				t.Errorf("in warm: %t", got)
			}
			parked := s.engine.Parked(s.ctx)
			if told := len(parked) == 1 && parked[0].Move == "policy" && strings.Contains(parked[0].Subject, "notes"); told == c.archived {
				t.Errorf("parked: %+v", parked)
			}
			if r := s.collect(); len(r.Left) > 0 {
				t.Errorf("a collection leaves %+v", r.Left)
			}
			if c.archived {
				return
			}
			s.namespace(siteTenant, "notes", tiering.Policy{}) // written again
			s.clock.advance(time.Hour)
			s.no(s.engine.Sweep(s.ctx))
			if in(note("k")) || len(s.engine.Parked(s.ctx)) > 0 {
				t.Errorf("it waits on: %+v", s.engine.Parked(s.ctx))
			}
		})
	}
}
