package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

var errDead = errors.New("the process is dead")

// life is how many changes a process makes before it is killed.
type life struct {
	mu    sync.Mutex
	left  int  // changes that it still makes
	after bool // the last one is done, and its answer is lost
	dead  bool
}

// change makes one change, or dies at it.
func (l *life) change(do func() error) error {
	l.mu.Lock() // both buckets are written at once
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	if l.left > 0 {
		l.left--
		return do()
	}
	l.dead = true
	if l.after {
		if err := do(); err != nil {
			return err
		}
	}
	return errDead
}

// mortalBucket and mortalStore change nothing any more once their process died.
type mortalBucket struct {
	cold.Bucket
	*life
}

func (m mortalBucket) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	return m.change(func() error { return m.Bucket.Create(ctx, name, body, size) })
}

func (m mortalBucket) Delete(ctx context.Context, name string) error {
	return m.change(func() error { return m.Bucket.Delete(ctx, name) })
}

type mortalStore struct {
	warm.Store
	*life
}

func (m mortalStore) StartErase(ctx context.Context, e warm.Erasure) error {
	return m.change(func() error { return m.Store.StartErase(ctx, e) })
}

func (m mortalStore) EraseKeys(ctx context.Context, id string, limit int) (e warm.Erasure, more bool, err error) {
	err = m.change(func() (err error) {
		e, more, err = m.Store.EraseKeys(ctx, id, limit)
		return err
	})
	return e, more, err
}

func (m mortalStore) StartSegment(ctx context.Context, s tiering.SegmentInfo) error {
	return m.change(func() error { return m.Store.StartSegment(ctx, s) })
}

func (m mortalStore) ReplaceSegments(ctx context.Context, s tiering.SegmentInfo, l []tiering.Location, old []string) error {
	return m.change(func() error { return m.Store.ReplaceSegments(ctx, s, l, old) })
}

func (m mortalStore) DropIntent(ctx context.Context, name string) (dropped bool, err error) {
	err = m.change(func() (err error) {
		dropped, err = m.Store.DropIntent(ctx, name)
		return err
	})
	return dropped, err
}

func (m mortalStore) AbandonSegment(ctx context.Context, name string) error {
	return m.change(func() error { return m.Store.AbandonSegment(ctx, name) })
}

func (m mortalStore) ForgetSegment(ctx context.Context, name string) error {
	return m.change(func() error { return m.Store.ForgetSegment(ctx, name) })
}

// dueForAll is a node where a run has something of everything to do: segments
// to merge, versions and a deleted key to drop, objects past their grace, a
// stranger. It returns what has to be left of it in the end.
func dueForAll(t *testing.T) (n *node, want map[string]string) {
	n = newNode(t, lifecycle.Config{MergeCount: 2})
	n.policy("notes", tenDays)
	for range 4 {
		n.put("a")
		n.put("b")
		n.flush()
	}
	n.del("b")
	n.put("c")
	n.flush()
	n.gc()
	n.pass(2 * time.Hour)
	n.sweep()
	for range 3 {
		n.put("c")
		n.flush()
	}
	n.stranger(tiering.Backup, n.archive.Name(n.clock(), 9), n.epoch(), nil, tiering.Range{From: 1, To: 2})
	n.pass(11 * day)
	return n, map[string]string{"a": "put3 put4", "b": "", "c": "put3 put4"}
}

// dying is an engine over n that makes so many changes and then dies.
func (n *node) dying(l *life) *lifecycle.Engine {
	c := n.config
	c.Warm = mortalStore{n.store, l}
	c.Archive = cold.NewArchive(mortalBucket{n.memory[0], l}, mortalBucket{n.memory[1], l}, nil)
	return lifecycle.New(c)
}

// A run that is killed at any change it makes, before or after that takes
// effect, loses nothing and leaves nothing: the next one mends it.
func TestARunIsKilledAtEveryStep(t *testing.T) {
	const plenty = 1000
	n, _ := dueForAll(t)
	whole := &life{left: plenty}
	if _, err := n.dying(whole).GC(n.ctx, false); err != nil || whole.dead {
		t.Fatal(err)
	}
	changes := plenty - whole.left
	if changes < 15 {
		t.Fatalf("a run makes %d changes alone", changes)
	}
	for step := range changes {
		for _, after := range []bool{false, true} {
			at := "before"
			if after {
				at = "after"
			}
			t.Run(fmt.Sprint(at, " change ", step), func(t *testing.T) {
				killed(t, &life{left: step, after: after})
			})
		}
	}
}

func killed(t *testing.T, l *life) {
	n, want := dueForAll(t)
	if _, err := n.dying(l).GC(n.ctx, false); !l.dead {
		t.Fatalf("it lived on: %v", err)
	}
	n.consistent()
	if got := n.resurrected(); len(got) > 0 {
		t.Fatalf("a rebuild brings back %v", got)
	}
	for _, v := range []int64{3, 4} {
		if _, ok := n.fromCold(key("a"), v); !ok {
			t.Fatalf("version %d is gone", v)
		}
	}
	n.pass(25 * time.Hour)
	n.settle()
	n.settle()
	for id, records := range want {
		if got := n.records(key(id)); got != records {
			t.Errorf("in the end cold holds %q of %s, want %q", got, id, records)
		}
	}
	n.tidy()
}

// tidy fails the test unless the buckets hold the finished segments and
// nothing else, and the catalog too.
func (n *node) tidy() {
	n.Helper()
	n.consistent()
	var names []string
	for _, s := range n.segments("") {
		if s.State != tiering.SegmentFinished {
			n.Errorf("in the end segment %s is %s", s.Name, s.State)
		}
		names = append(names, s.Name)
	}
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if got := n.names(c); !slices.Equal(got, names) {
			n.Errorf("in the end %s holds %v, the catalog %v", c, got, names)
		}
	}
}

// hastyStore is a merge that deletes the sources before the catalog gives them
// up, and dies there.
type hastyStore struct {
	warm.Store
	n *node
}

func (h hastyStore) ReplaceSegments(ctx context.Context, s tiering.SegmentInfo, l []tiering.Location, old []string) error {
	for _, name := range old {
		for _, b := range h.n.memory {
			if err := b.Delete(ctx, name); err != nil {
				return err
			}
		}
	}
	return errDead
}

// The check above is worth something: objects that go before the catalog gives
// them up are missed.
func TestDeletingObjectsBeforeTheCatalogLosesThem(t *testing.T) {
	n, _ := dueForAll(t)
	c := n.config
	c.Warm = hastyStore{n.store, n}
	if _, err := lifecycle.New(c).GC(n.ctx, false); err == nil {
		t.Fatal("the hasty run did not die")
	}
	if err := n.lost(); err == nil {
		t.Error("nothing is missed: the check sees nothing")
	}
}
