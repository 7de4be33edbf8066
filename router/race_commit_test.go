package router

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
			return w.writer.Rollback(w.ctx, space, "k", 3, &tiering.WriteOptions{If: tiering.IfVersion(5)})
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
		rc, err = w.writer.Rollback(w.ctx, space, "k", 3, nil)
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
	raceOn(t, everywhere(), setup{local: ahead}, naive, func(w *world) error {
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
		_, err := w.writer.Put(w.ctx, space, "k", []byte(`3`), &tiering.PutOptions{WriteOptions: tiering.WriteOptions{If: tiering.IfVersion(old.Version)}})
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
				return w.writer.Apply(ctx, space, "n", []tiering.EditOp{{Op: "increment", Pointer: "/n"}},
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

// Writers of a log who try again under the same key, some after they gave up in line,
// are in it once each, and are told where.
func TestRaceR20AppendsWithRetries(t *testing.T) {
	const writers = 64
	race(t, setup{warm: forgetful}, func(w *world) error {
		w.put("other", `1`)
		release := w.blockQueue()
		add := func(ctx context.Context, i int) func() (*tiering.Appended, error) {
			return call(w, func() (*tiering.Appended, error) {
				return w.writer.Append(ctx, logs, "l", []json.RawMessage{json.RawMessage(fmt.Sprint(i))}, &tiering.AppendOptions{IdempotencyKey: fmt.Sprint("writer-", i)})
			})
		}
		ctx, timeout := context.WithCancel(w.ctx)
		tries, impatient := map[int][]func() (*tiering.Appended, error){}, map[int]func() (*tiering.Appended, error){}
		for i := range writers {
			if i%2 == 0 {
				impatient[i] = add(ctx, i)
			} else {
				tries[i] = append(tries[i], add(w.ctx, i))
			}
		}
		w.inLine(writers)
		timeout()
		for i, first := range impatient {
			if _, err := first(); err == nil {
				w.Fatal("a call that timed out in line succeeded")
			}
			tries[i] = append(tries[i], add(w.ctx, i))
		}
		w.inLine(writers + len(impatient))
		release()
		told := map[int64]int{}
		for i, all := range tries {
			for _, try := range all {
				a, err := try()
				w.no(err)
				told[a.FirstSeq] = i
			}
			again, err := add(w.ctx, i)() // also long after
			w.no(err)
			told[again.FirstSeq] = i
		}
		page, err := w.r.Entries(w.ctx, logs, "l", &tiering.EntriesOptions{Limit: 1000})
		w.no(err)
		if len(page.Entries) != writers || len(told) != writers {
			return violatedf("%d writers made %d entries, and were told of %d", writers, len(page.Entries), len(told))
		}
		for n, e := range page.Entries {
			if i, ok := told[e.Seq]; e.Seq != int64(n+1) || !ok || string(e.Data) != fmt.Sprint(i) {
				return violatedf("entry %d is %d, %s; its writer is %d", n+1, e.Seq, e.Data, i)
			}
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
		n, err := w.warm.PurgeTombstones(w.ctx, w.tenant, space, now.Add(time.Hour), 10)
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
	var n int64
	if w.clock == nil {
		c, err := pgx.Connect(w.ctx, w.path)
		w.no(err)
		defer c.Close(w.ctx)
		tag, err := c.Exec(w.ctx, `DELETE FROM version WHERE kid IN (SELECT h.kid FROM head h JOIN namespace n ON n.nid = h.nid WHERE h.id = $1 AND n.tenant = $2)`, []byte(id), w.tenant)
		w.no(err)
		n = tag.RowsAffected()
	} else {
		db, err := sql.Open("sqlite", w.path)
		w.no(err)
		defer db.Close()
		res, err := db.ExecContext(w.ctx, `DELETE FROM version WHERE kid IN (SELECT kid FROM head WHERE id = ?)`, []byte(id))
		w.no(err)
		n, err = res.RowsAffected()
		w.no(err)
	}
	if n == 0 {
		w.Fatal("no version rows were there to forget")
	}
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
			return w.writer.Put(ctx, space, "k", []byte(`{"n":2}`), &tiering.PutOptions{WriteOptions: o})
		}},
		{"patch", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			return w.writer.Patch(ctx, space, "k", tiering.MergePatch, []byte(`{"n":2}`), &o)
		}},
		{"edit", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			e, err := w.writer.Apply(ctx, space, "k", []tiering.EditOp{{Op: "increment", Pointer: "/n"}}, &o)
			if err != nil {
				return nil, err
			}
			return &e.Receipt, nil
		}},
		{"a JSON patch that no longer applies", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			return w.writer.Patch(ctx, space, "k", tiering.JSONPatch, []byte(`[{"op":"test","path":"/n","value":1},{"op":"replace","path":"/n","value":2}]`),
				&tiering.WriteOptions{IdempotencyKey: "once"})
		}},
		{"delete", func(ctx context.Context, w *world) (*tiering.Receipt, error) {
			return w.writer.Delete(ctx, space, "k", &o)
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
