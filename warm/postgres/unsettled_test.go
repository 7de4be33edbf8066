package postgres

import (
	"context"
	"testing"
	"time"
)

// holdSequencer settles a store and locks the sequencer's row until letGo, or the end
// of the test.
func holdSequencer(t *testing.T, s *Store) (letGo func()) {
	t.Helper()
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := s.writers.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // may be over
	if _, err := tx.Exec(t.Context(), `SELECT FROM sequencer FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnIdleSequencerLocksNothing: a store to which nobody writes would else flush
// PostgreSQL's log at every look, in every daemon.
func TestAnIdleSequencerLocksNothing(t *testing.T) {
	s, _ := fresh(t)
	holdSequencer(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if n, err := s.sequence(ctx); n != 0 || err != nil {
		t.Errorf("moved %d, %v", n, err)
	}
}

// TestWhatWaitsForItsPlaceIsCounted: the sequencer is kept from its row.
func TestWhatWaitsForItsPlaceIsCounted(t *testing.T) {
	s, _ := fresh(t)
	letGo := holdSequencer(t, s)
	for range 3 {
		mustPut(t, s, "k", `1`)
	}
	if n, err := s.Unsettled(t.Context()); err != nil || n != 3 {
		t.Errorf("%d wait, %v, want 3", n, err)
	}
	letGo()
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Unsettled(t.Context()); err != nil || n != 0 {
		t.Errorf("settled, %d wait, %v", n, err)
	}
}
