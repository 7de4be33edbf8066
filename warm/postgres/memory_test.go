package postgres

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// memoryTables are those that an index entry has rows in.
var memoryTables = []string{"memory", "memory_link", "memory_fresh", "memory_vector", "memory_dormant"}

// erase takes all that a selector of acme's names.
func erase(s *Store, sel warm.Selector) error {
	sel.Tenant = "acme"
	if err := s.StartErase(context.Background(), warm.Erasure{ID: "r", Selector: sel}); err != nil {
		return err
	}
	for {
		if _, more, err := s.EraseKeys(context.Background(), "r", 10); err != nil || !more {
			return err
		}
	}
}

// hold begins a transaction that ends with the test at the latest.
func hold(t *testing.T, s *Store) (tx pgx.Tx, holder int32) {
	t.Helper()
	tx, err := s.writers.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if err := tx.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	return tx, holder
}

// R13 with an erase for the delete: the indexer holds the head, EraseKeys comes,
// the indexer writes its entry and commits. Where the erase looks for entries
// before it holds the head, a new one stays, and for one that stands each waits
// for the other.
func TestRaceR13AnEraseMeetsTheIndexer(t *testing.T) {
	for _, entered := range []bool{false, true} {
		t.Run(map[bool]string{false: "a first entry", true: "another entry"}[entered], func(t *testing.T) {
			raced(t, func(t *testing.T, naive bool) bool { return eraseMeetsIndexer(t, entered, naive) })
		})
	}
}

func eraseMeetsIndexer(t *testing.T, entered, naive bool) (kept bool) {
	s, _ := fresh(t)
	s.seams.looseErase = naive
	k := mindOf(t, s)
	row := memoryRow(`{"text":"x"}`, tiering.MemoryVector{Space: "x", Vector: []float32{1}})
	m := row.Memory
	if !entered {
		row.Memory = nil
	}
	keep(t, s, k, row)
	tx, holder := hold(t, s)
	var kid int64
	var nid int32
	if err := tx.QueryRow(t.Context(), `SELECT kid, nid FROM head WHERE id = 'k' FOR UPDATE`).Scan(&kid, &nid); err != nil {
		t.Fatal(err)
	}
	erased := later(func() (none struct{}, err error) {
		return none, erase(s, warm.Selector{Namespace: "mind", ID: "k"})
	})
	waitsFor(t, s, holder)
	var pg *pgconn.PgError
	if _, err := tx.Exec(t.Context(), lockMemories+` NOWAIT`, []int64{kid}); errors.As(err, &pg) && pg.Code == "55P03" {
		t.Log("the erase holds the memory and waits for its head")
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := erased.wait(t); err != nil {
			t.Fatal(err)
		}
		return false
	} else if err != nil {
		t.Fatal(err)
	}
	var set memoryRows
	set.add(kid, nid, &warm.Head{}, m, true)
	b := &pgx.Batch{}
	s.queueMemories(b, &set, &memoryDrops{})
	if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := erased.wait(t); err != nil {
		t.Fatal(err)
	}
	left, err := number(t.Context(), s.readers, `SELECT coalesce(sum(sign), 0) FROM memory_delta`)
	for _, table := range memoryTables {
		n, more := number(t.Context(), s.readers, `SELECT count(*) FROM `+table)
		left, err = left+n, errors.Join(err, more)
	}
	if err != nil {
		t.Fatal(err)
	}
	return left == 0
}

// TestMemoriesAreLockedInOneOrder: who waits for the row of one memory holds none
// that comes later, so that two never wait for each other.
func TestMemoriesAreLockedInOneOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *Store, k tiering.Key) error
	}{
		{"a batch that deletes the second and writes the first", func(s *Store, k tiering.Key) error {
			first, second := k, k
			first.ID, second.ID = "b", "a"
			_, err := s.Commit(context.Background(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{
				{Key: second, Rows: []warm.Row{{Op: tiering.OpDelete}}}, {Key: first, Rows: []warm.Row{memoryRow(`{"text":"y"}`)}}}})
			return err
		}},
		{"an erase", func(s *Store, _ tiering.Key) error { return erase(s, warm.Selector{User: "canary-user"}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := fresh(t)
			k := mindOf(t, s)
			var kids []int64
			for _, id := range []string{"b", "a"} { // the order of their rows is not that of their keys
				k.ID = id
				keep(t, s, k, memoryRow(`{"text":"x"}`))
				kid, err := number(t.Context(), s.readers, `SELECT max(kid) FROM memory`)
				if err != nil {
					t.Fatal(err)
				}
				kids = append(kids, kid)
			}
			tx, holder := hold(t, s)
			if _, err := tx.Exec(t.Context(), lockMemories, kids[:1]); err != nil {
				t.Fatal(err)
			}
			done := later(func() (none struct{}, err error) { return none, c.do(s, k) })
			waitsFor(t, s, holder)
			if _, err := tx.Exec(t.Context(), lockMemories+` NOWAIT`, kids[1:]); err != nil {
				t.Errorf("it waits for the first memory and holds the second: %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := done.wait(t); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSpacesAreMadeInOneOrder: who waits for a space that another makes has made
// none behind it.
func TestSpacesAreMadeInOneOrder(t *testing.T) {
	s, _ := fresh(t)
	k := mindOf(t, s)
	tx, holder := hold(t, s)
	if _, err := tx.Exec(t.Context(), insertSpaces, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	row := memoryRow(`{"text":"x"}`)
	for _, name := range []string{"c", "b", "a"} {
		row.Memory.Vectors = append(row.Memory.Vectors, tiering.MemoryVector{Space: name, Vector: []float32{1}})
	}
	done := later(func() (none struct{}, err error) {
		_, err = s.Commit(context.Background(), &warm.Batch{ID: uuid.New(), Changes: []warm.Change{{Key: k, Rows: []warm.Row{row}}}})
		return none, err
	})
	waitsFor(t, s, holder)
	if _, err := tx.Exec(t.Context(), insertSpaces, []string{"b", "c"}); err != nil { // the server ends one of two that wait for each other
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := done.wait(t); err != nil {
		t.Error(err)
	}
}

// TestWhatIsKnownOfSpacesIsBounded: a caller's own vectors name spaces freely.
func TestWhatIsKnownOfSpacesIsBounded(t *testing.T) {
	s := &Store{}
	for i := range 3 * mostSpaces {
		name := []string{strconv.Itoa(i)}
		s.vectorSpaces.note(name)
		if !s.knowsSpaces(name) || len(s.vectorSpaces.known) > mostSpaces+1 {
			t.Fatalf("after %d: %d are known, the last one: %v", i, len(s.vectorSpaces.known), s.knowsSpaces(name))
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
	for _, table := range memoryTables {
		if n, err := number(t.Context(), s.readers, `SELECT count(*) FROM `+table); err != nil || n != 1 {
			t.Fatalf("%s has %d rows before, %v", table, n, err)
		}
	}
	if err := erase(s, warm.Selector{User: "canary-user"}); err != nil {
		t.Fatal(err)
	}
	for _, table := range memoryTables {
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

// TestWhenAMemoryBegan is when it happened, or else its head was created: also
// where it expired, and the same bytes are written again; and where it is older
// than the column.
func TestWhenAMemoryBegan(t *testing.T) {
	s, clock := fresh(t)
	k := mindOf(t, s)
	began := func(name string, want time.Time) {
		t.Helper()
		var at, shown int64
		if err := s.readers.QueryRow(t.Context(), `SELECT m.begun, v.at FROM memory m JOIN live_memory v ON v.kid = m.kid`).Scan(&at, &shown); err != nil || at != want.UnixMicro() || shown != at {
			t.Errorf("%s: it began at %d, shown as %d, want %d; %v", name, at, shown, want.UnixMicro(), err)
		}
	}
	row := memoryRow(`{"text":"x"}`)
	row.Expiry = warm.Expiry{TTL: &tiering.TTL{Life: time.Minute}}
	keep(t, s, k, row)
	began("new", clock.Now())
	clock.advance(time.Hour)
	row.Memory = nil
	keep(t, s, k, row)
	began("kept where it expired", clock.Now())
	if err := Migrate(t.Context(), s.url, 6); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), s.url, -1); err != nil {
		t.Fatal(err)
	}
	began("of an older schema", clock.Now())
	happened := clock.Now().Add(-time.Hour)
	m := memoryRow(`{"text":"x"}`).Memory
	m.At = happened
	if set, err := s.SetMemory(t.Context(), k, *m); err != nil || !set {
		t.Fatal(set, err)
	}
	began("with a time of its own", happened)
	row.Expiry = warm.Expiry{}
	clock.advance(time.Hour)
	keep(t, s, k, row)
	began("with a time of its own, kept where it expired", happened)
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
