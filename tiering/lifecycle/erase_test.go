package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

var errDown = errors.New("connection refused")

// subjects are the ways to select, with the keys that each takes.
var subjects = []struct {
	name    string
	request tiering.EraseRequest
	mine    []tiering.Key
}{
	{"one document", tiering.EraseRequest{Namespace: "notes", ID: canary + "/1"}, []tiering.Key{in("notes", canary+"/1")}},
	{"a prefix", tiering.EraseRequest{Namespace: "notes", Prefix: canary + "/"}, []tiering.Key{in("notes", canary+"/1"), in("notes", canary+"/2"), in("notes", canary+"/3")}},
	{"a user", tiering.EraseRequest{User: canary}, []tiering.Key{in("notes", "x"+canary), in("prefs", "y"+canary), in("notes", "z"+canary)}},
}

func TestEraseLeavesNothingOfASubjectAndEverythingElse(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		for _, folders := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, folders %t", s.name, folders), func(t *testing.T) {
				t.Parallel()
				w := newWard(t, wardOptions{folders: folders})
				w.people(s.mine...)
				before, covered := w.standing(), w.covered(tenant)
				if places := strings.Join(w.hides(canary), " "); !strings.Contains(places, "warm.db") || !strings.Contains(places, "hot") || !strings.Contains(places, "backup") {
					t.Fatalf("the canary is only in %s", places)
				}

				planned, err := w.engine.Erase(w.ctx, tenant, s.request)
				w.no(err)
				if !planned.DryRun || planned.State != "planned" || planned.ID != "" || planned.Keys != int64(len(s.mine)) || planned.Versions == 0 || planned.Bytes == 0 || planned.Segments == 0 {
					t.Errorf("the dry run says %+v", planned)
				}
				w.unharmed(before)

				r := w.erase(s.request)
				if r.State != "done" || r.Blocked != "" || r.Segments != 0 || r.Finished.IsZero() {
					t.Fatalf("%+v, want done", r)
				}
				if r.Keys != planned.Keys || r.Versions != planned.Versions || r.Bytes != planned.Bytes || r.Selector != planned.Selector {
					t.Errorf("the receipt %+v is not what the dry run said: %+v", r, planned)
				}
				if !strings.HasPrefix(r.Digest, "hmac-sha256:") || strings.Contains(fmt.Sprintf("%+v", r), canary) {
					t.Errorf("the receipt %+v", r)
				}
				w.gone()
				w.unharmed(before)
				after := w.covered(tenant)
				for p := range covered {
					if !after[p] {
						t.Errorf("position %d is not covered any more", p)
					}
				}
				again, err := w.engine.Erasure(w.ctx, tenant, r.ID)
				w.no(err)
				if *again != *r {
					t.Errorf("asked again the receipt is %+v, was %+v", again, r)
				}
				if _, err := w.engine.Erasure(w.ctx, "globex", r.ID); !errors.Is(err, tiering.ErrNotFound) {
					t.Errorf("another tenant's receipt: %v", err)
				}
			})
		}
	}
}

// What lies in a bucket of before the erase is taken by its order, whichever
// bucket a rebuild reads.
func TestTheOrderTakesWhatWasErased(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			w := newWard(t, wardOptions{})
			w.people(s.mine...)
			w.flush()
			var old []cold.Record
			for info, err := range w.buckets[0].List(w.ctx, cold.SegmentPrefix) {
				w.no(err)
				data, err := w.buckets[0].Read(w.ctx, info.Name, 0, -1)
				w.no(err)
				old = append(old, w.records(data)...)
			}
			r := w.erase(s.request)
			epoch, err := w.store.Epoch(w.ctx)
			w.no(err)
			for _, b := range w.buckets {
				orders, err := lifecycle.ReadOrders(w.ctx, b)
				w.no(err)
				if len(orders) != 1 || orders[0].ID != r.ID {
					t.Fatalf("orders %+v", orders)
				}
				for _, rec := range old {
					mine := strings.Contains(rec.Key.ID+rec.User, canary)
					if got := orders[0].Takes(&lifecycle.Lineage{}, epoch, rec); got != mine {
						t.Errorf("the order takes %s version %d: %t, want %t", rec.Key, rec.Version, got, mine)
					}
				}
			}
			// Made again, the document is not the order's: it is above everything.
			k := s.mine[0]
			h := w.write(k, owned(canary, `"new"`))
			if h.Version <= 3 {
				t.Errorf("made again it has version %d", h.Version)
			}
			w.flush()
			if places := w.hides(`"new"`); len(places) < 3 {
				t.Errorf("made again it is in %v", places)
			}
		})
	}
}

func TestWhatCanBeSelected(t *testing.T) {
	t.Parallel()
	w := newWard(t, wardOptions{})
	run := false
	for _, c := range []struct {
		name    string
		request tiering.EraseRequest
		pointer string
	}{
		{"nothing", tiering.EraseRequest{}, ""},
		{"a namespace alone", tiering.EraseRequest{Namespace: "notes"}, ""},
		{"an id and a prefix", tiering.EraseRequest{Namespace: "notes", ID: "a", Prefix: "a"}, ""},
		{"an id and a user", tiering.EraseRequest{Namespace: "notes", ID: "a", User: "ann"}, ""},
		{"a user in a namespace", tiering.EraseRequest{Namespace: "notes", User: "ann"}, "/namespace"},
		{"an id without a namespace", tiering.EraseRequest{ID: "a"}, "/namespace"},
		{"a reserved namespace", tiering.EraseRequest{Namespace: "_policy", ID: "notes"}, "/namespace"},
		{"an id that is none", tiering.EraseRequest{Namespace: "notes", ID: "a//b"}, "/id"},
		{"a prefix that is no UTF-8", tiering.EraseRequest{Namespace: "notes", Prefix: "\xff"}, "/prefix"},
		{"a user that is none", tiering.EraseRequest{User: "a\x00"}, "/user"},
	} {
		for _, dry := range []*bool{nil, &run} {
			c.request.DryRun = dry
			_, err := w.engine.Erase(w.ctx, tenant, c.request)
			var e *tiering.Error
			if !errors.As(err, &e) || e.Status() != 422 || e.Pointer != c.pointer {
				t.Errorf("%s: %v, want 422 at %q", c.name, err, c.pointer)
			}
		}
	}
	if r := w.erase(tiering.EraseRequest{User: "nobody"}); r.State != "done" || r.Keys != 0 {
		t.Errorf("an erase of nobody: %+v", r)
	}
}

// Documents of an ephemeral namespace are in hot alone. They go by id and
// prefix; nothing knows their owner.
func TestEraseOfEphemeralDocuments(t *testing.T) {
	t.Parallel()
	w := newWard(t, wardOptions{})
	make3 := func() {
		for _, id := range []string{canary, canary + "/2", "other"} {
			_, _, err := w.hot.Swap(w.ctx, in("scratch", id), tiering.Condition{}, []byte(`1`), 0)
			w.no(err)
		}
	}
	left := func() (ids []string) {
		w.no(w.hot.Scan(w.ctx, tenant, "scratch", "", func(k tiering.Key) bool { ids = append(ids, k.ID); return true }))
		return ids
	}
	make3()
	w.erase(tiering.EraseRequest{Namespace: "scratch", ID: canary})
	if got := left(); len(got) != 2 {
		t.Errorf("after the erase of one: %v", got)
	}
	make3()
	w.erase(tiering.EraseRequest{Namespace: "scratch", Prefix: canary})
	if got := left(); len(got) != 1 || got[0] != "other" {
		t.Errorf("after the erase of a prefix: %v", got)
	}
}

// A bucket that does not take the order: nothing is done, and nothing is left
// that a rebuild would honour.
func TestAnOrderGoesToBothBucketsOrNothingIsDone(t *testing.T) {
	t.Parallel()
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		t.Run(c.String(), func(t *testing.T) {
			w := newWard(t, wardOptions{})
			s := subjects[1]
			w.people(s.mine...)
			before, held := w.standing(), len(w.hides(canary))
			w.buckets[c].Inject(coldtest.Fault{Call: coldtest.Create, Name: lifecycle.OrdersPrefix, Before: errDown})
			run := false
			s.request.DryRun = &run
			_, err := w.engine.Erase(w.ctx, tenant, s.request)
			if !errors.Is(err, tiering.ErrUnavailable) {
				t.Fatalf("%v, want unavailable", err)
			}
			w.unharmed(before)
			if got := len(w.hides(canary)); got != held {
				t.Errorf("the canary is in %d places, was in %d", got, held)
			}
			under, err := w.store.Erasures(w.ctx)
			w.no(err)
			for _, b := range w.buckets {
				orders, err := lifecycle.ReadOrders(w.ctx, b)
				w.no(err)
				if len(under)+len(orders) != 0 {
					t.Errorf("left are %+v in warm, %+v in a bucket", under, orders)
				}
			}
		})
	}
}

// A bucket goes down once the order was taken: the answer says that it runs and
// why it waits, and the worker finishes when the bucket is back.
func TestAnEraseWaitsForABucketThatIsDown(t *testing.T) {
	t.Parallel()
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		for _, s := range subjects {
			t.Run(c.String()+" "+s.name, func(t *testing.T) {
				t.Parallel()
				w := newWard(t, wardOptions{})
				w.people(s.mine...)
				before := w.standing()
				w.buckets[c].Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Before: errDown})
				r := w.erase(s.request)
				if r.State != "running" || r.Blocked == "" || strings.Contains(r.Blocked, canary) || r.Segments == 0 {
					t.Fatalf("%+v, want running", r)
				}
				for range 8 { // it shows, and it goes on trying
					time.Sleep(5 * time.Millisecond)
					w.restartless(r.ID)
				}
				w.buckets[c].Clear()
				if done := w.finish(r.ID); done.Keys != r.Keys {
					t.Errorf("done it is %+v, was %+v", done, r)
				}
				w.gone()
				w.unharmed(before)
				if parked := w.engine.Parked(w.ctx); len(parked) != 0 {
					t.Errorf("still parked: %+v", parked)
				}
			})
		}
	}
}

// restartless is a step of the worker that finds the erase still blocked.
func (w *ward) restartless(id string) {
	w.Helper()
	_, err := w.engine.EraseOnce(w.ctx)
	w.no(err)
	r, err := w.engine.Erasure(w.ctx, tenant, id)
	w.no(err)
	if r.State != "running" || r.Blocked == "" {
		w.Fatalf("%+v, want it blocked", r)
	}
}

// Writers go on under the prefix while it is erased. What was there before goes;
// what they write once the erase has answered stays.
func TestWritersGoOnDuringAnErase(t *testing.T) {
	t.Parallel()
	w := newWard(t, wardOptions{})
	const ids = 40
	for i := range ids {
		w.write(in("notes", fmt.Sprintf("p/%d", i)), owned("ann", `{"text":"`+canary+`"}`))
	}
	w.flush()
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				w.write(in("notes", fmt.Sprintf("p/%d", (n*4+worker)%ids)), owned("ann", fmt.Sprintf(`{"fresh":%d}`, n)))
				if n%7 == worker {
					_ = w.engine.Flush(ctx)
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	r := w.erase(tiering.EraseRequest{Namespace: "notes", Prefix: "p/"})
	stop()
	wg.Wait()
	if r.State != "done" {
		w.finish(r.ID)
	}
	after := map[int]warm.Head{}
	for i := range ids {
		after[i] = w.write(in("notes", fmt.Sprintf("p/%d", i)), owned("ann", `"after"`))
	}
	w.flush()
	w.gone()
	for i, h := range after {
		cur, err := w.store.Load(w.ctx, in("notes", fmt.Sprintf("p/%d", i)))
		w.no(err)
		if cur.Head.Version != h.Version || string(cur.Body) != `"after"` || h.Version < 2 {
			t.Errorf("p/%d stands at %d with %s, was written as %d", i, cur.Head.Version, cur.Body, h.Version)
		}
		if l, err := w.hot.Get(w.ctx, h.Key, false); err != nil || l.State == hot.Present && l.Entry.Meta.Version != h.Version {
			t.Errorf("hot has %+v of p/%d", l, i)
		}
	}
}

// Objects of segments that a merge replaced wait for their grace period; those
// that hold the subject do not.
func TestEraseTakesWhatWaitsForItsGracePeriod(t *testing.T) {
	t.Parallel()
	w := newWard(t, wardOptions{config: lifecycle.Config{MergeCount: 2, Grace: time.Hour}})
	s := subjects[2]
	w.people(s.mine...)
	w.flush()
	if _, err := w.engine.MergeOnce(w.ctx); err != nil {
		t.Fatal(err)
	}
	deleting, err := w.store.Segments(w.ctx, tenant, tiering.SegmentDeleting, "", 100)
	w.no(err)
	if len(deleting) == 0 {
		t.Fatal("nothing was merged")
	}
	before := w.standing()
	if r := w.erase(s.request); r.State != "done" {
		t.Fatalf("%+v", r)
	}
	w.gone()
	w.unharmed(before)
}

func TestTheWorkerFinishesErasures(t *testing.T) {
	t.Parallel()
	w := newWard(t, wardOptions{})
	s := subjects[0]
	w.people(s.mine...)
	w.buckets[1].Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Before: errDown})
	r := w.erase(s.request)
	w.buckets[1].Clear()
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.engine.Run(ctx)
	}()
	deadline := time.Now().Add(10 * time.Second)
	for r.State != "done" && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		var err error
		r, err = w.engine.Erasure(w.ctx, tenant, r.ID)
		w.no(err)
	}
	stop()
	<-ended
	if r.State != "done" {
		t.Fatalf("%+v", r)
	}
	w.gone()
}
