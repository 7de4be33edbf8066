package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// edits that would answer what stands, if they answered anything.
func prying() []tiering.EditOp {
	return []tiering.EditOp{
		{Op: "increment", Pointer: "/n", By: []byte(`0`)}, {Op: "max", Pointer: "/n", Value: []byte(`0`)},
		{Op: "append", Pointer: "/list", Value: []byte(`1`)}, {Op: "remove_from_set", Pointer: "/list", Value: []byte(`1`)},
	}
}

// A key without the read verb learns nothing of a document from computed
// writes, in any kind of namespace, alone or in a batch.
func TestWritesShowNothingToAKeyThatMayNotRead(t *testing.T) {
	const doc = `{"n":7777,"list":["secret"],"other":"secret"}`
	for _, class := range []tiering.Class{tiering.ClassPersistent, tiering.ClassEphemeral} {
		t.Run(string(class), func(t *testing.T) {
			w := open(t, setup{})
			w.policy(space, tiering.Policy{Class: class})
			blind := w.scoped(tiering.Scope{Verbs: []tiering.Verb{tiering.VerbWrite}})
			// runs are the ways to send one operation.
			runs := map[string]func(op tiering.BatchOp) (values any, err error){
				"alone": func(op tiering.BatchOp) (any, error) {
					if op.Op == "edit" {
						e, err := blind.Apply(w.ctx, space, "k", op.Ops, nil)
						if err != nil {
							return nil, err
						}
						return e.Values, nil
					}
					_, err := blind.Patch(w.ctx, space, "k", patchKind(op.Data), op.Data, nil)
					return nil, err
				},
			}
			for _, isAtomic := range []bool{false, true} {
				if isAtomic && class == tiering.ClassEphemeral {
					continue
				}
				runs[fmt.Sprintf("batch, atomic %t", isAtomic)] = func(op tiering.BatchOp) (any, error) {
					res, err := blind.Batch(w.ctx, &tiering.Batch{Atomic: isAtomic, Ops: []tiering.BatchOp{op}})
					if err == nil && res.Results[0].Error != nil {
						err = res.Results[0].Error.Error()
					}
					if err != nil {
						return nil, err
					}
					return res.Results[0].Values, nil
				}
			}
			for name, run := range runs {
				w.put("k", doc)
				send := func(op tiering.BatchOp) (any, error) {
					op.Namespace, op.ID = space, "k"
					return run(op)
				}
				values, err := send(tiering.BatchOp{Op: "edit", Ops: prying()})
				if err != nil || fmt.Sprint(values) != "[]" {
					t.Errorf("%s: an edit answers %s, %v", name, values, err)
				}
				for _, patch := range []string{
					`[{"op":"test","path":"/n","value":7777}]`, `[{"op":"add","path":"/x","value":1},{"op":"copy","from":"/n","path":"/y"}]`,
					`[{"op":"move","from":"/n","path":"/y"}]`, `[{"OP":"add","op":"test","path":"/n","value":7777,"Op":"add"}]`,
				} {
					if _, err := send(tiering.BatchOp{Op: "patch", Data: []byte(patch)}); tiering.CodeOf(err) != tiering.CodeForbidden {
						t.Errorf("%s: %s answers %v", name, patch, err)
					}
				}
				for _, op := range []tiering.BatchOp{
					{Op: "patch", Data: []byte(`[{"op":"remove","path":"/none/x"}]`)},
					{Op: "edit", Ops: []tiering.EditOp{{Op: "increment", Pointer: "/other"}}},
				} {
					_, err := send(op)
					p := tiering.ProblemOf(err)
					if p.Status != 422 || p.Pointer != "" || len(p.Siblings)+len(p.Errors) > 0 || strings.Contains(p.Detail, "string") {
						t.Errorf("%s: a %s that does not fit answers %+v", name, op.Op, p)
					}
				}
				for _, patch := range []string{`{"m":1}`, `[{"op":"add","path":"/m","value":2}]`} {
					if _, err := send(tiering.BatchOp{Op: "patch", Data: []byte(patch)}); err != nil {
						t.Errorf("%s: %s: %v", name, patch, err)
					}
				}
			}
		})
	}
}

// A replay answers a blind key no values either, and does not take them from
// those who may read.
func TestReplaysShowNothingToAKeyThatMayNotRead(t *testing.T) {
	w := open(t, setup{})
	w.put("k", `{"n":7777}`)
	blind := w.scoped(tiering.Scope{Verbs: []tiering.Verb{tiering.VerbWrite}})
	ops := []tiering.BatchOp{{Op: "edit", Namespace: space, ID: "k", Ops: increment}}
	for _, c := range []struct {
		r    *Router
		want int
	}{{w.r, 1}, {blind, 0}, {w.r, 1}} {
		e, err := c.r.Apply(w.ctx, space, "k", increment, &tiering.WriteOptions{IdempotencyKey: "edit"})
		w.no(err)
		if len(e.Values) != c.want {
			t.Errorf("an edit answers %s, want %d values", e.Values, c.want)
		}
		res, err := c.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: ops, IdempotencyKey: "batch"})
		w.no(err)
		if got := res.Results[0].Values; len(got) != c.want {
			t.Errorf("a batch answers %s, want %d values", got, c.want)
		}
	}
}

// A move by hand takes the write verb, and explains nothing to a key that has
// no other.
func TestMovesExplainNothingToAKeyThatMayNotRead(t *testing.T) {
	w := open(t, setup{})
	w.policy(space, tiering.Policy{Default: []byte(`{"secret":1}`)})
	w.put("k", `{"n":1}`)
	blind := w.scoped(tiering.Scope{Verbs: []tiering.Verb{tiering.VerbWrite}})
	e, err := blind.Promote(w.ctx, space, "k")
	w.no(err)
	if e.Version != 1 || e.State != "live" || e.Copies != nil || e.Policy.Default != nil || e.Next.Move != "" {
		t.Errorf("a promote answers %+v", e)
	}
	if e, err := w.r.Promote(w.ctx, space, "k"); err != nil || len(e.Copies) == 0 {
		t.Errorf("a promote of a key that may read answers %+v, %v", e, err)
	}
}
