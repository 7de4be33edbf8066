package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/cold/coldtest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// deadly ends the process that writes to its bucket, once it is armed: the object is
// there, and nothing of that process comes after it.
type deadly struct {
	cold.Bucket
	armed atomic.Bool
	dies  context.CancelFunc
}

func (d *deadly) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	err := d.Bucket.Create(ctx, name, body, size)
	if err == nil && d.armed.Load() && strings.HasPrefix(name, cold.SegmentPrefix) {
		d.dies()
		return context.Canceled
	}
	return err
}

// inPlace makes a copy again in place of what lies there.
func inPlace(ctx context.Context, good, bad cold.Bucket, name string) error {
	data, err := good.Read(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	if err := bad.Delete(ctx, name); err != nil {
		return err
	}
	return bad.Create(ctx, name, bytes.NewReader(data), int64(len(data)))
}

// TestARepairBringsNothingBackThatWasErased: a daemon finds a copy damaged and is
// about to take it away; the segment is erased from, with a receipt; then the daemon
// goes on, and dies as soon as it has written.
func TestARepairBringsNothingBackThatWasErased(t *testing.T) {
	t.Parallel()
	race(t, func(t *testing.T, p place, naive bool) *ward {
		w := newWard(t, wardOptions{place: p})
		w.subject()
		w.flush()
		all, err := w.store.Segments(w.ctx, tenant, tiering.SegmentFinished, "", 10)
		w.no(err)
		name := all[0].Name
		data, err := w.buckets[tiering.Backup].Read(w.ctx, name, 0, -1)
		w.no(err)
		w.no(w.buckets[tiering.Backup].Delete(w.ctx, name))
		w.no(w.buckets[tiering.Backup].Create(w.ctx, name, bytes.NewReader(flip(data)), int64(len(data))))

		ctx, dies := context.WithCancel(w.ctx)
		defer dies()
		bucket := &deadly{Bucket: w.buckets[tiering.Backup], dies: dies}
		config := w.config
		config.Holder, config.Archive = "another", cold.NewArchive(w.buckets[tiering.Primary], bucket, nil)
		repairs := func() error {
			_, err := lifecycle.New(config).Verify(ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthHash, Repair: true})
			return err
		}
		if naive {
			repairs = func() error { return inPlace(ctx, w.buckets[tiering.Primary], bucket, name) }
		}
		reached, gate := make(chan struct{}), make(chan struct{})
		w.buckets[tiering.Backup].Inject(coldtest.Fault{Call: coldtest.Delete, Name: name, Times: 1, Reached: reached, Gate: gate})
		repaired := make(chan error, 1)
		go func() { repaired <- repairs() }()
		<-reached
		if r := w.erase(eraseSubject); r.State != "done" {
			t.Fatalf("%+v", r)
		}
		bucket.armed.Store(true)
		close(gate)
		if err := <-repaired; !errors.Is(err, context.Canceled) {
			t.Errorf("the repair: %v, want it to die", err)
		}
		return w
	})
}

// silenced is what a process that died does not tell warm any more.
type silenced struct{ warm.Store }

func (silenced) DropIntent(context.Context, string) (bool, error) { return false, context.Canceled }

// TestARenameThatDiedIsGivenUp: what it wrote is no part of the store, and the copy is
// made again.
func TestARenameThatDiedIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	populate(s)
	want := s.snapshot()
	name := s.segments()[0]
	s.edit(s.backup, name, flip)
	ctx, dies := context.WithCancel(s.ctx)
	defer dies()
	bucket := &deadly{Bucket: s.backup, dies: dies}
	bucket.armed.Store(true)
	dead := lifecycle.New(lifecycle.Config{Warm: silenced{s.warm}, Archive: cold.NewArchive(s.primary, bucket, nil), Holder: "dead", LeaseTTL: 1})
	if _, err := dead.Verify(ctx, lifecycle.VerifyOptions{Depth: lifecycle.DepthHash, Repair: true}); err == nil {
		t.Fatal("it did not die")
	}
	started := func() (n int) {
		all, err := s.warm.Segments(s.ctx, "", tiering.SegmentStarted, "", 100)
		s.no(err)
		return len(all)
	}
	if started() != 1 {
		t.Fatalf("%d segments are started", started())
	}
	s.clock.advance(1)
	s.no(s.engine.Replicate(s.ctx))
	if started() != 0 || slices.Contains(s.segments(), name) {
		t.Errorf("%d segments are started, the catalog has %v", started(), s.segments())
	}
	if r := s.verify(lifecycle.DepthRestore, false); !r.Sound() {
		t.Errorf("%+v", r)
	}
	s.same(s.snapshot(), want)
}
