package router

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// A write repeated with its Idempotency-Key happens once and answers its first
// result, whatever the verb, and whatever was written since.
func TestIdempotentReplay(t *testing.T) {
	for _, v := range verbs() {
		t.Run(v.name, func(t *testing.T) {
			w := open(t, setup{})
			w.put("k", `{"n":1}`)
			w.put("k", `{"n":2}`)
			o := tiering.WriteOptions{IdempotencyKey: "once"}
			first, err := v.run(w.ctx, w.r, space, "k", o)
			w.no(err)
			w.clock.advance(time.Minute)
			w.put("k", `{"n":50}`)
			stands, err := w.r.Head(w.ctx, space, "k", nil)
			w.no(err)
			for range 2 {
				again, err := v.run(w.ctx, w.r, space, "k", o)
				w.no(err)
				if !again.Replayed {
					t.Fatalf("it was done again: %+v", again)
				}
				again.Replayed, again.Hot = false, first.Hot
				if !reflect.DeepEqual(again, first) {
					t.Errorf("the repeat answers\n%+v, the first try answered\n%+v", again, first)
				}
			}
			after, err := w.r.Head(w.ctx, space, "k", nil)
			w.no(err)
			if !reflect.DeepEqual(after, stands) || w.strong("k") != `{"n":50}` {
				t.Errorf("the repeat left %+v, %s", after, w.strong("k"))
			}
		})
	}
}

// The values of an edit are replayed as they were.
func TestIdempotentEditReplaysItsValues(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1}`)
	o := &tiering.WriteOptions{IdempotencyKey: "once"}
	edit := func() *tiering.Edited {
		e, err := w.r.Apply(w.ctx, space, "k", []tiering.EditOp{{Op: "increment", Pointer: "/n"}, {Op: "set", Pointer: "/s", Value: []byte(`"x"`)}}, o)
		w.no(err)
		return e
	}
	first := edit()
	w.put("k", `{"n":"no number"}`) // the edit could not be done now
	again := edit()
	if !again.Replayed || !reflect.DeepEqual(again.Values, first.Values) || again.Version != first.Version {
		t.Errorf("the repeat answers %+v, the first try answered %+v", again, first)
	}
}

// The same key with another request is a mismatch, and changes nothing.
func TestIdempotencyMismatch(t *testing.T) {
	o := tiering.WriteOptions{IdempotencyKey: "once"}
	for _, v := range verbs() {
		t.Run(v.name, func(t *testing.T) {
			w := open(t, setup{})
			w.put("k", `{"n":1}`)
			w.put("other", `{"n":1}`)
			_, err := w.r.Put(w.ctx, space, "k", []byte(`{"n":2}`), &tiering.PutOptions{WriteOptions: o})
			w.no(err)
			for id, opts := range map[string]tiering.WriteOptions{
				"other": o,
				"k":     {IdempotencyKey: "once", If: tiering.IfVersion(2)},
			} {
				_, err = v.run(w.ctx, w.r, space, id, opts)
				if p := tiering.ProblemOf(err); p.Code != tiering.CodeIdempotencyMismatch || p.Status != 422 {
					t.Errorf("%s of %s answers %v", v.name, id, err)
				}
			}
			if w.strong("k") != `{"n":2}` || w.strong("other") != `{"n":1}` {
				t.Errorf("it left %s and %s", w.strong("k"), w.strong("other"))
			}
		})
	}
}

// An undelete is the same request when it is repeated, though the document has
// an owner again.
func TestIdempotentUndelete(t *testing.T) {
	w := open(t, setup{})
	_, err := w.r.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{User: "ann"})
	w.no(err)
	w.delete("k")
	for i := range 2 {
		rc, err := w.r.Rollback(w.ctx, space, "k", 1, &tiering.WriteOptions{IdempotencyKey: "once"})
		w.no(err)
		if rc.Version != 3 || rc.User != "ann" || rc.Replayed != (i == 1) {
			t.Errorf("try %d answers %+v", i, rc)
		}
	}
}

// A failed condition stores nothing: the same request may succeed later.
func TestFailedConditionIsNotRemembered(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `1`)
	put := func() error {
		_, err := w.r.Put(w.ctx, space, "k", []byte(`9`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: "once", If: tiering.IfVersion(2)}})
		return err
	}
	if err := put(); tiering.CodeOf(err) != tiering.CodeVersionConflict {
		t.Fatal(err)
	}
	w.put("k", `2`)
	w.no(put())
	if got := w.strong("k"); got != `9` {
		t.Errorf("it left %s", got)
	}
}

// Equal requests that come at once are one write.
func TestIdempotentTwins(t *testing.T) {
	w := open(t, setup{})
	w.put("n", `{"n":0}`)
	release := w.blockQueue()
	var tries []func() (*tiering.Edited, error)
	for range 8 {
		tries = append(tries, call(w, func() (*tiering.Edited, error) {
			return w.r.Apply(w.ctx, space, "n", increment, &tiering.WriteOptions{IdempotencyKey: "once"})
		}))
	}
	w.inLine(8)
	release()
	replayed := 0
	for _, try := range tries {
		e, err := try()
		w.no(err)
		if string(e.Values[0]) != "1" {
			t.Errorf("one of them answers %s", e.Values)
		}
		if e.Replayed {
			replayed++
		}
	}
	if got := w.strong("n"); got != `{"n":1}` || replayed != 7 {
		t.Errorf("8 equal requests made %s, %d were replays", got, replayed)
	}
}

func batchOps() []tiering.BatchOp {
	return []tiering.BatchOp{
		{Op: "put", Namespace: space, ID: "new", Data: []byte(`{"n":1}`)},
		{Op: "get", Namespace: space, ID: "new"},
		{Op: "edit", Namespace: space, ID: "k", Ops: increment},
		{Op: "delete", Namespace: space, ID: "dead"},
		{Op: "delete", Namespace: space, ID: "nobody"},
		{Op: "get", Namespace: space, ID: "k"},
		{Op: "edit", Namespace: space, ID: "k", Ops: increment},
	}
}

// A batch repeated with its Idempotency-Key happens once and answers the same
// statuses, receipts, documents and values; other operations under the key are
// a mismatch.
func TestIdempotentBatch(t *testing.T) {
	for name, isAtomic := range map[string]bool{"atomic": true, "not atomic": false} {
		t.Run(name, func(t *testing.T) {
			w := open(t, setup{})
			w.put("k", `{"n":1}`)
			w.put("dead", `1`)
			b := tiering.Batch{Atomic: isAtomic, Ops: batchOps(), IdempotencyKey: "once"}
			first, err := w.r.Batch(w.ctx, &b)
			w.no(err)
			again, err := w.r.Batch(w.ctx, &b)
			w.no(err)
			if first.Replayed || !again.Replayed {
				t.Errorf("replayed is %t, then %t", first.Replayed, again.Replayed)
			}
			for i := range first.Results {
				a, f := again.Results[i], first.Results[i]
				if a.Receipt != nil {
					if !a.Receipt.Replayed {
						t.Errorf("operation %d was done again", i)
					}
					a.Receipt.Replayed, a.Receipt.Hot = false, f.Receipt.Hot
				}
				if b.Ops[i].Op == "get" && !isAtomic {
					continue // a read answers what stands now
				}
				if got, want := asJSON(t, a), asJSON(t, f); got != want {
					t.Errorf("operation %d answers\n%s, at first\n%s", i, got, want)
				}
			}
			if got := w.strong("k"); got != `{"n":3}` {
				t.Errorf("it left %s", got)
			}
			b.Ops[0].Data = []byte(`{"n":2}`)
			other, err := w.r.Batch(w.ctx, &b)
			p := tiering.ProblemOf(err)
			if !isAtomic {
				p = other.Results[0].Error
			}
			if p == nil || p.Code != tiering.CodeIdempotencyMismatch {
				t.Errorf("another batch under the key answers %+v, %v", other, err)
			}
		})
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A stored answer is not replayed to another user's key: it may hold documents
// that are not that user's to see.
func TestIdempotentBatchOfAnotherUser(t *testing.T) {
	w := open(t, setup{})
	_, err := w.r.Put(w.ctx, space, "k", []byte(`1`), &tiering.PutOptions{User: "ann"})
	w.no(err)
	b := &tiering.Batch{Atomic: true, IdempotencyKey: "once", Ops: []tiering.BatchOp{{Op: "get", Namespace: space, ID: "k"}}}
	_, err = w.scoped(tiering.Scope{User: "ann"}).Batch(w.ctx, b)
	w.no(err)
	res, err := w.scoped(tiering.Scope{User: "bob"}).Batch(w.ctx, b)
	if tiering.CodeOf(err) != tiering.CodeIdempotencyMismatch {
		t.Errorf("another user was answered %+v, %v", res, err)
	}
}

// A get in an atomic batch names the version that the batch made before it.
func TestAtomicBatchReadsItsOwnWrites(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":1}`)
	w.put("dead", `1`)
	res, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: batchOps()[2:6]})
	w.no(err)
	d := res.Results[3].Document
	if d.Version != 2 || string(d.Body) != `{"n":2}` || d.Digest != tiering.DigestOf(d.Body) || d.Size != int64(len(d.Body)) {
		t.Errorf("the batch read %+v", d)
	}
}

// A conflict in an atomic batch names the operation and what stands: nothing,
// where there is a tombstone.
func TestAtomicConflictNamesWhatStands(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `1`)
	w.put("dead", `1`)
	w.delete("dead")
	seven := int64(7)
	for id, standing := range map[string]int64{"k": 1, "dead": 0, "nobody": 0} {
		_, err := w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: []tiering.BatchOp{
			{Op: "put", Namespace: space, ID: "x", Data: []byte(`1`)},
			{Op: "put", Namespace: space, ID: id, Data: []byte(`2`), IfVersion: &seven},
		}})
		p := tiering.ProblemOf(err)
		if p.Code != tiering.CodeVersionConflict || *p.CurrentVersion != standing || p.FailedOp == nil || *p.FailedOp != 1 {
			t.Errorf("a condition on %s answers %+v", id, p)
		}
	}
	if got := w.strong("x"); got != "" {
		t.Errorf("a failed batch wrote %s", got)
	}
}
