package router

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// What cannot read the document it starts from is told so: nobody waits for
// ever, and Close does not either.
func TestWritersWhoseBaseCannotBeRead(t *testing.T) {
	for _, v := range verbs() {
		t.Run(v.name, func(t *testing.T) {
			w := open(t, setup{})
			w.put("k", `{"n":1}`)
			w.put("k", `{"n":2}`)
			w.evict("k")
			down := func() error { return errHotLost }
			w.fail("warm.Load", down)
			w.fail("warm.Version", down)
			release := w.blockQueue()
			var tries []func() (*tiering.Receipt, error)
			for range 3 {
				tries = append(tries, call(w, func() (*tiering.Receipt, error) {
					return v.run(w.ctx, w.r, space, "k", tiering.WriteOptions{})
				}))
			}
			release()
			needs := v.name != "put" && v.name != "delete" && v.name != "touch" && v.name != "pin"
			for _, try := range tries {
				if _, err := try(); needs && tiering.CodeOf(err) != tiering.CodeUnavailable || !needs && err != nil {
					t.Errorf("the answer is %v", err)
				}
			}
			w.fail("warm.Load", nil)
			w.fail("warm.Version", nil)
			rc, err := v.run(w.ctx, w.r, space, "k", tiering.WriteOptions{})
			if v.name == "touch" || v.name == "pin" || !needs || err == nil {
				w.no(err)
			} else {
				t.Errorf("once warm is back: %+v, %v", rc, err)
			}
		})
	}
}

// With warm down hot serves what it holds; everything else is unavailable,
// never not found, and writes are not acknowledged.
func TestWarmDown(t *testing.T) {
	w := open(t, setup{})
	w.put("hot", `{"n":1}`)
	w.put("cold", `{"n":1}`)
	w.evict("cold")
	w.failAll(func(call string) error {
		if len(call) > 5 && call[:5] == "warm." {
			return errHotLost
		}
		return nil
	})
	if got := w.get("hot"); got != `{"n":1}` {
		t.Errorf("what hot holds is answered with %q", got)
	}
	for name, get := range map[string]func() (*tiering.Document, error){
		"a miss":      func() (*tiering.Document, error) { return w.r.Get(w.ctx, space, "cold", nil) },
		"an absentee": func() (*tiering.Document, error) { return w.r.Get(w.ctx, space, "nobody", nil) },
		"a strong get": func() (*tiering.Document, error) {
			return w.r.Get(w.ctx, space, "hot", &tiering.GetOptions{Strong: true})
		},
		"a default": func() (*tiering.Document, error) {
			return w.r.Get(w.ctx, space, "nobody", &tiering.GetOptions{Default: []byte(`1`)})
		},
	} {
		if d, err := get(); tiering.CodeOf(err) != tiering.CodeUnavailable || !tiering.Retryable(err) {
			t.Errorf("%s is answered with %+v, %v", name, d, err)
		}
	}
	for _, v := range verbs() {
		if _, err := v.run(w.ctx, w.r, space, "other", tiering.WriteOptions{}); err == nil {
			t.Errorf("%s is acknowledged", v.name)
		}
	}
	w.failAll(nil)
	if got := w.get("cold"); got != `{"n":1}` {
		t.Errorf("once warm is back a get answers %q", got)
	}
}

// A commit whose reply is lost is settled by its batch's id: the writer is told
// what became of it.
func TestLostReplies(t *testing.T) {
	lost := true
	w := open(t, setup{afterCommit: func() error {
		if lost {
			return errReplyLost
		}
		return nil
	}})
	for i, v := range []int64{1, 2, 3} {
		if rc := w.put("k", `{"n":1}`); rc.Version != v {
			t.Errorf("write %d made version %d", i, rc.Version)
		}
	}
	res, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{{Op: "edit", Namespace: space, ID: "k", Ops: increment}}})
	w.no(err)
	if rc := res.Results[0].Receipt; rc.Version != 4 {
		t.Errorf("the batch made version %d", rc.Version)
	}
	lost = false
	if got := w.strong("k"); got != `{"n":2}` {
		t.Errorf("it is %s", got)
	}
}

// unresolved loses replies and cannot say what became of the commits.
type unresolved struct{ warm.Store }

func (u unresolved) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	if subject(b).Reserved() {
		return u.Store.Commit(ctx, b)
	}
	if _, err := u.Store.Commit(ctx, b); err != nil {
		return nil, err
	}
	return nil, warm.ErrOutcomeUnknown
}

func (unresolved) Resolve(context.Context, *warm.Batch) ([][]warm.Result, bool, error) {
	return nil, false, errHotLost
}

// An outcome that cannot be settled is unavailable, not guessed; readers go to
// warm until the mark lapses.
func TestOutcomeThatStaysUnknown(t *testing.T) {
	broken := true
	w := open(t, setup{
		warm:   func(s warm.Store) warm.Store { return sometimes{Store: s, broken: unresolved{s}, on: &broken} },
		config: func(c *Config) { c.CommitTimeout = time.Second },
	})
	broken = false
	w.put("k", `1`)
	broken = true
	_, err := w.r.Put(w.ctx, space, "k", []byte(`2`), nil)
	if tiering.CodeOf(err) != tiering.CodeUnavailable || !errors.Is(err, warm.ErrOutcomeUnknown) {
		t.Fatalf("the answer is %v", err)
	}
	if got := w.get("k"); got != `2` {
		t.Errorf("a cached get answers %s", got)
	}
}

// sometimes commits through a broken store.
type sometimes struct {
	warm.Store
	broken warm.Store
	on     *bool
}

func (s sometimes) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	if *s.on {
		return s.broken.Commit(ctx, b)
	}
	return s.Store.Commit(ctx, b)
}

func (s sometimes) Resolve(ctx context.Context, b *warm.Batch) ([][]warm.Result, bool, error) {
	if *s.on {
		return s.broken.Resolve(ctx, b)
	}
	return s.Store.Resolve(ctx, b)
}

// Close waits until every accepted write is settled, also those whose callers
// left; calls made after it are unavailable.
func TestClose(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `0`)
	commit := w.hold("warm.Commit")
	stays := w.startPut("k", `1`, tiering.Condition{})
	commit.reached(w)
	ctx, leave := context.WithCancel(w.ctx)
	leaves := call(w, func() (*tiering.Receipt, error) { return w.r.Put(ctx, space, "l", []byte(`2`), nil) })
	w.inLine(1)
	leave()
	if _, err := leaves(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		w.r.Close()
	}()
	w.eventually("closing", func() bool { return w.r.open() != nil })
	select {
	case <-closed:
		t.Fatal("it closed before the writes were settled")
	default:
	}
	sets := []*hold{w.hold("hot.Set"), w.hold("hot.Set")}
	commit.release()
	for _, set := range sets {
		set.reached(w)
		select {
		case <-closed:
			t.Fatal("it closed before hot was told")
		case <-time.After(5 * time.Millisecond):
		}
		set.release()
	}
	<-closed
	_, err := stays()
	w.no(err)
	for id, want := range map[string]string{"k": `1`, "l": `2`} {
		cur, err := w.warm.Load(w.ctx, key(id))
		w.no(err)
		if l := w.hotState(id); string(cur.Body) != want || string(l.Entry.Body) != want {
			t.Errorf("%s is %s in warm and %s in hot", id, cur.Body, l.Entry.Body)
		}
	}
	for _, q := range requests() {
		if q.verb == tiering.VerbAdmin || q.name == "namespace" {
			continue
		}
		if err := q.run(w.ctx, w.r, space, "k"); tiering.CodeOf(err) != tiering.CodeUnavailable {
			t.Errorf("%s on a closed router answers %v", q.name, err)
		}
	}
}
