package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// TestABumpWaitsForCommitsThatDoNotKnowOfIt: a commit has read the epoch and
// waits for a head; another daemon bumps the epoch, reads the key and fills hot
// under the new one. Either that read sees the commit, or the commit names the
// new epoch: its writer would set the old one otherwise, and readers under the
// new one would be served the version before.
func TestABumpWaitsForCommitsThatDoNotKnowOfIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		loose bool
	}{{"tierd", false}, {"naive", true}} {
		t.Run(c.name, func(t *testing.T) {
			kept := bumpBesideACommit(t, c.loose)
			if !kept && !c.loose {
				t.Error("a read behind the bump missed a commit that names the epoch before it")
			}
			if kept && c.loose {
				t.Error("the naive variant keeps the promise: this schedule proves nothing")
			}
		})
	}
}

func bumpBesideACommit(t *testing.T, loose bool) (kept bool) {
	u := testURL(t)
	a, b := open(t, u, nil), open(t, u, nil)
	begin(t, a)
	mustPut(t, a, "k", `1`)
	a.looseBump = loose
	first, err := a.HotEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	// The head is locked, so that the commit stops between its snapshot and its
	// end.
	conn, err := pgx.Connect(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM head WHERE id = 'k' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	wrote := later(func() (warm.Result, error) {
		r, err := commitOne(b, warm.Change{Key: noteKey("k"), Rows: []warm.Row{putRow(`2`)}})
		if err != nil {
			return warm.Result{}, err
		}
		return r[0], nil
	})
	blocked(t, u)

	bumped := later(func() (tiering.HotEpoch, error) { return a.BumpHotEpoch(context.Background(), first) })
	select {
	case <-bumped.done: // it has waited for nobody
	case <-time.After(300 * time.Millisecond):
	}
	read := later(func() (warm.Current, error) {
		if _, err := bumped.wait(t); err != nil {
			return warm.Current{}, err
		}
		return a.Load(context.Background(), noteKey("k"))
	})
	select {
	case <-read.done:
	case <-time.After(300 * time.Millisecond):
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w, err := wrote.wait(t)
	if err != nil {
		t.Fatal(err)
	}
	cur, err := read.wait(t)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := bumped.wait(t)
	if e.Count != first.Count+1 {
		t.Fatalf("the bump answers %v after %v", e, first)
	}
	return cur.Head.Version >= w.Head.Version || !e.Supersedes(w.HotEpoch)
}

// TestABumpLetsCommitsThrough: while a bump waits for one that hangs, others
// are held up for moments only.
func TestABumpLetsCommitsThrough(t *testing.T) {
	u := testURL(t)
	a, b := open(t, u, nil), open(t, u, nil)
	begin(t, a)
	first, err := a.HotEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, release := make(chan struct{}), make(chan struct{})
	hangs := later(func() (none struct{}, err error) {
		return none, b.write(context.Background(), func(tx *txn) error {
			_, err := tx.exec(`SELECT pg_advisory_xact_lock_shared($1::int, $2::int)`, b.lockClass, lockHotEpoch)
			close(held)
			<-release
			return err
		})
	})
	<-held
	bumped := later(func() (tiering.HotEpoch, error) { return a.BumpHotEpoch(context.Background(), first) })
	began := time.Now()
	for range 5 {
		mustPut(t, b, "k", `1`)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("five commits took %v beside a bump that waits", took)
	}
	select {
	case <-bumped.done:
		t.Error("the bump did not wait")
	default:
	}
	close(release)
	if _, err := hangs.wait(t); err != nil {
		t.Fatal(err)
	}
	if e, err := bumped.wait(t); err != nil || e.Count != 1 {
		t.Errorf("the bump answers %v, %v", e, err)
	}
}

// blocked waits until a session of the test's own waits for a row.
func blocked(t *testing.T, u string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var waits bool
		err := c.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks w JOIN pg_locks h ON h.pid = w.pid
			WHERE NOT w.granted AND h.relation = 'head'::regclass)`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		if waits {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nobody waits for the head")
		}
	}
}

// outcome is what a call beside the test comes to.
type outcome[T any] struct {
	done chan struct{}
	v    T
	err  error
}

func later[T any](f func() (T, error)) *outcome[T] {
	o := &outcome[T]{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.v, o.err = f()
	}()
	return o
}

func (o *outcome[T]) wait(t *testing.T) (T, error) {
	t.Helper()
	select {
	case <-o.done:
	case <-time.After(20 * time.Second):
		t.Error("a call hangs")
	}
	return o.v, o.err
}
