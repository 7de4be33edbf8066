package postgres

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/internal/fault"
	"github.com/tierd/tierd/warm"
)

// through returns the URL of a database behind a proxy, which the caller closes.
func through(t *testing.T, database string) (behind string, p *fault.Proxy) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = fault.Listen(u.Host, fault.Postgres); err != nil {
		t.Fatal(err)
	}
	u.Host = p.Addr()
	return u.String(), p
}

// lookUp asks whether a batch was committed. The naive one looks for its row;
// tierd inserts it, and so waits for whoever is about to.
func lookUp(s *Store, naive bool, b *warm.Batch) (committed bool, err error) {
	if !naive {
		_, committed, err = s.Resolve(context.Background(), b)
		return committed, err
	}
	err = s.writers.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM batch WHERE id = $1)`, b.ID).Scan(&committed)
	return committed, err
}

// R21: a client dies while its statement runs, a look-up finds nothing of it,
// the statement commits later, and the write is sent again.
func TestRaceR21AStatementOutlivesItsClient(t *testing.T) {
	raced(t, func(t *testing.T, naive bool) bool {
		u := testURL(t)
		s := open(t, u, nil)
		begin(t, s)
		mustPut(t, s, "k", `1`)
		behind, proxy := through(t, u)
		dying, err := Open(context.Background(), behind, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dying.Close() }()
		mustPut(t, dying, "other", `1`) // its statement is prepared: the next is short

		// The statement waits for the head, which another transaction holds.
		tx, err := s.writers.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		var holder int32
		if err := tx.QueryRow(t.Context(), `SELECT pg_backend_pid() FROM head ORDER BY kid FOR UPDATE`).Scan(&holder); err != nil {
			t.Fatal(err)
		}
		b := &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: noteKey("k"), Rows: []warm.Row{putRow(`2`)}}}}
		first := later(func() (none struct{}, err error) {
			_, err = dying.Commit(context.Background(), b)
			return none, err
		})
		waiter := waitsFor(t, s, holder)
		if err := proxy.Close(); err != nil { // the server has all of the statement
			t.Fatal(err)
		}
		if _, err := first.wait(t); !errors.Is(err, warm.ErrOutcomeUnknown) {
			t.Fatalf("a client that died was told %v", err)
		}

		looked := later(func() (bool, error) { return lookUp(s, naive, b) })
		select {
		case <-looked.done:
		case <-time.After(200 * time.Millisecond): // it waits for the statement
		}
		retry := func() {
			committed, err := looked.wait(t)
			if err != nil {
				t.Fatal(err)
			}
			if !committed {
				mustPut(t, s, "k", `2`)
			}
		}
		if naive { // it has its answer before the statement goes on
			if committed, err := looked.wait(t); err != nil || committed {
				t.Fatal(committed, err)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended(t, s, waiter)
		retry()
		cur, err := s.Load(t.Context(), noteKey("k"))
		if err != nil {
			t.Fatal(err)
		}
		return cur.Head.Version == 2
	})
}

// waitsFor returns the server's process that waits for another, once one does.
func waitsFor(t *testing.T, s *Store, holder int32) (pid int32) {
	t.Helper()
	const query = `SELECT pid FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))`
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		err := s.readers.QueryRow(t.Context(), query, holder).Scan(&pid)
		if err == nil {
			return pid
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
	}
	t.Fatal("no statement waits")
	return 0
}

// ended waits until a process of the server is gone, which its client left.
func ended(t *testing.T, s *Store, pid int32) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var there bool
		if err := s.readers.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if !there {
			return
		}
	}
	t.Fatal("a statement without its client does not end")
}
