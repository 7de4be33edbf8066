package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/router"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// Each race is run twice in each place: on tierd as it is, where nothing of the
// subject may be left, and on a naive variant of the part that stands against it,
// where something has to be, or the test would prove nothing.
func race(t *testing.T, run func(t *testing.T, p place, naive bool) *ward) {
	t.Helper()
	for _, p := range places() {
		t.Run(string(p)+", as it is", func(t *testing.T) {
			t.Parallel()
			run(t, p, false).gone()
		})
		t.Run(string(p)+", naive", func(t *testing.T) {
			t.Parallel()
			left := run(t, p, true).hides(canary)
			if len(left) == 0 {
				t.Error("the naive variant passes: the race was not run")
			}
			t.Log(left)
		})
	}
}

// subject writes one document that is to be erased, and one that is not.
func (w *ward) subject() (k tiering.Key, h warm.Head) {
	w.Helper()
	w.write(in("notes", "bob"), owned("bob", `"other"`))
	k = in("notes", canary)
	return k, w.write(k, owned(canary, `{"text":"`+canary+`"}`))
}

var eraseSubject = tiering.EraseRequest{Namespace: "notes", ID: canary}

// blind is an erase that does not look for uploads: warm hides the intents
// from it, and the buckets what landed of them.
type blind struct{ warm.Store }

type blindBucket struct{ cold.Bucket }

func (b blindBucket) List(ctx context.Context, prefix string) iter.Seq2[cold.ObjectInfo, error] {
	if strings.HasPrefix(prefix, cold.SegmentPrefix) {
		return func(func(cold.ObjectInfo, error) bool) {}
	}
	return b.Bucket.List(ctx, prefix)
}

func (b blind) Segments(ctx context.Context, tenant string, state tiering.SegmentState, after string, limit int) ([]tiering.SegmentInfo, error) {
	all, err := b.Store.Segments(ctx, tenant, state, after, limit)
	return slices.DeleteFunc(all, func(s tiering.SegmentInfo) bool { return s.State == tiering.SegmentStarted }), err
}

func (b blind) EraseKeys(ctx context.Context, id string, limit int) (warm.Erasure, bool, error) {
	e, more, err := b.Store.EraseKeys(ctx, id, limit)
	if err != nil || more {
		return e, more, err
	}
	for _, name := range e.Segments {
		if s, ok, err := b.Segment(ctx, name); err == nil && ok && s.State == tiering.SegmentStarted {
			if err := b.CleanSegment(ctx, id, name); err != nil {
				return e, false, err
			}
		}
	}
	e, _, err = b.Erasure(ctx, id)
	return e, false, err
}

// uploading lets the archiver run up to a call to the buckets, erases, and lets
// it go on.
func uploading(t *testing.T, p place, call coldtest.Call, naive bool) *ward {
	w := newWard(t, wardOptions{place: p})
	w.subject()
	archiver := w.engine
	if naive {
		w.config.Warm = blind{w.store}
		w.config.Archive = cold.NewArchive(blindBucket{w.buckets[0]}, blindBucket{w.buckets[1]}, nil)
		w.restart()
	}
	gate := make(chan struct{})
	var reached [2]chan struct{}
	for i, b := range w.buckets {
		reached[i] = make(chan struct{})
		b.Inject(coldtest.Fault{Call: call, Name: cold.SegmentPrefix, Times: 1, Reached: reached[i], Gate: gate})
	}
	archived := make(chan error, 1)
	go func() { archived <- archiver.Flush(context.WithoutCancel(w.ctx)) }()
	for _, r := range reached {
		<-r
	}
	if r := w.erase(eraseSubject); r.State != "done" {
		t.Fatalf("%+v", r)
	}
	close(gate)
	err := <-archived
	if !naive && err == nil {
		t.Error("the archiver finished a segment that an erase went over")
	}
	w.flush() // what it could not archive it archives now
	if !naive {
		cur, err := w.store.Locations(w.ctx, in("notes", "bob"))
		w.no(err)
		if len(cur) != 1 {
			t.Errorf("the other document lies at %+v", cur)
		}
	}
	return w
}

// R16: the upload has landed, its writer has not heard of it yet.
func TestRaceR16(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward { return uploading(t, p, coldtest.Stat, naive) })
}

// R27: the erase has answered; then a paused upload goes on.
func TestRaceR27(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward { return uploading(t, p, coldtest.Create, naive) })
}

// early is an archiver that keeps what it read before its intent stood.
type early struct {
	warm.Store
	mu   sync.Mutex
	read map[int64][]warm.FeedEntry
}

func (e *early) ReadFeed(ctx context.Context, after int64, limit int) ([]warm.FeedEntry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if page, ok := e.read[after]; ok {
		return page, nil
	}
	page, err := e.Store.ReadFeed(ctx, after, limit)
	e.read[after] = page
	return page, err
}

// pausedIntent holds the first intent until the gate opens.
type pausedIntent struct {
	warm.Store
	once          sync.Once
	reached, gate chan struct{}
}

func (p *pausedIntent) StartSegment(ctx context.Context, s tiering.SegmentInfo) error {
	p.once.Do(func() {
		close(p.reached)
		<-p.gate
	})
	return p.Store.StartSegment(ctx, s)
}

// R37: the archiver has read, the erase finds no intent and answers, the
// archiver goes on. A deletion needs no bytes from warm, so nothing but the
// order of intent and read keeps it out.
func TestRaceR37(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p})
		k, _ := w.subject()
		w.write(k, row(tiering.OpDelete))
		var store warm.Store = w.store
		if naive {
			store = &early{Store: store, read: map[int64][]warm.FeedEntry{}}
		}
		paused := &pausedIntent{Store: store, reached: make(chan struct{}), gate: make(chan struct{})}
		config := w.config
		config.Warm = paused
		archiver := lifecycle.New(config)
		archived := make(chan error, 1)
		go func() { archived <- archiver.Flush(context.WithoutCancel(w.ctx)) }()
		<-paused.reached
		if r := w.erase(eraseSubject); r.State != "done" {
			t.Fatalf("%+v", r)
		}
		close(paused.gate)
		w.no(<-archived)
		return w
	})
}

// pausedPromote holds a promotion until the gate opens. unguarded, it commits
// what it holds without a look at the head.
type pausedPromote struct {
	warm.Store
	w             *ward
	reached, gate chan struct{}
	unguarded     bool
}

func (p *pausedPromote) Promote(ctx context.Context, key tiering.Key, version int64, body []byte) (bool, error) {
	close(p.reached)
	<-p.gate
	if p.unguarded {
		p.w.commit(key, owned(canary, string(body)))
		return true, nil
	}
	return p.Store.Promote(ctx, key, version, body)
}

// R15: a reader has the bytes from cold, the erase goes over everything, then
// the reader brings them back to warm and puts them into hot.
func TestRaceR15(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p})
		k, h := w.subject()
		w.flush()
		done, err := w.store.Demote(w.ctx, k, h.Version, time.Now().Add(time.Hour))
		if err != nil || !done {
			t.Fatalf("demoted %t, %v", done, err)
		}
		w.no(w.hot.Drop(w.ctx, k, 0, 0))
		paused := &pausedPromote{Store: w.store, w: w, reached: make(chan struct{}), gate: make(chan struct{}), unguarded: naive}
		r := router.New(router.Config{Hot: w.hot, Warm: paused, Archive: w.archive})
		defer r.Close()
		read := make(chan error, 1)
		go func() {
			_, err := r.As(tiering.Principal{Tenant: tenant}).Get(context.WithoutCancel(w.ctx), k.Namespace, k.ID, nil)
			read <- err
		}()
		<-paused.reached
		if r := w.erase(eraseSubject); r.State != "done" {
			t.Fatalf("%+v", r)
		}
		close(paused.gate)
		w.no(<-read) // it may have the bytes: it asked before the erase was done
		return w
	})
}

// A reader has loaded the document from warm and holds a lease to fill hot; the
// erase goes over everything; then it fills. The naive erase clears hot of what
// is there and forgets those who are on their way.
func TestAFillThatGoesOnAfterAnErase(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p})
		k, h := w.subject()
		w.no(w.hot.Drop(w.ctx, k, 0, 0))
		if naive {
			w.config.Hot = deaf{w.hot}
			w.restart()
		}
		l, err := w.hot.Get(w.ctx, k, true)
		w.no(err)
		cur, err := w.store.Load(w.ctx, k)
		w.no(err)
		if l.Lease == 0 || cur.Head.Version != h.Version {
			t.Fatalf("lease %d, head %+v", l.Lease, cur.Head)
		}
		if r := w.erase(eraseSubject); r.State != "done" {
			t.Fatalf("%+v", r)
		}
		_, err = w.hot.Fill(w.ctx, k, l.Lease, hot.Entry{Meta: cur.Head.Meta(), Body: cur.Body}, time.Hour)
		w.no(err)
		return w
	})
}

// deaf is a hot tier whose leases outlive a mark.
type deaf struct{ hot.Store }

func (deaf) Mark(context.Context, tiering.Key, hot.Token) error   { return nil }
func (deaf) Unmark(context.Context, tiering.Key, hot.Token) error { return nil }

// The erase is taken up by another process, which does not know who was about
// to fill hot: it waits until nobody can be.
func TestAnEraseThatIsTakenUpWaitsForFills(t *testing.T) {
	t.Parallel()
	w := newWard(t, wardOptions{config: lifecycle.Config{HotLease: 300 * time.Millisecond}})
	w.subject()
	w.flush()
	w.buckets[0].Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Before: errDown})
	r := w.erase(eraseSubject)
	if r.State != "running" {
		t.Fatalf("%+v", r)
	}
	w.buckets[0].Clear()
	w.restart()
	_, err := w.engine.EraseOnce(w.ctx)
	w.no(err)
	again, err := w.engine.Erasure(w.ctx, tenant, r.ID)
	w.no(err)
	if again.State != "running" || !strings.Contains(again.Blocked, "fill hot") || again.Segments != 0 {
		t.Errorf("%+v, want it to wait for the fills alone", again)
	}
	w.finish(r.ID)
	w.gone()
}

// A merge read a segment before the erase rewrote it, and goes on afterwards.
// Its result must not be kept, nor what of it reaches the buckets. The naive
// erase does not look for intents.
func TestAMergeThatGoesOnAfterAnErase(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p, config: lifecycle.Config{MergeCount: 2}})
		w.subject()
		w.flush()
		w.write(in("notes", "bob"), owned("bob", `"other again"`))
		w.flush()
		merger := w.engine
		if naive {
			w.config.Warm = blind{w.store}
		}
		w.restart()
		gate := make(chan struct{})
		var reached [2]chan struct{}
		for i, b := range w.buckets {
			reached[i] = make(chan struct{})
			b.Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Reached: reached[i], Gate: gate})
		}
		merged := make(chan struct{})
		go func() {
			defer close(merged)
			_, _ = merger.MergeOnce(context.WithoutCancel(w.ctx)) // what became of it is in the buckets
		}()
		for _, r := range reached {
			<-r
		}
		if r := w.erase(eraseSubject); r.State != "done" {
			t.Fatalf("%+v", r)
		}
		close(gate)
		<-merged
		return w
	})
}

// A copy of a segment is made again from the other while the erase goes over
// both: it must not bring the old segment back. The naive erase deletes it and
// leaves its name free.
func TestACopyThatIsMadeAgainDuringAnErase(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p})
		k, _ := w.subject()
		w.buckets[1].Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Before: errDown})
		w.flush()
		locs, err := w.store.Locations(w.ctx, k)
		w.no(err)
		if naive {
			w.config.Archive = cold.NewArchive(w.buckets[0], forgetful{w.buckets[1], new([]byte)}, nil)
			w.restart()
		}
		reached, gate := make(chan struct{}), make(chan struct{})
		w.buckets[1].Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Reached: reached, Gate: gate})
		copied := make(chan error, 1)
		go func() {
			copied <- w.archive.CopyObject(context.WithoutCancel(w.ctx), tiering.Primary, tiering.Backup, locs[0].Segment)
		}()
		<-reached
		if r := w.erase(eraseSubject); r.State != "done" {
			t.Fatalf("%+v", r)
		}
		close(gate)
		if err := <-copied; err == nil && !naive {
			t.Error("a copy was made of what is erased")
		}
		return w
	})
}

// The worker that makes missing copies is at work on a segment while the erase
// goes over it. It looks back at the catalog too; the naive one does not.
func TestAReplicatorThatGoesOnAfterAnErase(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p, config: lifecycle.Config{LeaseTTL: time.Hour}})
		w.subject()
		w.buckets[1].Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Before: errDown})
		w.flush()
		replicator := w.engine
		if naive {
			blind := w.config
			blind.Warm = unasked{blind.Warm}
			replicator = lifecycle.New(blind)
			w.config.Archive = cold.NewArchive(w.buckets[0], forgetful{w.buckets[1], new([]byte)}, nil)
		}
		w.restart()
		reached, gate := make(chan struct{}), make(chan struct{})
		w.buckets[1].Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Reached: reached, Gate: gate})
		replicated := make(chan error, 1)
		go func() {
			_, err := replicator.ReplicateOnce(context.WithoutCancel(w.ctx))
			replicated <- err
		}()
		<-reached
		if r := w.erase(eraseSubject); r.State != "done" {
			t.Fatalf("%+v", r)
		}
		close(gate)
		t.Logf("the replicator: %v", <-replicated) // what became of it is in the bucket
		return w
	})
}

// unasked is a store that says of every segment that it still is finished, as
// one that is not asked again after a copy was made.
type unasked struct{ warm.Store }

func (u unasked) Segment(ctx context.Context, name string) (tiering.SegmentInfo, bool, error) {
	s, _, err := u.Store.Segment(ctx, name)
	s.State = tiering.SegmentFinished
	return s, true, err
}

// forgetful is a bucket through which the name of an object that was deleted
// stays free, though it says that it is occupied: the naive end of a segment.
type forgetful struct {
	*coldtest.FaultBucket
	marker *[]byte
}

func (f forgetful) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	data, err := io.ReadAll(body)
	if err != nil || !cold.Occupied(data) {
		return f.FaultBucket.Create(ctx, name, body, size)
	}
	*f.marker = data
	if _, err := f.FaultBucket.Stat(ctx, name); err == nil {
		return cold.ErrExist
	}
	return nil
}

func (f forgetful) Stat(ctx context.Context, name string) (cold.ObjectInfo, error) {
	info, err := f.FaultBucket.Stat(ctx, name)
	if errors.Is(err, cold.ErrNotExist) && *f.marker != nil {
		return cold.ObjectInfo{Name: name, Size: int64(len(*f.marker))}, nil
	}
	return info, err
}

func (f forgetful) Read(ctx context.Context, name string, offset, length int64) ([]byte, error) {
	data, err := f.FaultBucket.Read(ctx, name, offset, length)
	if errors.Is(err, cold.ErrNotExist) && *f.marker != nil {
		return *f.marker, nil
	}
	return data, err
}
