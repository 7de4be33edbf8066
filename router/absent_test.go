package router

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// An explanation of a key that never was promises no copy of it.
func TestExplainOfAnAbsentKey(t *testing.T) {
	w := open(t, setup{})
	w.put("other", `1`)
	e, err := w.r.Explain(w.ctx, space, "k")
	w.no(err)
	if e.State != "absent" || len(e.Copies) != 3 {
		t.Fatalf("got %+v", e)
	}
	for _, c := range e.Copies {
		if c.State != "absent" || c.Version != 0 {
			t.Errorf("a copy is %+v", c)
		}
	}
}

// A delete in an atomic batch makes no namespace, and the rest of the batch is
// done, and done once.
func TestAtomicDeleteMakesNoNamespace(t *testing.T) {
	w := open(t, setup{})
	seven, absent := int64(7), int64(0)
	gone := tiering.BatchOp{Op: "delete", Namespace: "nowhere", ID: "k"}
	run := func(key string, ops ...tiering.BatchOp) (*tiering.BatchResult, error) {
		return w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: ops, IdempotencyKey: key})
	}
	for _, c := range []struct {
		name string
		cond *int64
		want int
	}{{"no condition", nil, 204}, {"if absent", &absent, 204}, {"if a version stands", &seven, 412}} {
		op := gone
		op.IfVersion = c.cond
		res, err := run("", op)
		if got := tiering.ProblemOf(err); err != nil && got.Status != c.want || err == nil && res.Results[0].Status != c.want {
			t.Errorf("%s: %+v, %v", c.name, res, err)
		}
	}
	ops := []tiering.BatchOp{
		{Op: "put", Namespace: space, ID: "b", Data: []byte(`1`)}, gone, {Op: "put", Namespace: space, ID: "a", Data: []byte(`2`)},
		{Op: "get", Namespace: space, ID: "a"},
	}
	for try := range 3 {
		res, err := run("once", ops...)
		w.no(err)
		if res.Replayed != (try > 0) || res.Results[1].Status != 204 || res.Results[1].Receipt.Version != 0 {
			t.Errorf("try %d answers %+v", try, res.Results[1])
		}
		for i, id := range map[int]string{0: "b", 2: "a"} {
			if rc := res.Results[i].Receipt; rc == nil || rc.ID != id || rc.Version != 1 {
				t.Errorf("try %d says of %s %+v", try, id, rc)
			}
		}
		if _, err := w.r.Namespace(w.ctx, "nowhere"); tiering.CodeOf(err) != tiering.CodeNotFound && try < 2 {
			t.Errorf("the batch made the namespace: %v", err)
		}
		if try == 1 { // what the batch did then stays its answer
			_, err := w.r.Put(w.ctx, "nowhere", "k", []byte(`1`), nil)
			w.no(err)
		}
	}
}

// A batch was replayed when all that it changes had been changed before.
func TestBatchIsReplayedWhenAllOfItIs(t *testing.T) {
	w := open(t, setup{})
	ops := []tiering.BatchOp{
		{Op: "put", Namespace: space, ID: "a", Data: []byte(`1`)}, {Op: "get", Namespace: space, ID: "a"},
		{Op: "edit", Namespace: space, ID: "b", Ops: increment},
	}
	run := func(key string, ops []tiering.BatchOp) bool {
		res, err := w.r.Batch(w.ctx, &tiering.Batch{Ops: ops, IdempotencyKey: key})
		w.no(err)
		return res.Replayed
	}
	for _, c := range []struct {
		name string
		key  string
		ops  []tiering.BatchOp
		want bool
	}{
		{"the first try", "k", ops, false}, {"the second", "k", ops, true}, {"no key", "", ops, false},
		{"one more operation", "k", append(ops, tiering.BatchOp{Op: "delete", Namespace: space, ID: "c"}), false},
		{"that again", "k", append(ops, tiering.BatchOp{Op: "delete", Namespace: space, ID: "c"}), true},
		{"reads alone", "r", ops[1:2], false}, {"and again", "r", ops[1:2], false},
	} {
		if got := run(c.key, c.ops); got != c.want {
			t.Errorf("%s: replayed %t", c.name, got)
		}
	}
}

// Where no limit is named none is meant; an empty list is no way to say so.
func TestEmptyLimitsAreRefused(t *testing.T) {
	w := open(t, setup{})
	for pointer, s := range map[string]tiering.Scope{
		"/scope/verbs": {Verbs: []tiering.Verb{}}, "/scope/namespaces": {Namespaces: []string{}}, "/scope/prefixes": {Prefixes: []string{}},
	} {
		_, err := w.r.CreateKey(w.ctx, tiering.APIKey{Scope: s})
		if p := tiering.ProblemOf(err); p.Status != 422 || p.Pointer != pointer {
			t.Errorf("%s: %v", pointer, err)
		}
	}
	if _, err := w.r.CreateKey(w.ctx, tiering.APIKey{}); err != nil {
		t.Errorf("a key without limits: %v", err)
	}
}

// Status and the refusals of a full disk name no file.
func TestRemoteCallersSeeNoPaths(t *testing.T) {
	w := open(t, setup{warm: func(s warm.Store) warm.Store { return failing{s} }})
	s, err := w.r.Status(w.ctx)
	w.no(err)
	for _, tier := range s.Tiers {
		if tier.Tier == tiering.Warm && (tier.OK || tier.Error == "" || strings.Contains(tier.Error, string(filepath.Separator))) {
			t.Errorf("warm is told as %+v", tier)
		}
	}
}

// failing is a warm store whose figures cannot be had.
type failing struct{ warm.Store }

func (f failing) Stats(context.Context) (warm.Stats, error) {
	return warm.Stats{}, errors.New("/var/lib/tierd/warm.db: unable to open database file")
}

// A read that neither cold copy served says so; one that its caller ended, or
// that found damage, says that.
func TestColdFailuresSayWhat(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"unreachable": {&tiering.Error{Code: tiering.CodeUnavailable, Err: errors.New("dial 10.0.0.7")}, "neither cold copy can be reached"},
		"foreign":     {errors.New("dial 10.0.0.7"), "neither cold copy can be reached"},
		"left":        {context.Canceled, "the caller went away"},
		"damaged":     {&tiering.Error{Code: tiering.CodeCorrupt}, "stored bytes are damaged"},
	} {
		if got := tiering.ProblemOf(coldFailed(c.err, key("k"))).Detail; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s is told as %q, want %q", name, got, c.want)
		}
	}
	if err := coldFailed(nil, key("k")); err != nil {
		t.Errorf("nothing wrong is told as %v", err)
	}
}
