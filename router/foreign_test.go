package router

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// Whose a document is gets judged before any condition: whatever a key limited
// to a user guesses of another user's document, it is told what the same write
// without a condition is told, and no version.
func TestConditionsTellNothingOfForeignDocuments(t *testing.T) {
	w := open(t, setup{})
	ann := w.scoped(tiering.Scope{User: "ann"})
	conditions := []tiering.Condition{
		tiering.IfAbsent(), tiering.IfExists(), tiering.IfVersion(1), tiering.IfVersion(2), tiering.IfVersion(7),
	}
	make := func(id string) {
		for _, body := range []string{`{"n":1}`, `{"n":2}`} {
			_, err := w.r.Put(w.ctx, space, id, []byte(body), &tiering.PutOptions{User: "bob"})
			w.no(err)
		}
	}
	for _, v := range verbs() {
		make(v.name)
		_, want := v.run(w.ctx, ann, space, v.name, tiering.WriteOptions{})
		for _, c := range conditions {
			for _, key := range []string{"", v.name + c.String()} {
				if len(key) > 0 {
					key = tiering.DigestOf([]byte(key)).String()
				}
				_, err := v.run(w.ctx, ann, space, v.name, tiering.WriteOptions{If: c, IdempotencyKey: key})
				if p, q := tiering.ProblemOf(err), tiering.ProblemOf(want); p.Code != q.Code || p.Detail != q.Detail || p.CurrentVersion != nil {
					t.Errorf("%s with %s, Idempotency-Key %q: %v, without a condition: %v", v.name, c, key, err, want)
				}
			}
		}
		if got := w.strong(v.name); got != `{"n":2}` {
			t.Errorf("%s left %s", v.name, got)
		}
	}
	make("batched")
	for _, op := range []tiering.BatchOp{
		{Op: "put", Data: []byte(`{"n":1}`)}, {Op: "patch", Data: []byte(`{"n":1}`)}, {Op: "edit", Ops: increment}, {Op: "delete"},
	} {
		for _, isAtomic := range []bool{false, true} {
			for _, n := range []int64{0, 1, 2, 7} {
				op.Namespace, op.ID, op.IfVersion = space, "batched", &n
				p := problemOfOne(w, ann, op, isAtomic)
				if p == nil || p.Code != tiering.CodeForbidden || p.CurrentVersion != nil {
					t.Errorf("%s if version %d, atomic %t: %+v", op.Op, n, isAtomic, p)
				}
			}
		}
	}
}

// problemOfOne runs a batch of one operation and returns what is wrong with it.
func problemOfOne(w *world, r *Router, op tiering.BatchOp, isAtomic bool) *tiering.Problem {
	w.Helper()
	res, err := r.Batch(w.ctx, &tiering.Batch{Atomic: isAtomic, Ops: []tiering.BatchOp{op}})
	if err != nil {
		return tiering.ProblemOf(err)
	}
	return res.Results[0].Error
}

// A read of another user's document, whatever it asks for, is answered like a
// read of a key that never was.
func TestReadsTellNothingOfForeignDocuments(t *testing.T) {
	w := open(t, setup{})
	ann := w.scoped(tiering.Scope{User: "ann"})
	began := w.clock.Now()
	for range 3 {
		for _, id := range []string{"stands", "deleted"} {
			_, err := w.r.Put(w.ctx, space, id, []byte(`{"n":1}`), &tiering.PutOptions{User: "bob"})
			w.no(err)
		}
	}
	w.delete("deleted")
	told := func(err error) string {
		if err == nil {
			return "nothing is wrong"
		}
		p := tiering.ProblemOf(err)
		if p.CurrentVersion != nil {
			return fmt.Sprint(p.Code, p.Detail, *p.CurrentVersion)
		}
		return fmt.Sprint(p.Code, p.Detail)
	}
	for _, id := range []string{"stands", "deleted"} {
		for _, o := range []tiering.GetOptions{
			{Version: 1}, {Version: 3}, {Version: 4}, {Version: 9}, {MinVersion: 1}, {MinVersion: 3}, {MinVersion: 9},
			{MinVersion: 1, Strong: true}, {MinVersion: 9, Strong: true}, {AsOf: w.clock.Now()}, {AsOf: began.Add(1)},
		} {
			for _, warmed := range []bool{true, false} {
				if warmed {
					_, _ = w.r.Get(w.ctx, space, id, nil) // so that hot has it, if it stands
				} else {
					w.evict(id)
				}
				_, err := ann.Get(w.ctx, space, id, &o)
				_, want := ann.Get(w.ctx, space, "never", &o)
				if told(err) != told(want) {
					t.Errorf("%s, %+v: %s; of a key that never was: %s", id, o, told(err), told(want))
				}
			}
		}
		for _, isAtomic := range []bool{false, true} {
			for _, name := range []string{"get", "check"} {
				for _, n := range []int64{0, 3, 4, 9} {
					op := tiering.BatchOp{Op: name, Namespace: space, ID: id, IfVersion: &n}
					p := problemOfOne(w, ann, op, isAtomic)
					op.ID = "never"
					want := problemOfOne(w, ann, op, isAtomic)
					if (p == nil) != (want == nil) || p != nil && told(p.Error()) != told(want.Error()) {
						t.Errorf("%s %s if version %d, atomic %t: %+v; of a key that never was: %+v", name, id, n, isAtomic, p, want)
					}
				}
			}
		}
	}
}
