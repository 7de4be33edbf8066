package pgvector

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/internal/memorytest"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm/postgres"
)

func TestWhenAnIndexIsTunedAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		comment string
		n       int64
		due     bool
	}{
		{"never was", "", 100, true},
		{"somebody else's comment", "mine", 100, true},
		{"as many", "ef_search 60, measured at 3000 memories", 3000, false},
		{"twice as many", "ef_search 60, measured at 3000 memories", 6000, false},
		{"more than that", "ef_search 60, measured at 3000 memories", 6001, true},
		{"half", "ef_search 60, measured at 3000 memories", 1500, false},
		{"less than half", "ef_search 60, measured at 3000 memories", 1499, true},
		{"too many to compare", "ef_search 60, measured at 300000 memories", 900_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := readTuning(c.comment).due(c.n); got != c.due {
				t.Errorf("due is %v", got)
			}
		})
	}
}

func TestWidth(t *testing.T) {
	x := &Index{opts: Options{Search: 100}}
	for _, c := range []struct {
		name  string
		tuned int
		limit int
		scope vector.Scope
		want  int
	}{
		{"not tuned yet", 0, 10, vector.Scope{}, 100},
		{"tuned", 40, 10, vector.Scope{}, 40},
		{"for less than it was tuned for", 40, 1, vector.Scope{}, 40},
		{"for more", 40, 100, vector.Scope{}, 220},
		{"of a user", 40, 10, vector.Scope{User: "ann"}, 100},
		{"with a filter, where more is needed", 140, 10, vector.Scope{Agent: "a"}, 140},
		{"more than there is", 40, 5000, vector.Scope{}, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := x.width(search{scope: c.scope, limit: c.limit}, hnsw{2, tuning{c.tuned, 1000}}); got != c.want {
				t.Errorf("it is %d, want %d", got, c.want)
			}
		})
	}
}

// TestSearchesAreAsWideAsWasMeasured: a width is found once an index is there,
// stays with the index, and is what a search has, whatever its connection was
// used for before. An index of whole vectors goes.
func TestSearchesAreAsWideAsWasMeasured(t *testing.T) {
	url, _ := servicestest.Schema(t)
	clock := memorytest.NewClock()
	store, err := postgres.Open(t.Context(), url, &postgres.Options{Clock: clock.Now, Committers: 2, Readers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	pool, err := store.Pool(t.Context(), 1) // of one connection
	if err != nil {
		t.Fatal(err)
	}
	x, err := Open(t.Context(), pool, &Options{Clock: clock.Now, IndexFrom: 50, ExactUpTo: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := pool.Exec(t.Context(), `CREATE INDEX memory_hnsw_1_1_2 ON memory_vector (kid)`); err != nil {
		t.Fatal(err)
	}
	const n = 60
	var ms []vectortest.Memory
	for i := range n {
		ms = append(ms, vectortest.Memory{Key: tiering.Key{Tenant: "acme", Namespace: "mind", ID: fmt.Sprintf("%02d", i)},
			Entry: tiering.MemoryEntry{TextHash: tiering.DigestOf([]byte{byte(i)}), Vectors: []tiering.MemoryVector{{Space: "x", Vector: vector.Normalise([]float32{float32(i), 10})}}}})
	}
	memorytest.New(clock, store, x).Remember(t, ms...)
	vectortest.Settle(t, x)
	var names, comments []string
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(relname::text), array_agg(obj_description(oid, 'pg_class')) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname ~ '^memory_(half|hnsw)_'`).Scan(&names, &comments); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(tuningForm, widths[0], n); len(names) != 1 || comments[0] != want {
		t.Fatalf("the indexes are %q with %q, want one with %q", names, comments, want)
	}
	scope := vector.Scope{Tenant: "acme", Namespaces: []string{"mind"}}
	for _, limit := range []int{10, 10, 30, 10} {
		hits, err := x.Nearest(t.Context(), scope, "x", []float32{59, 10}, limit, false)
		if err != nil || len(hits) != limit || hits[0].Key.ID != "59" || hits[limit-1].Key.ID != fmt.Sprint(n-limit) {
			t.Fatalf("for %d: %v, %v", limit, hits, err)
		}
		var is int
		if err := x.walks.QueryRow(t.Context(), `SELECT current_setting('hnsw.ef_search')::int`).Scan(&is); err != nil || is != widths[0]+2*(limit-10) {
			t.Errorf("a search for %d is %d wide, %v", limit, is, err)
		}
	}
}
