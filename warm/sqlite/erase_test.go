package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
	"github.com/tierd/tierd/warm/internal/rules"
)

// feedOf fills the feed with n entries of one put each, in one transaction,
// and a request for each: as a busy day leaves them.
func feedOf(t testing.TB, s *Store, n int, of func(i int) (tiering.Key, string)) {
	t.Helper()
	err := s.write(t.Context(), func(tx *txn) error {
		last := s.last.Load()
		for i := range n {
			key, user := of(i)
			h := warm.Head{Key: key, Op: tiering.OpPut, Version: 1, User: user, CreatedAt: tx.now, UpdatedAt: tx.now, AccessedAt: tx.now, Size: 10, Digest: tiering.DigestOf([]byte("x")), InWarm: true}
			r := warm.Result{Head: h, Created: true}
			id := uuid.New()
			if _, err := tx.exec(`INSERT INTO feed (pos, at, batch, results, changes) VALUES (?, ?, ?, ?, ?)`, last+int64(i)+1, column.Micros(tx.now), id[:],
				encodeResults([][]warm.Result{{r}}, true), encodeChanges([]warm.FeedChange{rules.Record(h.Op, r, false, tx.now)})); err != nil {
				return err
			}
			if err := tx.once(&warm.Idempotency{Tenant: key.Tenant, Key: id.String()}, r); err != nil {
				return err
			}
		}
		tx.committed = func() { s.publish(last + int64(n)) }
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mentionsOf counts what of a feed and of requests names a key.
func mentionsOf(t testing.TB, s *Store, of func(tiering.Key) bool) (n int) {
	t.Helper()
	err := s.reader(t.Context(), func(c *conn) error {
		err := c.each(t.Context(), `SELECT changes FROM feed`, nil, func(v []driver.Value) error {
			changes, err := decodeChanges(blob(v[0]))
			for _, ch := range changes {
				if of(ch.Key) {
					n++
				}
			}
			return err
		})
		return errors.Join(err, c.each(t.Context(), `SELECT result FROM idempotency`, nil, func(v []driver.Value) error {
			r, err := decodeResult(blob(v[0]))
			if of(r.Head.Key) {
				n++
			}
			return err
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSweepInWindows looks through more than one transaction reads.
func TestSweepInWindows(t *testing.T) {
	const entries = 2*sweepWindow + 7
	mine := func(k tiering.Key) bool { return k.ID[0] == 'm' }
	for _, c := range []struct {
		name string
		sel  warm.Selector
	}{
		{"by prefix", warm.Selector{Tenant: "acme", Namespace: "notes", Prefix: "m"}},
		{"by user", warm.Selector{Tenant: "acme", User: "ada"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fresh(t)
			feedOf(t, s, entries, func(i int) (tiering.Key, string) {
				if i%100 == 0 {
					return noteKey(fmt.Sprint("m", i)), "ada"
				}
				return noteKey(fmt.Sprint("other", i)), "bob"
			})
			before := mentionsOf(t, s, mine)
			if want := 2 * (entries/100 + 1); before != want {
				t.Fatalf("%d mentions, want %d", before, want)
			}
			if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: c.sel}); err != nil {
				t.Fatal(err)
			}
			calls := 1
			for ; ; calls++ {
				_, more, err := s.EraseKeys(t.Context(), "r", 1000)
				if err != nil {
					t.Fatal(err)
				}
				if !more {
					break
				}
				if _, err := commitRow(s, noteKey("meanwhile"), putRow([]byte(`1`))); err != nil {
					t.Fatal(err)
				}
			}
			if calls < 3 {
				t.Errorf("%d calls: one transaction read more than a window", calls)
			}
			if n := mentionsOf(t, s, func(k tiering.Key) bool { return mine(k) && k != noteKey("meanwhile") }); n != 0 {
				t.Errorf("%d mentions are left", n)
			}
			if n := mentionsOf(t, s, func(k tiering.Key) bool { return !mine(k) && k.ID != "" }); n != 2*(entries-entries/100-1) {
				t.Errorf("%d mentions of others are left", n)
			}
		})
	}
}

// TestLateKeys takes keys that became the user's while mentions were looked
// for, with what was told of them before.
func TestLateKeys(t *testing.T) {
	s := fresh(t)
	owned := func(id, user string, op tiering.Op) {
		t.Helper()
		row := putRow([]byte(`1`))
		row.Op, row.User = op, user
		if _, err := commitRow(s, noteKey(id), row); err != nil {
			t.Fatal(err)
		}
	}
	owned("late", "bob", tiering.OpPut)
	owned("late", "", tiering.OpDelete)
	owned("known", "ada", tiering.OpPut)
	feedOf(t, s, sweepWindow, func(i int) (tiering.Key, string) { return noteKey(fmt.Sprint("other", i)), "bob" })
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", User: "ada"}}); err != nil {
		t.Fatal(err)
	}
	if e, more, err := s.EraseKeys(t.Context(), "r", 10); err != nil || !more || e.Keys != 0 {
		t.Fatalf("the first call: %+v, %v, %v, want no key yet", e, more, err)
	}
	owned("late", "ada", tiering.OpPut)
	owned("gone again", "ada", tiering.OpPut)
	owned("gone again", "", tiering.OpDelete)
	if e := takeAll(t, s, "r", 10); e.Keys != 3 {
		t.Fatalf("%d keys were taken, want 3", e.Keys)
	}
	if n := mentionsOf(t, s, func(k tiering.Key) bool {
		return k == noteKey("late") || k == noteKey("known") || k == noteKey("gone again")
	}); n != 0 {
		t.Fatalf("%d mentions are left", n)
	}
}

// TestSweepForgetsWithTrim: rows that are trimmed leave their numbers to new
// ones, which a sweep has to read.
func TestSweepForgetsWithTrim(t *testing.T) {
	s := fresh(t)
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	s.opts.Clock = func() time.Time { return now }
	feedOf(t, s, sweepWindow+1, func(i int) (tiering.Key, string) { return noteKey(fmt.Sprint("other", i)), "bob" })
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", Namespace: "notes", Prefix: "m"}}); err != nil {
		t.Fatal(err)
	}
	if _, more, err := s.EraseKeys(t.Context(), "r", 10); err != nil || !more {
		t.Fatalf("the first call: %v, %v, want more", more, err)
	}
	now = now.Add(48 * time.Hour)
	if err := s.TrimFeed(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	row := putRow([]byte(`1`))
	row.Idempotency = &warm.Idempotency{Tenant: "acme", Key: "r"}
	if _, err := commitRow(s, noteKey("mine"), row); err != nil {
		t.Fatal(err)
	}
	takeAll(t, s, "r", 10)
	if n := mentionsOf(t, s, func(k tiering.Key) bool { return k == noteKey("mine") }); n != 0 {
		t.Fatalf("%d mentions are left", n)
	}
}

// TestSweepReadsNumbersAgain: the last request goes with its key and leaves
// its number to the next one.
func TestSweepReadsNumbersAgain(t *testing.T) {
	s := fresh(t)
	request := func(id string) {
		t.Helper()
		row := putRow([]byte(`1`))
		row.Idempotency = &warm.Idempotency{Tenant: "acme", Key: id}
		if _, err := commitRow(s, noteKey(id), row); err != nil {
			t.Fatal(err)
		}
	}
	request("m1")
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", Namespace: "notes", Prefix: "m"}}); err != nil {
		t.Fatal(err)
	}
	if e, more, err := s.EraseKeys(t.Context(), "r", 1); err != nil || !more || e.Keys != 1 {
		t.Fatalf("the first call: %+v, %v, %v, want one key and more", e, more, err)
	}
	request("m2")
	takeAll(t, s, "r", 10)
	if st, err := s.Stats(t.Context()); err != nil || st.Idempotent != 0 {
		t.Fatalf("%d requests are left, %v", st.Idempotent, err)
	}
}

// TestUnreadableRequest drops an idempotency row that can not be decoded: it
// may hold anything.
func TestUnreadableRequest(t *testing.T) {
	s := fresh(t)
	if err := s.write(t.Context(), func(tx *txn) error {
		return tx.remember(&warm.Idempotency{Tenant: "acme", Key: "r"}, []byte("no result"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", User: "ada"}}); err != nil {
		t.Fatal(err)
	}
	takeAll(t, s, "r", 10)
	if st, err := s.Stats(t.Context()); err != nil || st.Idempotent != 0 {
		t.Fatalf("%d requests are left, %v", st.Idempotent, err)
	}
}

// TestCancelledErase changes nothing.
func TestCancelledErase(t *testing.T) {
	s := fresh(t)
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", User: "ada"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.EraseKeys(ctx, "r", 10); !errors.Is(err, context.Canceled) {
		t.Fatalf("EraseKeys with a cancelled context: %v", err)
	}
	if e, _, err := s.Erasure(t.Context(), "r"); err != nil || e.Pos != 0 {
		t.Fatalf("the order is %+v, %v", e, err)
	}
}

// TestKeyThatChangesHandsMeanwhile: a key that was the user's when the look for
// mentions began, and is another's when keys are taken, loses nothing of his.
func TestKeyThatChangesHandsMeanwhile(t *testing.T) {
	s := fresh(t)
	k := noteKey("k")
	commit := func(user string, op tiering.Op) {
		t.Helper()
		row := putRow([]byte(`1`))
		row.Op, row.User = op, user
		if op == tiering.OpPut {
			row.Idempotency = &warm.Idempotency{Tenant: "acme", Key: uuid.NewString()}
		}
		if r, err := commitRow(s, k, row); err != nil || r.Status != warm.Done {
			t.Fatal(r, err)
		}
	}
	commit("bob", tiering.OpPut)
	commit("", tiering.OpDelete)
	commit("ada", tiering.OpPut)
	feedOf(t, s, sweepWindow, func(i int) (tiering.Key, string) { return noteKey(fmt.Sprint("other", i)), "bob" })
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", User: "ada"}}); err != nil {
		t.Fatal(err)
	}
	if e, more, err := s.EraseKeys(t.Context(), "r", 10); err != nil || !more || e.Keys != 0 {
		t.Fatalf("the first call: %+v, %v, %v, want no key yet", e, more, err)
	}
	commit("", tiering.OpDelete)
	commit("bob", tiering.OpPut)
	if e := takeAll(t, s, "r", 10); e.Keys != 0 || e.Versions != 2 {
		t.Fatalf("%d keys and %d versions were taken, want ada's two versions", e.Keys, e.Versions)
	}
	for v := int64(1); v <= 5; v++ {
		_, ok, err := s.Version(t.Context(), k, v)
		if err != nil || ok != (v < 3 || v == 5) {
			t.Errorf("version %d is there: %t, %v", v, ok, err)
		}
	}
	// Three changes, and bob's two requests.
	if n := mentionsOf(t, s, func(of tiering.Key) bool { return of == k }); n != 5 {
		t.Errorf("%d mentions of bob's are left, want 5", n)
	}
}
