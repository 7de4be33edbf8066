package sqlite

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func TestAtomicRefusesAKeyThatWasNotLocked(t *testing.T) {
	s := fresh(t)
	_, committed, err := s.Atomic(t.Context(), uuid.New(), []tiering.Key{noteKey("a")}, nil, func([]warm.Current) ([]warm.Change, error) {
		return []warm.Change{
			{Key: noteKey("a"), Rows: []warm.Row{putRow([]byte(`1`))}},
			{Key: noteKey("b"), Rows: []warm.Row{putRow([]byte(`1`))}},
		}, nil
	})
	if committed || !errors.Is(err, tiering.ErrInvalid) {
		t.Fatalf("committed %v, error %v, want invalid", committed, err)
	}
	if cur, err := s.Load(t.Context(), noteKey("a")); err != nil || cur.Head.Version != 0 {
		t.Fatalf("it left %+v, %v", cur.Head, err)
	}
}

func TestTheSameRequestTwiceInOneFoldHappensOnce(t *testing.T) {
	s := fresh(t)
	row := putRow([]byte(`1`))
	row.Idempotency = &warm.Idempotency{Tenant: "acme", Key: "r", Hash: tiering.DigestOf([]byte("x"))}
	results, err := s.Commit(t.Context(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{
		{Key: noteKey("k"), Rows: []warm.Row{row, putRow([]byte(`2`)), row}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		status  warm.Status
		version int64
	}{{warm.Done, 1}, {warm.Done, 2}, {warm.Replayed, 1}} {
		if r := results[0][i]; r.Status != want.status || r.Head.Version != want.version {
			t.Errorf("row %d: status %d, version %d, want %d, %d", i, r.Status, r.Head.Version, want.status, want.version)
		}
	}
	if cur, err := s.Load(t.Context(), noteKey("k")); err != nil || string(cur.Body) != `2` {
		t.Fatalf("%q stands, %v, want 2", cur.Body, err)
	}
}

// TestNamespaceCacheForgetsWhatWasRolledBack: the floor and the kind that the
// writer knows by heart are those in the file.
func TestNamespaceCacheForgetsWhatWasRolledBack(t *testing.T) {
	s := fresh(t)
	boom := errors.New("boom")
	if err := s.write(t.Context(), func(tx *txn) error {
		ns, err := tx.namespace("acme", "notes")
		if err != nil {
			return err
		}
		if err := tx.raise(ns, 100); err != nil {
			return err
		}
		return boom
	}); !errors.Is(err, boom) {
		t.Fatalf("error %v, want %v", err, boom)
	}
	r, err := commitRow(s, noteKey("k"), putRow([]byte(`1`)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Head.Version != 1 {
		t.Fatalf("version %d, want 1: the floor was never raised", r.Head.Version)
	}
}
