package lifecycle_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// fate lets a process make some changes and then kills it: at the next one,
// before or after it takes effect. From then on nothing it does has an effect,
// until it is born again.
type fate struct {
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
	last  string // the change at which it died
}

func (f *fate) change(what string, do func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return errDead
	}
	dies := f.left == 0
	f.left--
	if dies {
		f.dead, f.last = true, what
	}
	f.mu.Unlock()
	if !dies {
		return do()
	}
	if f.after {
		if err := do(); err != nil {
			return err
		}
	}
	return errDead
}

func (f *fate) bornAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead, f.left = false, 1<<30
}

type fatedBucket struct {
	cold.Bucket
	*fate
}

func (b fatedBucket) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	return b.change("create "+name, func() error { return b.Bucket.Create(ctx, name, body, size) })
}

func (b fatedBucket) Delete(ctx context.Context, name string) error {
	return b.change("delete "+name, func() error { return b.Bucket.Delete(ctx, name) })
}

type fatedStore struct {
	warm.Store
	*fate
}

func (s fatedStore) StartErase(ctx context.Context, e warm.Erasure) error {
	return s.change("start erase", func() error { return s.Store.StartErase(ctx, e) })
}

func (s fatedStore) EraseKeys(ctx context.Context, id string, limit int) (e warm.Erasure, more bool, err error) {
	err = s.change("erase keys", func() error {
		e, more, err = s.Store.EraseKeys(ctx, id, limit)
		return err
	})
	return e, more, err
}

func (s fatedStore) StartSegment(ctx context.Context, info tiering.SegmentInfo) error {
	return s.change("start segment", func() error { return s.Store.StartSegment(ctx, info) })
}

func (s fatedStore) ReplaceSegments(ctx context.Context, info tiering.SegmentInfo, l []tiering.Location, old []string) error {
	return s.change("replace segment", func() error { return s.Store.ReplaceSegments(ctx, info, l, old) })
}

func (s fatedStore) DropIntent(ctx context.Context, name string) (dropped bool, err error) {
	err = s.change("drop intent", func() error {
		dropped, err = s.Store.DropIntent(ctx, name)
		return err
	})
	return dropped, err
}

func (s fatedStore) ForgetSegment(ctx context.Context, name string) error {
	return s.change("forget segment", func() error { return s.Store.ForgetSegment(ctx, name) })
}

func (s fatedStore) CleanSegment(ctx context.Context, id, segment string) error {
	return s.change("clean segment", func() error { return s.Store.CleanSegment(ctx, id, segment) })
}

func (s fatedStore) Scrub(ctx context.Context) error {
	return s.change("scrub", func() error { return s.Store.Scrub(ctx) })
}

func (s fatedStore) FinishErase(ctx context.Context, id string) (e warm.Erasure, err error) {
	err = s.change("finish", func() error {
		e, err = s.Store.FinishErase(ctx, id)
		return err
	})
	return e, err
}

// fated is a small ward whose engine makes so many changes and then dies.
func fated(t *testing.T, f *fate) (w *ward, before map[string]string) {
	w = newWard(t, wardOptions{
		store:  func(s warm.Store) warm.Store { return fatedStore{s, f} },
		bucket: func(b cold.Bucket) cold.Bucket { return fatedBucket{b, f} },
	})
	left := f.left
	f.left = 1 << 30
	for _, k := range []tiering.Key{in("notes", "bob"), in("notes", canary)} {
		user, word := "bob", "other"
		if k.ID == canary {
			user, word = canary, canary
		}
		w.write(k, owned(user, fmt.Sprintf(`{"text":%q}`, word)))
		w.write(k, owned(user, fmt.Sprintf(`{"text":%q,"n":2}`, word)))
	}
	w.flush()
	w.write(in("notes", canary), row(tiering.OpDelete))
	before = w.standing()
	f.left = left
	return w, before
}

// An erase that is killed at any change it makes, before or after that takes
// effect, is finished by the process that comes next, or was never begun.
func TestAnEraseIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	const plenty = 1000
	request := tiering.EraseRequest{Namespace: "notes", ID: canary}
	whole := &fate{left: plenty}
	w, _ := fated(t, whole)
	if r := w.erase(request); r.State != "done" {
		t.Fatalf("%+v", r)
	}
	changes := plenty - whole.left
	if changes < 12 {
		t.Fatalf("an erase makes %d changes alone", changes)
	}
	run := false
	request.DryRun = &run
	for step := range changes {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, after %t", step, after), func(t *testing.T) {
				t.Parallel() // each waits for its disk
				f := &fate{left: step, after: after}
				w, before := fated(t, f)
				_, err := w.engine.Erase(w.ctx, tenant, request)
				if !f.dead {
					t.Fatalf("it lived on: %v", err)
				}
				f.bornAgain()
				w.restart()
				under, err := w.store.Erasures(w.ctx)
				w.no(err)
				switch {
				case len(under) == 1:
					w.finish(under[0].ID)
				case !strings.Contains(f.last, "create erase/") && f.last != "start erase" && f.last != "finish" && f.last != "scrub":
					t.Fatalf("killed at %s no erase is under way", f.last)
				case f.last != "finish": // it was never begun, or not acknowledged: it is asked for again
					if r := w.erase(request); r.State != "done" {
						w.finish(r.ID)
					}
				}
				w.gone()
				w.unharmed(before)
				for i := range w.buckets {
					for info, err := range w.buckets[i].List(w.ctx, cold.SegmentPrefix) {
						w.no(err)
						_, known, err := w.store.Segment(w.ctx, info.Name)
						w.no(err)
						data, err := w.buckets[i].Read(w.ctx, info.Name, 0, -1)
						w.no(err)
						if !known && !cold.Occupied(data) {
							t.Errorf("killed at %s: %s is left in bucket %d", f.last, info.Name, i)
						}
					}
				}
			})
		}
	}
}
