package postgres

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func mindOf(t *testing.T, s *Store) tiering.Key {
	t.Helper()
	if _, err := s.EnsureNamespace(t.Context(), warm.Namespace{Tenant: "acme", Name: "mind", Kind: tiering.KindMemory, Class: tiering.ClassPersistent}); err != nil {
		t.Fatal(err)
	}
	return tiering.Key{Tenant: "acme", Namespace: "mind", ID: "k"}
}

func memoryRow(body string, vectors ...tiering.MemoryVector) warm.Row {
	d := tiering.DigestOf([]byte(body))
	return warm.Row{Op: tiering.OpPut, Body: []byte(body), Digest: d, User: "canary-user", Memory: &tiering.MemoryEntry{
		Digest: d, TextHash: d, Terms: []tiering.MemoryTerm{{Text: "canary-term", Freq: 1}}, Length: 1, Session: "canary-session", Vectors: vectors,
		Links: []tiering.Link{{Relation: "canary-link", To: "a"}},
	}}
}

func keep(t *testing.T, s *Store, k tiering.Key, row warm.Row) {
	t.Helper()
	if _, err := s.Commit(t.Context(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{row}}}}); err != nil {
		t.Fatal(err)
	}
}

// TestRaceR13 is the interleaving: the indexer reads v1, W deletes it, the
// indexer inserts the vector. Without the guard the vector is there.
func TestRaceR13(t *testing.T) {
	s, _ := fresh(t)
	k := mindOf(t, s)
	for _, naive := range []bool{false, true} {
		s.seams.looseMemories = naive
		read := memoryRow(`{"text":"x"}`)
		keep(t, s, k, read)
		keep(t, s, k, warm.Row{Op: tiering.OpDelete})
		added, err := s.AddVector(t.Context(), k, read.Digest, tiering.MemoryVector{Space: "x", Vector: []float32{1}}, tiering.IndexIndexed)
		if err != nil {
			t.Fatal(err)
		}
		spaces, err := s.Spaces(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if added != naive || len(spaces) > 0 != naive {
			t.Errorf("naive %v: added %v, spaces %v", naive, added, spaces)
		}
	}
}

// TestAnErasedMemoryLeavesNoRow looks into every table that an index entry has
// rows in; what is dormant or merged goes too.
func TestAnErasedMemoryLeavesNoRow(t *testing.T) {
	s, _ := fresh(t)
	k := mindOf(t, s)
	keep(t, s, k, memoryRow(`{"text":"x"}`, tiering.MemoryVector{Space: "a", Vector: []float32{1, 2}}, tiering.MemoryVector{Space: "b", Vector: []float32{1, 2, 3}}, tiering.MemoryVector{Space: "c", Vector: []float32{1}}))
	for _, move := range []string{
		`WITH m AS (DELETE FROM memory_fresh WHERE sid = (SELECT sid FROM memory_space WHERE name = 'b') RETURNING *) INSERT INTO memory_vector SELECT * FROM m`,
		s.vectorSQL(`WITH m AS (DELETE FROM memory_fresh WHERE sid = (SELECT sid FROM memory_space WHERE name = 'c') RETURNING *) INSERT INTO memory_dormant SELECT kid, sid, nid, owner, v::{{schema}}.halfvec FROM m`),
	} {
		if _, err := s.writers.Exec(t.Context(), move); err != nil {
			t.Fatal(err)
		}
	}
	tables := []string{"memory", "memory_link", "memory_fresh", "memory_vector", "memory_dormant"}
	for _, table := range tables {
		if n, err := number(t.Context(), s.readers, `SELECT count(*) FROM `+table); err != nil || n != 1 {
			t.Fatalf("%s has %d rows before, %v", table, n, err)
		}
	}
	if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: warm.Selector{Tenant: "acme", User: "canary-user"}}); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if _, more, err = s.EraseKeys(t.Context(), "r", 10); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range tables {
		if n, err := number(t.Context(), s.readers, `SELECT count(*) FROM `+table); err != nil || n != 0 {
			t.Errorf("%s has %d rows afterwards, %v", table, n, err)
		}
	}
	if n, err := number(t.Context(), s.readers, `SELECT sum(sign) FROM memory_delta`); err != nil || n != 0 {
		t.Errorf("the counts come to %d, %v", n, err)
	}
	if err := s.Scrub(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEncodedEntries: what has no columns comes back, and what is cut does not.
func TestEncodedEntries(t *testing.T) {
	m := tiering.MemoryEntry{Terms: []tiering.MemoryTerm{{Text: "a", Freq: 1}, {Text: "漢字", Freq: 300}}, Links: []tiering.Link{{Relation: "r", To: "t"}}}
	b := encodeEntry(&m)
	var back tiering.MemoryEntry
	if err := decodeEntry(b, &back); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("%+v came back as %+v, %v", m, back, err)
	}
	for cut := range b {
		if err := decodeEntry(bytes.Clone(b[:cut]), &back); err == nil {
			t.Errorf("an entry cut to %d of %d bytes is no error", cut, len(b))
		}
	}
}
