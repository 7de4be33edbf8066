package router

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The races of writes that share a commit, and of atomic batches.

// A conditional write does not ride on an unconditional one that it waits
// behind: its condition is judged on what that one made.
func TestRaceR22ConditionalBehindUnconditional(t *testing.T) {
	foldAll := setup{router: func(r *Router) { r.queue.takes = func(*chain, *mutation) bool { return true } }}
	race(t, foldAll, func(w *world) error {
		w.put("k", `1`)
		release := w.blockQueue()
		first := w.startPut("k", `2`, tiering.Condition{})
		w.inLine(1)
		second := w.startPut("k", `3`, tiering.IfVersion(1))
		w.inLine(2)
		release()
		_, err := first()
		w.no(err)
		_, err = second()
		if tiering.CodeOf(err) != tiering.CodeVersionConflict {
			return violatedf("a write on version 1 answers %v where version 2 stood", err)
		}
		return want(w, "after both", "k", `2`)
	})
}

// atomic starts an atomic batch beside the test.
func (w *world) atomic(ops ...tiering.BatchOp) func() (*tiering.BatchResult, error) {
	for i := range ops {
		ops[i].Namespace = space
	}
	return call(w, func() (*tiering.BatchResult, error) {
		return w.writer.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: ops})
	})
}

// meanwhile waits until the call that other ends in is done, or has come to a
// gate behind which the store makes it wait.
func meanwhile[T any](w *world, gate string, start func() func() (T, error)) func() (T, error) {
	w.Helper()
	before := w.count(gate)
	wait := start()
	done := make(chan struct{})
	var v T
	var err error
	go func() {
		defer close(done)
		v, err = wait()
	}()
	w.eventually(gate, func() bool { return w.count(gate) > before })
	select {
	case <-done:
	case <-time.After(300 * time.Millisecond): // a store that locks keeps it waiting
	}
	return func() (T, error) {
		<-done
		return v, err
	}
}

func absent() *int64 { return new(int64) }

// A batch {x, y} against a create of y is written whole or not at all.
func TestRaceR23AtomicBatchAgainstACreate(t *testing.T) {
	race(t, setup{warm: func(s warm.Store) warm.Store { return piecemeal{s} }}, func(w *world) error {
		w.put("other", `0`)
		decided := w.hold("warm.Atomic/decided")
		batch := w.atomic(
			tiering.BatchOp{Op: "put", ID: "x", Data: []byte(`1`), IfVersion: absent()},
			tiering.BatchOp{Op: "put", ID: "y", Data: []byte(`1`), IfVersion: absent()},
		)
		decided.reached(w)
		create := meanwhile(w, "warm.Commit", func() func() (*tiering.Receipt, error) {
			return w.startPut("y", `2`, tiering.IfAbsent())
		})
		decided.release()
		_, batchErr := batch()
		_, createErr := create()
		if (batchErr == nil) == (createErr == nil) {
			return violatedf("the batch answers %v, the create %v", batchErr, createErr)
		}
		x, y := w.strong("x"), w.strong("y")
		if batchErr == nil && (x != `1` || y != `1`) || batchErr != nil && (x != "" || y != `2`) {
			return violatedf("the batch answers %v: x is %q, y is %q", batchErr, x, y)
		}
		return nil
	})
}

// Two batches that each write one key on condition that the other's is absent
// do not both commit.
func TestRaceR23WriteSkew(t *testing.T) {
	race(t, setup{warm: func(s warm.Store) warm.Store { return piecemeal{s} }}, func(w *world) error {
		w.put("other", `0`)
		take := func(mine, theirs string) func() (*tiering.BatchResult, error) {
			return w.atomic(
				tiering.BatchOp{Op: "check", ID: theirs, IfVersion: absent()},
				tiering.BatchOp{Op: "put", ID: mine, Data: []byte(`1`)},
			)
		}
		decided := w.hold("warm.Atomic/decided")
		first := take("x", "y")
		decided.reached(w)
		second := meanwhile(w, "warm.Atomic", func() func() (*tiering.BatchResult, error) { return take("y", "x") })
		decided.release()
		_, firstErr := first()
		_, secondErr := second()
		if (firstErr == nil) == (secondErr == nil) {
			return violatedf("the batches answer %v and %v", firstErr, secondErr)
		}
		if w.strong("x") != "" && w.strong("y") != "" {
			return violatedf("both keys were written")
		}
		return nil
	})
}

// choosy refuses a batch that holds a poisoned row, the whole of it, with err.
type choosy struct {
	warm.Store
	err error
}

func (c choosy) Commit(ctx context.Context, b *warm.Batch) ([][]warm.Result, error) {
	for _, change := range b.Changes {
		if slices.ContainsFunc(change.Rows, func(r warm.Row) bool { return strings.Contains(string(r.Body), "poison") }) {
			return nil, c.err
		}
	}
	return c.Store.Commit(ctx, b)
}

// In a batch of which one caller leaves and one row is refused by the store,
// the others commit and are told so; also where the row was one of a fold.
func TestRaceR32OneRowRefusedOneCallerGone(t *testing.T) {
	refusing := func(err error) setup {
		return setup{warm: func(s warm.Store) warm.Store { return choosy{s, err} }}
	}
	naive := refusing(errors.New("one row is bad: the batch was rolled back"))
	raceOn(t, everywhere(), refusing(tiering.Unprocessablef("", "a row that the database cannot keep")), naive, func(w *world) error {
		w.put("other", `0`)
		w.put("edited", `{"n":1}`)
		release := w.blockQueue()
		line := 0
		put := func(ctx context.Context, id, body string) func() (*tiering.Receipt, error) {
			wait := call(w, func() (*tiering.Receipt, error) { return w.writer.Put(ctx, space, id, []byte(body), nil) })
			line++
			w.inLine(line)
			return wait
		}
		ctx, leave := context.WithCancel(w.ctx)
		a := put(w.ctx, "a", `1`)
		bad := put(w.ctx, "b", `"poison"`)
		gone := put(ctx, "c", `3`)
		fold := []func() (*tiering.Receipt, error){
			put(w.ctx, "fold", `1`), put(w.ctx, "fold", `"poison"`), put(w.ctx, "fold", `3`),
		}
		edit := call(w, func() (*tiering.Edited, error) {
			return w.writer.Apply(w.ctx, space, "edited", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, nil)
		})
		line++
		w.inLine(line)
		leave()
		if _, err := gone(); !errors.Is(err, context.Canceled) {
			w.Fatalf("the caller that left was told %v", err)
		}
		release()
		for name, try := range map[string]func() (*tiering.Receipt, error){"a": a, "the first of the fold": fold[0], "the last of the fold": fold[2]} {
			if _, err := try(); err != nil {
				return violatedf("%s was told %v", name, err)
			}
		}
		for name, try := range map[string]func() (*tiering.Receipt, error){"b": bad, "the second of the fold": fold[1]} {
			if _, err := try(); tiering.CodeOf(err) != tiering.CodeInvalid {
				return violatedf("%s, whose row was refused, was told %v", name, err)
			}
		}
		if _, err := edit(); err != nil {
			return violatedf("the edit was told %v", err)
		}
		w.eventually("the write of the caller that left", func() bool { return w.strong("c") == `3` })
		for id, body := range map[string]string{"a": `1`, "b": "", "fold": `3`, "edited": `{"n":2}`} {
			if got := w.strong(id); got != body {
				return violatedf("%s is %q, want %q", id, got, body)
			}
		}
		return nil
	})
}
