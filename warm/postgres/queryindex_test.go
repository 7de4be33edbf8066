package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tierd/tierd/internal/idrange"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

var notes = []tiering.Key{{Tenant: "acme", Namespace: "notes"}}

// indexNotes builds the index of the namespace notes.
func indexNotes(t testing.TB, s *Store) {
	t.Helper()
	if err := s.IndexQueries(t.Context(), notes); err != nil {
		t.Fatal(err)
	}
	if on, err := s.QueryIndexed(t.Context(), "acme", "notes"); err != nil || !on {
		t.Fatalf("indexed: %v, %v", on, err)
	}
}

// TestAQueryReadsTheIndex: a query of few among many reads its namespace's
// index, and neither all projections nor all heads.
func TestAQueryReadsTheIndex(t *testing.T) {
	s, _ := fresh(t)
	manyNotes(t, s, 10, 1000)
	indexNotes(t, s)
	names, err := s.numbered(t.Context(), notes)
	if err != nil {
		t.Fatal(err)
	}
	nid := numbers(names)[0]
	filter, err := warm.ParseFilter([]byte(`{"status":"open","n":{"$gt":3},"$or":[{"owner":"o7"},{"tags":{"$contains":7}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := containsOf(filter.Root)
	sql, args := candidatesStatement(nid, &scan{spans: idrange.Prefixes("", nil)}, &c)
	var text []byte
	if err := s.readers.QueryRow(t.Context(), `EXPLAIN (FORMAT JSON) `+sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"`+queryIndexName(nid)+`"`) {
		t.Errorf("%s is not read: %s", queryIndexName(nid), text)
	}
	if strings.Contains(string(text), `"Seq Scan"`) {
		t.Errorf("a table is read as a whole: %s", text)
	}
}

// inKeyOrder is a batch of changes in the order that one has.
func inKeyOrder(changes []warm.Change) *warm.Batch {
	slices.SortFunc(changes, func(a, b warm.Change) int { return a.Key.Compare(b.Key) })
	return &warm.Batch{ID: uuid.New(), Changes: changes}
}

// manyNotes writes documents, of which few are open.
func manyNotes(t testing.TB, s *Store, batches, size int) {
	t.Helper()
	for b := range batches {
		var changes []warm.Change
		for i := range size {
			n := b*size + i
			status := "done"
			if n%(size/2) == 0 {
				status = "open"
			}
			body := fmt.Sprintf(`{"status":%q,"owner":"o%d","n":%d,"tags":[%d],"text":%q}`, status, n%100, n, n%100, strings.Repeat("x", 200))
			changes = append(changes, warm.Change{Key: noteKey(fmt.Sprintf("n%06d", n)), Rows: []warm.Row{putRow(body)}})
		}
		if _, err := s.Commit(context.Background(), inKeyOrder(changes)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.writers.Exec(t.Context(), `ANALYZE head, projection`); err != nil {
		t.Fatal(err)
	}
}

// TestABuildThatDiedIsBegunAgain: it leaves an index that is not valid, which
// slows down writes and helps nobody.
func TestABuildThatDiedIsBegunAgain(t *testing.T) {
	s, _ := fresh(t)
	mustPut(t, s, "a", `{"s":"open"}`)
	die(t, s)
	have, busy, err := s.queryIndexes(t.Context())
	if err != nil || busy || len(have) != 1 {
		t.Fatalf("indexes are %v, busy %v, %v: want one, broken", have, busy, err)
	}
	for nid, whole := range have {
		if whole {
			t.Fatalf("the index of %d is whole: nothing died", nid)
		}
	}
	indexNotes(t, s)
	if have, _, err = s.queryIndexes(t.Context()); err != nil || len(have) != 1 {
		t.Fatalf("indexes are %v, %v", have, err)
	}
	if err := s.IndexQueries(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if have, _, err = s.queryIndexes(t.Context()); err != nil || len(have) != 0 {
		t.Fatalf("switched off, there are %v, %v", have, err)
	}
}

// die ends a build before its time: it waits for a transaction that writes, and
// its server process is ended meanwhile. Beside it another call builds nothing.
func die(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	tx, err := s.writers.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `UPDATE projection SET coding = 0 WHERE kid = (SELECT min(kid) FROM projection)`); err != nil {
		t.Fatal(err)
	}
	built := make(chan error, 1)
	go func() { built <- s.IndexQueries(ctx, notes) }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		have, busy, err := s.queryIndexes(ctx)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no build began: %v", err)
		}
		if busy && len(have) == 1 {
			break
		}
	}
	if err := s.IndexQueries(ctx, notes); err != nil {
		t.Errorf("beside a build: %v", err)
	}
	if on, err := s.QueryIndexed(ctx, "acme", "notes"); err != nil || on {
		t.Errorf("indexed beside a build: %v, %v", on, err)
	}
	var pid int32
	if err := s.readers.QueryRow(ctx, `SELECT pid FROM pg_stat_progress_create_index WHERE relid = 'projection'::regclass AND pg_terminate_backend(pid)`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if err := <-built; err == nil {
		t.Error("a build whose server process ended was fine")
	}
	ended(t, s, pid)
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkQueryIndex is a query for 40 of 20,000 documents: by their bytes, by
// their projections, and by an index of them.
func BenchmarkQueryIndex(b *testing.B) {
	s, _ := still(b)
	manyNotes(b, s, 20, 1000)
	filter, err := warm.ParseFilter([]byte(`{"status":"open"}`))
	if err != nil {
		b.Fatal(err)
	}
	for _, by := range []string{"bytes", "projections", "index"} {
		b.Run("by="+by, func(b *testing.B) {
			indexed := by == "index"
			if by != "bytes" {
				indexNotes(b, s)
			}
			for b.Loop() {
				items, _, err := s.Query(b.Context(), warm.Query{Tenant: "acme", Namespace: "notes", Filter: filter, Limit: 100, Indexed: indexed})
				if err != nil || len(items) != 40 {
					b.Fatal(len(items), err)
				}
			}
		})
	}
}

// BenchmarkProjectionUpdates is what an index of one namespace costs the writes
// of another: an update of a projection no longer stays on its page.
func BenchmarkProjectionUpdates(b *testing.B) {
	for _, indexed := range []string{"none", "another", "own"} {
		b.Run("index="+indexed, func(b *testing.B) {
			s, _ := fresh(b)
			other := tiering.Key{Tenant: "acme", Namespace: "other"}
			if _, err := s.EnsureNamespace(b.Context(), warm.Namespace{Tenant: other.Tenant, Name: other.Namespace, Kind: tiering.KindState, Class: tiering.ClassPersistent}); err != nil {
				b.Fatal(err)
			}
			first := warm.Change{Key: tiering.Key{Tenant: other.Tenant, Namespace: other.Namespace, ID: "first"}, Rows: []warm.Row{putRow(`1`)}}
			if _, err := commitOne(s, first); err != nil {
				b.Fatal(err)
			}
			switch indexed {
			case "another":
				if err := s.IndexQueries(b.Context(), []tiering.Key{other}); err != nil {
					b.Fatal(err)
				}
			case "own":
				indexNotes(b, s)
			}
			from := walBytes(b, s)
			rows := 0
			for b.Loop() {
				var changes []warm.Change
				for i := range 64 {
					body := fmt.Sprintf(`{"status":"open","owner":"o%d","n":%d,"text":%q}`, i, rows+i, strings.Repeat("words ", 150))
					changes = append(changes, warm.Change{Key: noteKey(fmt.Sprintf("k%03d", (rows+i)%1024)), Rows: []warm.Row{putRow(body)}})
				}
				if _, err := s.Commit(b.Context(), inKeyOrder(changes)); err != nil {
					b.Fatal(err)
				}
				rows += len(changes)
			}
			b.ReportMetric(float64(walBytes(b, s)-from)/float64(rows), "walB/write")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(rows), "us/write")
		})
	}
}

func walBytes(b *testing.B, s *Store) (n int64) {
	b.Helper()
	if err := s.readers.QueryRow(b.Context(), `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}
