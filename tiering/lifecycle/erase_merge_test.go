package lifecycle_test

import (
	"context"
	"sync"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// outrun is an eraser's store: once the subject has left warm a merge begins, and
// it ends just before the eraser drops its intent. naive takes the answer for granted.
type outrun struct {
	warm.Store
	begin, end   func()
	begun, ended sync.Once
	naive        bool
}

func (o *outrun) EraseKeys(ctx context.Context, id string, limit int) (warm.Erasure, bool, error) {
	e, more, err := o.Store.EraseKeys(ctx, id, limit)
	if err == nil && !more {
		o.begun.Do(o.begin)
	}
	return e, more, err
}

func (o *outrun) DropIntent(ctx context.Context, name string) (bool, error) {
	o.ended.Do(o.end)
	dropped, err := o.Store.DropIntent(ctx, name)
	return dropped || o.naive, err
}

// unaware is the store of a merge that looked for erasures before there was one, and
// had others to do first.
type unaware struct{ warm.Store }

func (unaware) Erasures(context.Context) ([]warm.Erasure, error) { return nil, nil }

// An eraser lists the intent of a merge, which then finishes: what the merge wrote is all
// that there is of others' versions, and stays. Taken for an upload that never ended, both
// its copies would go.
func TestAMergeThatFinishesUnderAnErase(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, p place, naive bool) (*ward, *tiering.EraseReceipt) {
		w := newWard(t, wardOptions{place: p, config: lifecycle.Config{MergeCount: 2}})
		for _, body := range []string{`"first"`, `"second"`} {
			w.write(in("notes", "ann"), owned("ann", body))
			w.flush()
		}
		w.subject() // in none of the segments that are merged
		config := w.config
		config.Warm = unaware{w.store}
		merger, gate, merged := lifecycle.New(config), make(chan struct{}), make(chan error, 1)
		w.config.Warm = &outrun{Store: w.store, naive: naive,
			begin: func() {
				var reached [2]chan struct{}
				for i, b := range w.buckets {
					reached[i] = make(chan struct{})
					b.Inject(coldtest.Fault{Call: coldtest.Create, Name: cold.SegmentPrefix, Times: 1, Reached: reached[i], Gate: gate})
				}
				go func() {
					_, err := merger.MergeOnce(context.WithoutCancel(w.ctx))
					merged <- err
				}()
				for _, r := range reached {
					select {
					case <-r:
					case err := <-merged:
						t.Fatalf("the merge ended before it wrote anything: %v", err)
					}
				}
			},
			end: func() {
				close(gate)
				w.no(<-merged)
			},
		}
		w.restart()
		return w, w.erase(eraseSubject)
	}
	faults := func(w *ward) []lifecycle.Fault {
		report, err := lifecycle.New(w.config).Verify(w.ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthRestore})
		w.no(err)
		return report.Faults
	}
	for _, p := range places() {
		t.Run(string(p)+", as it is", func(t *testing.T) {
			t.Parallel()
			w, r := run(t, p, false)
			if r.State != "done" {
				w.finish(r.ID)
			}
			w.gone()
			if f := faults(w); len(f) > 0 {
				t.Errorf("an erase of another document left %+v", f)
			}
		})
		t.Run(string(p)+", naive", func(t *testing.T) {
			t.Parallel()
			w, _ := run(t, p, true)
			if len(faults(w)) == 0 {
				t.Error("the naive variant passes: the race was not run")
			}
		})
	}
}
