package sqlite

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

func ensureMind(t *testing.T, s *Store) tiering.Key {
	t.Helper()
	if _, err := s.EnsureNamespace(t.Context(), warm.Namespace{Tenant: "acme", Name: "mind", Kind: tiering.KindMemory, Class: tiering.ClassPersistent}); err != nil {
		t.Fatal(err)
	}
	return tiering.Key{Tenant: "acme", Namespace: "mind", ID: "canary-id"}
}

func memoryRow(body, text string, vectors ...tiering.MemoryVector) warm.Row {
	row := putRow([]byte(body))
	row.Memory = &tiering.MemoryEntry{Digest: row.Digest, TextHash: tiering.DigestOf([]byte(text)), Terms: []tiering.MemoryTerm{{Text: text, Freq: 1}}, Length: 1, Vectors: vectors}
	return row
}

// TestScrubOfMemories looks for what an index entry held in every file.
func TestScrubOfMemories(t *testing.T) {
	for _, sel := range []warm.Selector{
		{Tenant: "acme", Namespace: "mind", ID: "canary-id"}, {Tenant: "acme", Namespace: "mind", Prefix: "canary"}, {Tenant: "acme", User: "canary-user"},
	} {
		s := fresh(t)
		k := ensureMind(t, s)
		vector := []float32{0.123, -4.567, 89.01}
		needles := map[string][]byte{"term": []byte("canary-term"), "session": []byte("canary-session"), "link": []byte("canary-link"), "vector": encodeVector(vector)}
		for _, text := range []string{"canary-term", "canary-term-2"} {
			row := memoryRow(`{"text":"x"}`, text, tiering.MemoryVector{Space: "x", Vector: vector})
			row.User = "canary-user"
			row.Memory.Session, row.Memory.Links = "canary-session", []tiering.Link{{Relation: "canary-link", To: "a"}}
			if _, err := commitRow(s, k, row); err != nil {
				t.Fatal(err)
			}
		}
		for name, where := range search(t, s, needles) {
			if where == "" {
				t.Fatalf("the %s can not be found before it is erased", name)
			}
		}
		if err := s.StartErase(t.Context(), warm.Erasure{ID: "r", Selector: sel}); err != nil {
			t.Fatal(err)
		}
		takeAll(t, s, "r", 100)
		if err := s.Scrub(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.FinishErase(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		for name, where := range search(t, s, needles) {
			if where != "" {
				t.Errorf("%+v: the %s is still in %s", sel, name, where)
			}
		}
	}
}

// TestRaceR13 is the interleaving: the indexer reads v1, W deletes it, the
// indexer inserts the vector. Without the guard the vector is there.
func TestRaceR13(t *testing.T) {
	for _, naive := range []bool{false, true} {
		s := fresh(t)
		s.loose = naive
		k := ensureMind(t, s)
		read := memoryRow(`{"text":"x"}`, "x")
		if _, err := commitRow(s, k, read); err != nil {
			t.Fatal(err)
		}
		if _, err := commitRow(s, k, warm.Row{Op: tiering.OpDelete}); err != nil {
			t.Fatal(err)
		}
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

// TestEntriesComeBack encodes and decodes any entry.
func TestEntriesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Custom(func(t *rapid.T) time.Time {
			if rapid.Bool().Draw(t, "zero") {
				return time.Time{}
			}
			return time.UnixMicro(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "micros")).UTC()
		})
		m := tiering.MemoryEntry{
			Length: rapid.IntRange(0, 1<<30).Draw(t, "length"), Type: tiering.MemoryType(rapid.String().Draw(t, "type")), Agent: rapid.String().Draw(t, "agent"),
			Session: rapid.String().Draw(t, "session"), At: at.Draw(t, "at"), Until: at.Draw(t, "until"), UsedAt: at.Draw(t, "used"), Ends: at.Draw(t, "ends"),
			Importance: rapid.Float64Range(0, 1).Draw(t, "importance"), Uses: rapid.Int64().Draw(t, "uses"),
		}
		for _, s := range rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "terms") {
			m.Terms = append(m.Terms, tiering.MemoryTerm{Text: s, Freq: len(s)})
			m.Links = append(m.Links, tiering.Link{Relation: s, To: s + "x"})
		}
		b := encodeEntry(&m)
		got, err := decodeEntry(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v came back as %+v, %v", m, got, err)
		}
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); cut < len(b) {
			if _, err := decodeEntry(b[:cut]); err == nil {
				t.Fatalf("an entry cut to %d of %d bytes is no error", cut, len(b))
			}
		}
		v := rapid.SliceOfN(rapid.Float32(), 0, 9).Draw(t, "vector")
		back, err := decodeVector(encodeVector(v))
		if err != nil || len(back) != len(v) {
			t.Fatalf("%v came back as %v, %v", v, back, err)
		}
		for i := range v {
			if math.Float32bits(v[i]) != math.Float32bits(back[i]) {
				t.Fatalf("%v came back as %v", v, back)
			}
		}
	})
}

// TestAJournalForgets: who has fallen too far behind begins anew.
func TestAJournalForgets(t *testing.T) {
	s := fresh(t)
	k := ensureMind(t, s)
	if _, err := commitRow(s, k, memoryRow(`1`, "x")); err != nil {
		t.Fatal(err)
	}
	s.journal.note(make([]tiering.Key, 2*journalSize))
	if _, _, ok, err := s.ChangedMemories(t.Context(), 0); ok || err != nil {
		t.Errorf("the first of %d changes is still known: %v, %v", 2*journalSize+1, ok, err)
	}
	_, now, _, err := s.ChangedMemories(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if keys, again, ok, err := s.ChangedMemories(t.Context(), now-journalSize); !ok || err != nil || len(keys) != journalSize || again != now {
		t.Errorf("the last ones: %d keys, at %d, %v, %v, want %d at %d", len(keys), again, ok, err, journalSize, now)
	}
}
