package router

import (
	"testing"
	"time"

	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// R17: a reader looks a location up; the segment is merged, its grace period
// passes and its objects go; the reader reads. It looks once more, and finds
// the bytes where they are by now.
func TestAReadOutlivesAMergeThatRemovesWhatItLookedUp(t *testing.T) {
	a := openArchived(t)
	collector := lifecycle.New(lifecycle.Config{Warm: a.warm, Archive: a.archive, MergeCount: 2, Grace: time.Minute})
	for _, id := range []string{"k", "other"} {
		a.put(id, `{"of":"`+id+`"}`)
		a.no(a.engine.Flush(a.ctx))
	}
	a.demote("k")
	a.evict("k")
	reached, gate := make(chan struct{}), make(chan struct{})
	a.primary.Inject(coldtest.Fault{Call: coldtest.Read, Times: 1, Reached: reached, Gate: gate})
	read := make(chan *tiering.Document, 1)
	go func() {
		d, err := a.r.Get(a.ctx, space, "k", nil)
		if err != nil {
			t.Error(err)
		}
		read <- d
	}()
	<-reached
	if r, err := collector.GC(a.ctx, false); err != nil || len(r.Rewritten) != 1 {
		t.Fatalf("the merge: %+v, %v", r, err)
	}
	a.clock.advance(2 * time.Minute)
	if r, err := collector.GC(a.ctx, false); err != nil || r.Objects != 4 {
		t.Fatalf("the collection: %+v, %v", r, err)
	}
	close(gate)
	if d := <-read; d == nil || string(d.Body) != `{"of":"k"}` || d.Tier != tiering.Cold {
		t.Errorf("the read: %+v", d)
	}
}
