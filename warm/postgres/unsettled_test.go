package postgres

import "testing"

// TestWhatWaitsForItsPlaceIsCounted: the sequencer is kept from its row.
func TestWhatWaitsForItsPlaceIsCounted(t *testing.T) {
	s, _ := fresh(t)
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := s.writers.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM sequencer FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustPut(t, s, "k", `1`)
	}
	if n, err := s.Unsettled(t.Context()); err != nil || n != 3 {
		t.Errorf("%d wait, %v, want 3", n, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Unsettled(t.Context()); err != nil || n != 0 {
		t.Errorf("settled, %d wait, %v", n, err)
	}
}
