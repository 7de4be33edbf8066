package router

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// node is another router over the same tiers.
func (w *world) node() *Router {
	w.Helper()
	r := New(Config{Hot: w.hot, Warm: w.warm, Clock: w.clock.Now})
	w.Cleanup(r.Close)
	return r
}

// A write that was computed on a base which moved before its commit is computed
// again, and its condition judged again.
func TestBaseThatMoved(t *testing.T) {
	for _, c := range []struct {
		name string
		o    tiering.WriteOptions
		want string
		code tiering.Code
	}{
		{"no condition", tiering.WriteOptions{}, `{"n":11}`, ""},
		{"a condition that still holds", tiering.WriteOptions{If: tiering.IfExists()}, `{"n":11}`, ""},
		{"a condition that no longer holds", tiering.WriteOptions{If: tiering.IfVersion(1)}, `{"n":10}`, tiering.CodeVersionConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t, setup{})
			w.put("k", `{"n":1}`)
			commit := w.hold("warm.Commit")
			edit := call(w, func() (*tiering.Edited, error) { return w.r.Apply(w.ctx, space, "k", increment, &c.o) })
			commit.reached(w)
			_, err := w.node().Put(w.ctx, space, "k", []byte(`{"n":10}`), nil)
			w.no(err)
			commit.release()
			_, err = edit()
			if tiering.CodeOf(err) != c.code {
				t.Errorf("the edit answers %v", err)
			}
			if got := w.strong("k"); got != c.want {
				t.Errorf("it left %s, want %s", got, c.want)
			}
		})
	}
}

// An old value that hot could not be rid of is a guess for an edit to start
// from, never its base.
func TestEditOverAnOldValueInHot(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1,"s":"x"}`)
	w.fail("hot.Mark", func() error { return errHotLost })
	w.fail("hot.Set", func() error { return errHotLost })
	w.put("k", `{"n":10}`)
	if l := w.hotState("k"); l.Entry.Meta.Version != 1 {
		t.Fatalf("hot holds version %d", l.Entry.Meta.Version)
	}
	for _, try := range []struct {
		name string
		run  func() error
		want string
	}{
		{"an edit", func() error { _, err := w.r.Apply(w.ctx, space, "k", increment, nil); return err }, `{"n":11}`},
		{"an edit that fails on the old value", func() error {
			_, err := w.r.Apply(w.ctx, space, "k", []tiering.EditOp{{Op: "append", Pointer: "/s", Value: []byte(`1`)}}, nil)
			return err
		}, `{"n":11,"s":[1]}`},
		{"a conditional patch", func() error {
			_, err := w.r.Patch(w.ctx, space, "k", tiering.MergePatch, []byte(`{"n":5}`), &tiering.WriteOptions{If: tiering.IfVersion(4)})
			return err
		}, `{"n":5,"s":[1]}`},
	} {
		if err := try.run(); err != nil {
			t.Errorf("%s answers %v", try.name, err)
		}
		if got := w.strong("k"); got != try.want {
			t.Errorf("%s left %s, want %s", try.name, got, try.want)
		}
	}
}

// Writes of one key that wait together are done in the order they came, each a
// version; one that cannot be done leaves the others alone.
func TestWritesOfOneKeyInOrder(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1}`)
	release := w.blockQueue()
	put := func(body string) func() (*tiering.Receipt, error) { return w.startPut("k", body, tiering.Condition{}) }
	edit := func(op tiering.EditOp) func() (*tiering.Receipt, error) {
		return call(w, func() (*tiering.Receipt, error) {
			e, err := w.r.Apply(w.ctx, space, "k", []tiering.EditOp{op}, nil)
			if err != nil {
				return nil, err
			}
			return &e.Receipt, nil
		})
	}
	var tries []func() (*tiering.Receipt, error)
	for i, start := range []func() func() (*tiering.Receipt, error){
		func() func() (*tiering.Receipt, error) { return edit(increment[0]) }, // 2: n 2
		func() func() (*tiering.Receipt, error) { return put(`{"n":[1]}`) },   // 3
		func() func() (*tiering.Receipt, error) { return edit(increment[0]) }, // fails
		func() func() (*tiering.Receipt, error) {
			return edit(tiering.EditOp{Op: "append", Pointer: "/n", Value: []byte(`7`)})
		}, // 4: n [1,7]
		func() func() (*tiering.Receipt, error) { return put(`{"n":5}`) },          // 5
		func() func() (*tiering.Receipt, error) { return edit(increment[0]) },      // 6: n 6
		func() func() (*tiering.Receipt, error) { return w.startDelete("k") },      // 7
		func() func() (*tiering.Receipt, error) { return edit(increment[0]) },      // 8: n 1
		func() func() (*tiering.Receipt, error) { return w.startPutNew("k", `3`) }, // refused
	} {
		tries = append(tries, start())
		w.inLine(i + 1)
	}
	release()
	var got []string
	for _, try := range tries {
		rc, err := try()
		if err != nil {
			got = append(got, string(tiering.CodeOf(err)))
			continue
		}
		got = append(got, fmt.Sprint(rc.Version))
	}
	if s := fmt.Sprint(got); s != "[2 3 invalid 4 5 6 7 8 version_conflict]" {
		t.Errorf("the writes answer %s", s)
	}
	for v, want := range map[int64]string{2: `{"n":2}`, 3: `{"n":[1]}`, 4: `{"n":[1,7]}`, 5: `{"n":5}`, 6: `{"n":6}`, 8: `{"n":1}`} {
		if body := w.read("k", &tiering.GetOptions{Version: v}); body != want {
			t.Errorf("version %d is %s, want %s", v, body, want)
		}
	}
}

func (w *world) startDelete(id string) func() (*tiering.Receipt, error) {
	return call(w, func() (*tiering.Receipt, error) { return w.r.Delete(w.ctx, space, id, nil) })
}

func (w *world) startPutNew(id, body string) func() (*tiering.Receipt, error) {
	return w.startPut(id, body, tiering.IfAbsent())
}

// Writes that wait together for one commit share it: many on one key are a few
// statements.
func TestWaitingWritesShareACommit(t *testing.T) {
	w := open(t, setup{})
	w.put("n", `{"n":0}`)
	release := w.blockQueue()
	before := w.count("warm.Commit")
	var tries []func() (*tiering.Edited, error)
	for range 200 {
		tries = append(tries, call(w, func() (*tiering.Edited, error) { return w.r.Apply(w.ctx, space, "n", increment, nil) }))
	}
	w.inLine(200)
	release()
	for _, try := range tries {
		_, err := try()
		w.no(err)
	}
	if got := w.strong("n"); got != `{"n":200}` {
		t.Errorf("it is %s", got)
	}
	if n := w.count("warm.Commit") - before; n > 3 {
		t.Errorf("200 increments in line took %d commits", n)
	}
}

// Writes of one key that share a commit share a token in hot, and a set: what a
// mark costs grows with the tokens that live.
func TestWritesThatFoldShareAMark(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `0`)
	release := w.blockQueue()
	marks, sets := w.count("hot.Mark"), w.count("hot.Set")
	var tries []func() (*tiering.Receipt, error)
	for i := range 50 {
		tries = append(tries, w.startPut("k", fmt.Sprint(i), tiering.Condition{}))
	}
	w.inLine(50)
	release()
	for _, try := range tries {
		rc, err := try()
		w.no(err)
		if !rc.Hot {
			t.Errorf("the answer of version %d says that hot did not take it", rc.Version)
		}
	}
	// The blocker has its set too.
	if m, s := w.count("hot.Mark")-marks, w.count("hot.Set")-sets; m != 1 || s != 2 {
		t.Errorf("50 writes of one key cost %d marks and %d sets", m, s)
	}
	if l := w.hotState("k"); l.Entry.Meta.Version != 51 {
		t.Errorf("hot is at version %d", l.Entry.Meta.Version)
	}
}

// Every key of a batch loses its own token, in whatever order the writes came:
// a token left behind keeps its key out of hot until it lapses.
func TestEveryKeyOfABatchLosesItsToken(t *testing.T) {
	w := open(t, setup{})
	ids := []string{"m", "b", "x", "a", "k", "c"}
	for _, id := range ids {
		w.put(id, `0`)
	}
	absent := tiering.IfAbsent()
	for _, c := range []struct {
		name    string
		refused map[string]bool // writes that ask for the key to be absent
		want    string
	}{
		{"all commit", nil, `1`},
		{"some are refused", map[string]bool{"b": true, "k": true}, `2`},
	} {
		release := w.blockQueue()
		var tries []func() (*tiering.Receipt, error)
		for _, id := range ids {
			cond := tiering.Condition{}
			if c.refused[id] {
				cond = absent
			}
			tries = append(tries, w.startPut(id, c.want, cond))
			w.inLine(len(tries))
		}
		release()
		for i, try := range tries {
			if _, err := try(); (err != nil) != c.refused[ids[i]] {
				t.Fatalf("%s: %s: %v", c.name, ids[i], err)
			}
		}
		for _, id := range ids {
			l, want := w.hotState(id), hot.Present
			if c.refused[id] {
				want = hot.Empty
			}
			if l.State != want || want == hot.Present && string(l.Entry.Body) != c.want {
				t.Errorf("%s: hot is in state %d of %s, at %s", c.name, l.State, id, l.Entry.Body)
			}
		}
	}
}

// A mark whose answer is lost may be there all the same: the writer takes its
// token away with the outcome, whatever that is.
func TestATokenGoesThoughTheAnswerOfItsMarkWasLost(t *testing.T) {
	for _, c := range []struct {
		name string
		cond tiering.Condition
		want string
	}{
		{"committed", tiering.Condition{}, `2`},
		{"refused", tiering.IfAbsent(), `1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t, setup{})
			w.put("k", `1`)
			w.kill("hot.Mark/after")
			if _, err := w.startPut("k", `2`, c.cond)(); (err != nil) != (c.want == `1`) {
				t.Fatal(err)
			}
			if l := w.hotState("k"); l.State == hot.Pending {
				t.Error("the key is pending behind the write")
			}
			if got := w.get("k"); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
			if l := w.hotState("k"); l.State != hot.Present {
				t.Errorf("hot is in state %d behind a read", l.State)
			}
		})
	}
}
