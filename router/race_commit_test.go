package router

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The races at the commit: what is acknowledged, and what stands, after each
// schedule.

// A rollback under a condition is refused when another write came between its
// read and its commit; without one it makes the next version. Either way what
// came between stays in history.
func TestRaceR07RollbackAgainstAWrite(t *testing.T) {
	race(t, setup{warm: blind}, func(w *world) error {
		for v := range 5 {
			w.put("k", fmt.Sprint(v+1))
		}
		read := w.hold("warm.Version/after")
		rollback := call(w, func() (*tiering.Receipt, error) {
			return w.r.Rollback(w.ctx, space, "k", 3, &tiering.WriteOptions{If: tiering.IfVersion(5)})
		})
		read.reached(w)
		w.put("k", `6`)
		read.release()
		rc, err := rollback()
		var refused *tiering.Error
		if !errors.As(err, &refused) || refused.Code != tiering.CodeVersionConflict {
			return violatedf("a rollback of version 5 went through over version 6: %+v, %v", rc, err)
		}
		if refused.CurrentVersion != 6 {
			return violatedf("the refusal names version %d", refused.CurrentVersion)
		}
		rc, err = w.r.Rollback(w.ctx, space, "k", 3, nil)
		w.no(err)
		if rc.Version != 7 || w.strong("k") != `3` {
			return violatedf("the rollback made version %d of %s", rc.Version, w.strong("k"))
		}
		if got := w.read("k", &tiering.GetOptions{Version: 6}); got != `6` {
			return violatedf("version 6 is now %q", got)
		}
		return nil
	})
}

// A node whose own clock is ten years ahead expires and refuses nothing: ages
// are warm's, and an ephemeral document's are hot's.
func TestRaceR12ClockYearsAhead(t *testing.T) {
	ahead := func(now time.Time) time.Time { return now.AddDate(10, 0, 0) }
	naive := setup{local: ahead}
	naive.warm = func(s warm.Store) warm.Store {
		return misdated{s, func() time.Time {
			now, err := s.Now(context.Background())
			if err != nil {
				return time.Time{}
			}
			return ahead(now)
		}}
	}
	raceOn(t, setup{local: ahead}, naive, func(w *world) error {
		hour := tiering.TTL{Life: time.Hour}
		w.policy(space, tiering.Policy{Class: tiering.ClassSession})
		w.policy("scratch", tiering.Policy{Class: tiering.ClassEphemeral})
		w.put("k", `{"n":1}`)
		if err := want(w, "from hot", "k", `{"n":1}`); err != nil {
			return err
		}
		if l := w.hotState("k"); l.Entry.Meta.Version != 1 {
			return violatedf("the read dropped the document from hot")
		}
		w.evict("k")
		if err := want(w, "from warm", "k", `{"n":1}`); err != nil {
			return err
		}
		if got := w.strong("k"); got != `{"n":1}` {
			return violatedf("a strong get answers %q", got)
		}
		if rc := w.putIf("k", `{"n":2}`, tiering.IfVersion(1)); rc.Created {
			return violatedf("a conditional write found the document expired")
		}
		e, err := w.r.Apply(w.ctx, space, "k", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, nil)
		if err != nil || string(e.Values[0]) != "3" {
			return violatedf("an edit answers %v, %v", e, err)
		}
		if _, err := w.r.Touch(w.ctx, space, "k", nil); err != nil {
			return violatedf("a touch answers %v", err)
		}
		page, err := w.r.List(w.ctx, space, nil)
		w.no(err)
		if len(page.Items) != 1 {
			return violatedf("the list has %d documents", len(page.Items))
		}
		ephemeral := &tiering.PutOptions{WriteOptions: tiering.WriteOptions{TTL: &hour}}
		if _, err := w.r.Put(w.ctx, "scratch", "e", []byte(`{"n":1}`), ephemeral); err != nil {
			return violatedf("an ephemeral put answers %v", err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, patience)
		defer cancel()
		if _, err := w.r.Apply(ctx, "scratch", "e", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, nil); err != nil {
			return violatedf("an ephemeral edit answers %v", err)
		}
		if d, err := w.r.Get(w.ctx, "scratch", "e", nil); err != nil || string(d.Body) != `{"n":2}` {
			return violatedf("an ephemeral get answers %v, %v", d, err)
		}
		now, err := gatedWarm{w.warm, w.gates}.Now(w.ctx)
		w.no(err)
		k, err := w.r.CreateKey(w.ctx, tiering.APIKey{ExpiresAt: now.Add(time.Hour)})
		if err != nil {
			return violatedf("a key that is good for an hour is refused: %v", err)
		}
		if _, err := w.r.Authenticate(w.ctx, k.Secret); err != nil {
			return violatedf("a key that is good for an hour is refused: %v", err)
		}
		return nil
	})
}

// A conditional write with a version of an earlier life of the key is refused:
// versions go on behind a delete.
func TestRaceR19OldConditionAfterRecreate(t *testing.T) {
	race(t, setup{warm: restart}, func(w *world) error {
		old := w.put("k", `1`)
		tomb := w.delete("k")
		again := w.put("k", `2`)
		if again.Version <= tomb.Version {
			return violatedf("made again as version %d, deleted as version %d", again.Version, tomb.Version)
		}
		_, err := w.r.Put(w.ctx, space, "k", []byte(`3`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(old.Version)}})
		if tiering.CodeOf(err) != tiering.CodeVersionConflict {
			return violatedf("a write on version %d of the life before answers %v", old.Version, err)
		}
		return nil
	})
}

// A counter that many writers increment, some twice because their first try
// timed out, has the exact sum: the same Idempotency-Key counts once.
func TestRaceR20CounterWithRetries(t *testing.T) {
	const writers = 64
	race(t, setup{warm: forgetful}, func(w *world) error {
		w.put("n", `{"n":0}`)
		release := w.blockQueue()
		increment := func(ctx context.Context, i int) func() (*tiering.Edited, error) {
			return call(w, func() (*tiering.Edited, error) {
				return w.r.Apply(ctx, space, "n", []tiering.EditOp{{Op: "increment", Pointer: "/n"}},
					&tiering.WriteOptions{IdempotencyKey: fmt.Sprint("writer-", i)})
			})
		}
		ctx, timeout := context.WithCancel(w.ctx)
		var tries, impatient []func() (*tiering.Edited, error)
		for i := range writers {
			if i%2 == 0 {
				impatient = append(impatient, increment(ctx, i))
			} else {
				tries = append(tries, increment(w.ctx, i))
			}
		}
		w.inLine(writers)
		timeout()
		for i, first := range impatient {
			if _, err := first(); err == nil {
				w.Fatal("a call that timed out in line succeeded")
			}
			tries = append(tries, increment(w.ctx, 2*i))
		}
		w.inLine(writers + len(impatient))
		release()
		answered := map[string]bool{}
		for _, try := range tries {
			e, err := try()
			w.no(err)
			answered[string(e.Values[0])] = true
		}
		if got := w.strong("n"); got != fmt.Sprintf(`{"n":%d}`, writers) {
			return violatedf("%d writers made %s", writers, got)
		}
		if len(answered) != writers {
			return violatedf("%d writers were told %d different values", writers, len(answered))
		}
		return nil
	})
}

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
		return w.r.Batch(w.ctx, &tiering.Batch{Atomic: true, Ops: ops})
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

// A key made again while its tombstone is purged goes on above its old
// versions: the floor was raised first.
func TestRaceR29RecreateWhileTombstoneIsPurged(t *testing.T) {
	race(t, setup{warm: restart}, func(w *world) error {
		w.put("k", `1`)
		w.put("k", `2`)
		tomb := w.delete("k")
		w.forgetVersions("k")
		create := w.hold("warm.Commit")
		again := w.startPut("k", `3`, tiering.IfAbsent())
		create.reached(w)
		now, err := w.warm.Now(w.ctx)
		w.no(err)
		n, err := w.warm.PurgeTombstones(w.ctx, tiering.DefaultTenant, space, now.Add(time.Hour), 10)
		w.no(err)
		if n != 1 {
			w.Fatalf("%d tombstones were purged", n)
		}
		create.release()
		rc, err := again()
		w.no(err)
		if rc.Version <= tomb.Version {
			return violatedf("made again as version %d, deleted as version %d", rc.Version, tomb.Version)
		}
		return nil
	})
}

// forgetVersions removes the version rows of a key behind the store's back, as
// retention does once cold holds nothing of it any more.
func (w *world) forgetVersions(id string) {
	w.Helper()
	db, err := sql.Open("sqlite", w.path)
	w.no(err)
	defer db.Close()
	res, err := db.ExecContext(w.ctx, `DELETE FROM version WHERE kid IN (SELECT kid FROM head WHERE id = ?)`, []byte(id))
	w.no(err)
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		w.Fatalf("%d version rows were there to forget, %v", n, err)
	}
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
	raceOn(t, refusing(tiering.Unprocessablef("", "a row that the database cannot keep")), naive, func(w *world) error {
		w.put("other", `0`)
		w.put("edited", `{"n":1}`)
		release := w.blockQueue()
		line := 0
		put := func(ctx context.Context, id, body string) func() (*tiering.Receipt, error) {
			wait := call(w, func() (*tiering.Receipt, error) { return w.r.Put(ctx, space, id, []byte(body), nil) })
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
			return w.r.Apply(w.ctx, space, "edited", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, nil)
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

// The retry of a conditional write whose answer was lost gets the stored
// result, not the refusal of a condition that its own first try made false.
func TestRaceR34RetryOfAConditionalWrite(t *testing.T) {
	o := tiering.WriteOptions{If: tiering.IfVersion(1), IdempotencyKey: "once"}
	for _, c := range []struct {
		name  string
		write func(ctx context.Context, w *world) (*tiering.Receipt, error)
	}{
		{"put", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			return w.r.Put(ctx, space, "k", []byte(`{"n":2}`), &tiering.PutOptions{WriteOptions: o})
		}},
		{"patch", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			return w.r.Patch(ctx, space, "k", tiering.MergePatch, []byte(`{"n":2}`), &o)
		}},
		{"edit", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			e, err := w.r.Apply(ctx, space, "k", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, &o)
			if err != nil {
				return nil, err
			}
			return &e.Receipt, nil
		}},
		{"a JSON patch that no longer applies", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			return w.r.Patch(ctx, space, "k", tiering.JSONPatch, []byte(`[{"op":"test","path":"/n","value":1},{"op":"replace","path":"/n","value":2}]`),
				&tiering.WriteOptions{IdempotencyKey: "once"})
		}},
		{"delete", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			return w.r.Delete(ctx, space, "k", &o)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			race(t, setup{warm: forgetful}, func(w *world) error {
				w.put("k", `{"n":1}`)
				committed := w.hold("warm.Commit/after")
				ctx, cut := context.WithCancel(w.ctx)
				first := call(w, func() (*tiering.Receipt, error) { return c.write(ctx, w) })
				committed.reached(w)
				cut()
				if _, err := first(); err == nil {
					w.Fatal("the answer was not lost")
				}
				committed.release()
				rc, err := c.write(w.ctx, w)
				if err != nil {
					return violatedf("the retry was told %v", err)
				}
				if !rc.Replayed || rc.Version != 2 {
					return violatedf("the retry was told of version %d, replayed %t", rc.Version, rc.Replayed)
				}
				if h, err := w.r.History(w.ctx, space, "k", nil); err != nil || len(h.Versions) != 2 {
					return violatedf("the history is %+v, %v", h, err)
				}
				return nil
			})
		})
	}
}
