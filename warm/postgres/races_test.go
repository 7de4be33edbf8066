package postgres

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// raced runs one schedule against tierd and against a naive variant. run
// reports whether the promise was kept.
func raced(t *testing.T, run func(t *testing.T, naive bool) bool) {
	t.Helper()
	for _, c := range []struct {
		name  string
		naive bool
	}{{"tierd", false}, {"naive", true}} {
		t.Run(c.name, func(t *testing.T) {
			kept := run(t, c.naive)
			if !kept && !c.naive {
				t.Error("the promise is broken")
			}
			if kept && c.naive {
				t.Error("the naive variant keeps the promise: this schedule proves nothing")
			}
		})
	}
}

// pausing runs a transaction of plain statements that stops before its last.
func pausing(t *testing.T, s *Store, first string, args []any, last func(*txn) error) (resume func()) {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	done := later(func() (none struct{}, err error) {
		return none, s.transact(context.Background(), func(tx *txn) error {
			if _, err := tx.exec(`BEGIN`); err != nil {
				return err
			}
			if _, err := tx.exec(first, args...); err != nil {
				return err
			}
			close(held)
			<-release
			if err := last(tx); err != nil {
				return err
			}
			return tx.commit(`COMMIT`)
		})
	})
	<-held
	return func() {
		t.Helper()
		close(release)
		if _, err := done.wait(t); err != nil {
			t.Fatal(err)
		}
	}
}

func batchOf(id string, version int64) []any {
	return []any{1, uuid.New(), encodeResults(nil, true), encodeChanges([]warm.FeedChange{{Key: noteKey(id), Op: tiering.OpPut, Version: version}})}
}

// poll lists what a reader sees that has seen everything up to after. The naive
// one remembers the number that a batch drew before it committed.
func poll(t *testing.T, s *Store, naive bool, after int64) (keys string, last int64) {
	t.Helper()
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	query := `SELECT f.pos, b.changes FROM feed f JOIN batch b ON b.seq = f.seq WHERE f.pos > $1 ORDER BY f.pos`
	if naive {
		query = `SELECT seq, changes FROM batch WHERE seq > $1 ORDER BY seq`
	}
	return s.told(t, query, after)
}

// told lists the keys of changes, as a query orders them.
func (s *Store) told(t *testing.T, query string, args ...any) (keys string, last int64) {
	t.Helper()
	var out []string
	err := each(t.Context(), s.writers, query, args, func(row pgx.Rows) error {
		var packed []byte
		if err := row.Scan(&last, &packed); err != nil {
			return err
		}
		changes, err := decodeChanges(packed)
		for _, c := range changes {
			out = append(out, fmt.Sprintf("%s@%d", c.Key.ID, c.Version))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " "), last
}

func TestRaceR09APollerMissesALateCommit(t *testing.T) {
	raced(t, func(t *testing.T, naive bool) bool {
		s, _ := fresh(t)
		_, seen := poll(t, s, naive, 0)
		finish := pausing(t, s, insertBatch, batchOf("late", 1), func(*txn) error { return nil })
		mustPut(t, s, "early", `1`)
		first, seen := poll(t, s, naive, seen)
		if first != "early@1" {
			t.Fatalf("the poller saw %q", first)
		}
		finish()
		then, _ := poll(t, s, naive, seen)
		return then == "late@1"
	})
}

// ordered reports whether what was told ends with the versions 1 to n of k, in order.
func ordered(told string, n int) bool {
	var want []string
	for v := range n {
		want = append(want, fmt.Sprintf("k@%d", v+1))
	}
	return strings.HasSuffix(told, strings.Join(want, " "))
}

func TestRaceR24OrderOfTransactionIDs(t *testing.T) {
	t.Run("a document", func(t *testing.T) { orderOfTransactionIDs(t, 1) })
	t.Run("a log", func(t *testing.T) { orderOfTransactionIDs(t, 3) })
}

// orderOfTransactionIDs has two writers of one key, each with a run of rows: a log's
// entries where there are several.
func orderOfTransactionIDs(t *testing.T, rows int) {
	raced(t, func(t *testing.T, naive bool) bool {
		s, _ := fresh(t)
		run := slices.Repeat([]warm.Row{putRow(`2`)}, rows)
		finish := pausing(t, s, `SELECT pg_current_xact_id()`, nil, func(tx *txn) error {
			names, err := s.numbered(tx.ctx, []tiering.Key{noteKey("k")})
			if err != nil {
				return err
			}
			// BEGIN inside a transaction is a warning.
			st, err := s.gather(tx.ctx, tx.conn, want{keys: []tiering.Key{noteKey("k")}, lock: true}, names)
			if err != nil {
				return err
			}
			change := warm.Change{Key: noteKey("k"), Rows: run}
			results, err := st.apply(&change, slices.Repeat([]packed{{bytes: []byte(`2`)}}, rows))
			if err != nil {
				return err
			}
			b := &pgx.Batch{}
			st.queue(b, uuid.New(), [][]warm.Result{results}, false)
			return tx.conn.SendBatch(tx.ctx, b).Close()
		})
		if _, err := commitOne(s, warm.Change{Key: noteKey("k"), Rows: run}); err != nil {
			t.Fatal(err)
		}
		finish()
		if err := s.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		query := `SELECT f.pos, b.changes FROM feed f JOIN batch b ON b.seq = f.seq ORDER BY f.pos`
		if naive {
			query = `SELECT seq, changes FROM batch ORDER BY xmin::text::bigint`
		}
		all, _ := s.told(t, query)
		return ordered(all, 2*rows)
	})
}

func TestRaceR25AnOpenTransactionInAnotherDatabase(t *testing.T) {
	t.Run("a document", func(t *testing.T) { openTransactionElsewhere(t, 1) })
	t.Run("a log", func(t *testing.T) { openTransactionElsewhere(t, 3) })
}

func openTransactionElsewhere(t *testing.T, rows int) {
	raced(t, func(t *testing.T, naive bool) bool {
		u := testURL(t)
		s := open(t, u, nil)
		begin(t, s)
		other, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		other.Path = "/postgres"
		other.RawQuery = "sslmode=" + other.Query().Get("sslmode")
		c, err := pgx.Connect(t.Context(), other.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
			t.Fatal(err)
		}
		if _, err := commitOne(s, warm.Change{Key: noteKey("k"), Rows: slices.Repeat([]warm.Row{putRow(`1`)}, rows)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		query := `SELECT f.pos, b.changes FROM feed f JOIN batch b ON b.seq = f.seq ORDER BY f.pos`
		if naive { // what is below every open transaction's id
			query = `SELECT seq, changes FROM batch WHERE xmin::text::bigint < pg_snapshot_xmin(pg_current_snapshot())::text::bigint ORDER BY seq`
		}
		all, _ := s.told(t, query)
		return ordered(all, rows)
	})
}

// TestRaceR18AnOlderLease: an archiver pauses under its token, another takes
// the lease, and the first goes on.
func TestRaceR18AnOlderLease(t *testing.T) {
	info := func(token int64) tiering.SegmentInfo {
		return tiering.SegmentInfo{Name: fmt.Sprint("segment-", token), Tenant: "acme", Owner: "archive", Token: token}
	}
	for _, step := range []string{"start", "finish"} {
		t.Run(step, func(t *testing.T) {
			raced(t, func(t *testing.T, naive bool) bool {
				s, clock := fresh(t)
				s.seams.looseLeases = naive
				old, ok, err := s.Acquire(t.Context(), "archive", "a", time.Second)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				if step == "finish" {
					if err := s.StartSegment(t.Context(), info(old.Token)); err != nil {
						t.Fatal(err)
					}
				}
				clock.advance(time.Minute)
				if _, ok, err := s.Acquire(t.Context(), "archive", "b", time.Second); err != nil || !ok {
					t.Fatal(ok, err)
				}
				if step == "start" {
					err = s.StartSegment(t.Context(), info(old.Token))
				} else {
					err = s.FinishSegment(t.Context(), info(old.Token), nil, "archive", 1)
				}
				if err != nil && tiering.CodeOf(err) != tiering.CodeFenced {
					t.Fatal(err)
				}
				return err != nil
			})
		})
	}
}

func TestRaceR29TombstoneGoesWhileItsKeyIsMadeAgain(t *testing.T) {
	raced(t, func(t *testing.T, naive bool) bool {
		s, clock := fresh(t)
		mustPut(t, s, "k", `1`)
		mustPut(t, s, "k", `2`)
		if _, err := commitOne(s, warm.Change{Key: noteKey("k"), Rows: []warm.Row{{Op: tiering.OpDelete}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.writers.Exec(t.Context(), `DELETE FROM version`); err != nil { // as if archived
			t.Fatal(err)
		}
		var again *outcome[warm.Result]
		create := func() {
			again = later(func() (warm.Result, error) {
				r, err := commitOne(s, warm.Change{Key: noteKey("k"), Rows: []warm.Row{putRow(`3`)}})
				if err != nil {
					return warm.Result{}, err
				}
				return r[0], nil
			})
			select {
			case <-again.done:
			case <-time.After(200 * time.Millisecond): // it waits
			}
		}
		s.seams.purge = func(tx *txn, raise, remove func() error) error {
			if naive { // the tombstone goes in one transaction, the floor rises in the next
				if err := remove(); err != nil {
					return err
				}
				if err := tx.commit(`COMMIT`); err != nil {
					return err
				}
				create()
				if _, err := tx.exec(`BEGIN`); err != nil {
					return err
				}
				if err := raise(); err != nil {
					return err
				}
				return nil
			}
			if err := raise(); err != nil {
				return err
			}
			create()
			return remove()
		}
		clock.advance(time.Hour)
		if n, err := s.PurgeTombstones(t.Context(), "acme", "notes", clock.Now(), 10); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		r, err := again.wait(t)
		if err != nil || r.Status != warm.Done {
			t.Fatal(r, err)
		}
		return r.Head.Version > 3
	})
}

// TestRaceR32OneRowIsRefused: the others of its batch commit, and it is told.
func TestRaceR32OneRowIsRefused(t *testing.T) {
	raced(t, func(t *testing.T, naive bool) bool {
		s, _ := fresh(t)
		s.seams.wholeBatches = naive
		bad := putRow(`"bad"`)
		bad.User = "a\x00b" // PostgreSQL's text holds no NUL
		same := putRow(`"bad"`)
		same.User = bad.User
		b := &warm.Batch{ID: uuid.New(), Changes: []warm.Change{
			{Key: noteKey("a"), Rows: []warm.Row{putRow(`1`)}}, {Key: noteKey("b"), Rows: []warm.Row{bad}},
			{Key: noteKey("c"), Rows: []warm.Row{putRow(`2`), putRow(`3`)}}, {Key: noteKey("d"), Rows: []warm.Row{same}},
		}}
		results, err := s.Commit(t.Context(), b)
		if err != nil {
			return false
		}
		again, committed, err := s.Resolve(t.Context(), b)
		if err != nil || !committed {
			t.Fatalf("it resolves to %t, %v", committed, err)
		}
		for _, all := range [][][]warm.Result{results, again} {
			var got []warm.Status
			for _, rows := range all {
				for _, r := range rows {
					got = append(got, r.Status)
					if (r.Err != nil) != (r.Status == warm.Refused) {
						t.Errorf("status %d with error %v", r.Status, r.Err)
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint([]warm.Status{warm.Done, warm.Refused, warm.Done, warm.Done, warm.Refused}) {
				t.Errorf("the rows were told %v", got)
			}
		}
		if got := fmt.Sprint(feedKeys(t, s)); got != "[first@1 a@1 c@1 c@2]" {
			t.Errorf("the feed says %s", got)
		}
		return true
	})
}

// TestRaceR35APausedSequencer: one that has looked wakes after its successor
// gave out later positions.
func TestRaceR35APausedSequencer(t *testing.T) {
	raced(t, func(t *testing.T, naive bool) bool {
		u := testURL(t)
		paused, next := open(t, u, &Options{StatementTimeout: 500 * time.Millisecond}), open(t, u, nil)
		begin(t, next)
		if err := next.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		looked, wake := make(chan struct{}), make(chan struct{})
		step := func(tx *txn) (before, last int64, err error) {
			look := lockSequencer
			if naive {
				look = strings.TrimSuffix(lockSequencer, " FOR UPDATE OF q")
			}
			if _, err := tx.exec(`BEGIN`); err != nil {
				return 0, 0, err
			}
			err = tx.conn.QueryRow(tx.ctx, look, tx.s.life()).Scan(&before)
			if naive && err == nil {
				_, err = tx.exec(`COMMIT`)
			}
			if err != nil {
				return 0, 0, err
			}
			close(looked)
			<-wake
			if naive { // what it looked at is what it goes by
				_, err := tx.exec(`UPDATE sequencer SET last = $1`, before+1)
				return before, before + 1, err
			}
			if _, err := tx.exec(moveOutbox, sequenceStep); err != nil {
				return 0, 0, err
			}
			return before, before, tx.commit(`COMMIT`)
		}
		first := later(func() (int64, error) { return paused.sequenceBy(context.Background(), step) })
		<-looked
		mustPut(t, next, "a", `1`)
		mustPut(t, next, "b", `1`)
		if err := next.Settle(t.Context()); err != nil { // the server ends who holds the lock and is silent
			t.Fatal(err)
		}
		_, before, err := next.FeedBounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		close(wake)
		if _, err := first.wait(t); err == nil && !naive {
			t.Error("the paused sequencer moved something")
		}
		_, after, err := next.FeedBounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, next, "c", `1`)
		if err := next.Settle(t.Context()); err != nil {
			return false
		}
		return after == before && strings.HasSuffix(fmt.Sprint(feedKeys(t, next)), "a@1 b@1 c@1]")
	})
}
