package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
	"github.com/tierd/tierd/warm/internal/column"
)

// writer is the connection that writes, with what it knows by heart because
// nobody else does.
type writer struct {
	*conn
	namespaces map[nsKey]*namespace
	sweeps     map[string]*sweep // of erase orders under way
	floor      int64             // of namespaces that have no row yet
}

// txn is one transaction of the writer.
type txn struct {
	*writer
	s    *Store
	now  time.Time
	feed []warm.FeedChange
	// committed runs after the commit, before anyone else gets the writer.
	committed func()
	// stored says that a namespace's row was written.
	stored bool
	// touched are memories whose head or index entry changes.
	touched []tiering.Key
	// wrote says that something besides the feed was written, such as an
	// idempotency row.
	wrote bool
}

// errRollback ends a transaction without effect and without an error.
var errRollback = errors.New("roll back")

// takeWriter waits for the writer, which whoever has it gives back to s.writer.
func (s *Store) takeWriter(ctx context.Context) (*writer, error) {
	select {
	case w := <-s.writer:
		return w, nil
	case <-s.closing:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// write runs fn in a transaction. ctx counts until the transaction starts;
// from then on it runs to its end, because a commit that was cut short would
// have an unknown outcome.
func (s *Store) write(ctx context.Context, fn func(*txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	w, err := s.takeWriter(ctx)
	if err != nil {
		return err
	}
	defer func() { s.writer <- w }()
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := w.exec(`BEGIN IMMEDIATE`); err != nil {
		return s.explain(err)
	}
	t := &txn{writer: w, s: s, now: s.now()}
	done := false
	defer func() {
		if done {
			return
		}
		// Also after a panic in fn. SQLite may have rolled back by itself, as
		// it does when the disk is full; ROLLBACK then fails, and that is fine.
		_, _ = w.exec(`ROLLBACK`)
		if t.stored {
			clear(w.namespaces)
		}
	}()
	if err := fn(t); err != nil {
		if errors.Is(err, errRollback) {
			return nil
		}
		return s.explain(err)
	}
	_, err = w.exec(`COMMIT`)
	// Also when the outcome is unknown: who looks again finds what is true.
	s.journal.note(t.touched)
	if err != nil {
		if err = s.explain(err); resultCode(err) == codeIO {
			// The flush failed: the log may hold the commit all the same.
			return fmt.Errorf("%w: %w", warm.ErrOutcomeUnknown, err)
		}
		return err
	}
	done = true
	if t.committed != nil {
		t.committed()
	}
	return nil
}

// record ends a batch: its feed entry, which carries the batch id and the
// results, or a row of its own when nothing changed. It returns errRollback
// when there is nothing to keep.
func (t *txn) record(id uuid.UUID, results [][]warm.Result) error {
	if len(t.feed) == 0 && !t.wrote {
		return errRollback
	}
	stored := encodeResults(results, true)
	var n int64
	var err error
	if len(t.feed) == 0 {
		n, err = t.exec(`INSERT INTO settled (at, batch, results) SELECT ?, ?2, ? WHERE NOT EXISTS (SELECT 1 FROM feed WHERE batch = ?2)`,
			column.Micros(t.now), id[:], stored)
	} else {
		pos := t.s.last.Load() + 1
		n, err = t.exec(`INSERT INTO feed (pos, at, batch, results, changes) SELECT ?, ?, ?3, ?, ? WHERE NOT EXISTS (SELECT 1 FROM settled WHERE batch = ?3)`,
			pos, column.Micros(t.now), id[:], stored, encodeChanges(t.feed))
		t.committed = func() { t.s.publish(pos) }
	}
	if err == nil && n == 1 {
		return nil
	}
	if err != nil && resultCode(err) != codeConstraint {
		return err
	}
	return t.repeated(id)
}

// repeated says why a batch whose id has come before can not commit.
func (t *txn) repeated(id uuid.UUID) error {
	_, committed, err := t.outcome(id)
	switch {
	case err != nil:
		return err
	case committed:
		return fmt.Errorf("batch %s was committed before: %w", id, warm.ErrOutcomeUnknown)
	}
	return fmt.Errorf("batch %s was resolved as never committed: its changes need a new id", id)
}

// publish makes a committed feed position known.
func (s *Store) publish(pos int64) {
	s.last.Store(pos)
	s.news.Wake()
}
