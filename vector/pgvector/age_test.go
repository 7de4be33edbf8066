package pgvector_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tierd/tierd/internal/memorytest"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector"
	"github.com/tierd/tierd/vector/lexical"
	"github.com/tierd/tierd/vector/pgvector"
	"github.com/tierd/tierd/vector/vectortest"
	"github.com/tierd/tierd/warm/postgres"
)

var mindScope = vector.Scope{Tenant: "acme", Namespaces: []string{"mind"}}

func mindKey(id string) tiering.Key {
	return tiering.Key{Tenant: "acme", Namespace: "mind", ID: id}
}

func said(id, word string, v ...float32) vectortest.Memory {
	return vectortest.Memory{Key: mindKey(id), Entry: tiering.MemoryEntry{TextHash: tiering.DigestOf([]byte(word)), Length: 1,
		Terms: []tiering.MemoryTerm{{Text: word, Freq: 1}}, Vectors: []tiering.MemoryVector{{Space: "x", Vector: vector.Normalise(v)}}}}
}

func ids(hits []vector.Hit) string {
	var out []string
	for _, h := range hits {
		out = append(out, h.Key.ID)
	}
	return strings.Join(out, " ")
}

// TestWhatIsIdleIsFoundDeep: a memory whose bytes are demoted leaves the search
// of vectors for the deep one, is found by its words all the time, and is back
// once it is promoted or written.
func TestWhatIsIdleIsFoundDeep(t *testing.T) {
	w, s, x := open(t, pgvector.Options{})
	near := func(deep bool) string {
		t.Helper()
		hits, err := x.Nearest(t.Context(), mindScope, "x", []float32{1, 2, 3}, 10, deep)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			if h.Key.ID == "a" && math.Abs(h.Score-1) > 2e-3 {
				t.Errorf("the score of the same vector is %v", h.Score)
			}
		}
		return ids(hits)
	}
	body := func() []byte {
		t.Helper()
		cur, err := s.Load(t.Context(), mindKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		return cur.Body
	}
	archive := func() {
		t.Helper()
		info := tiering.SegmentInfo{Name: "s", Tenant: "acme", Token: 1}
		if err := s.StartSegment(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		info.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
		if err := s.FinishSegment(t.Context(), info, []tiering.Location{{Key: mindKey("a"), Segment: info.Name, MinVersion: 1, MaxVersion: 1}}, "", 0); err != nil {
			t.Fatal(err)
		}
	}
	demote := func() {
		t.Helper()
		if done, err := s.Demote(t.Context(), mindKey("a"), 1, w.Now()); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	expect := func(when, usual, deep string) {
		t.Helper()
		if got := near(false); got != usual {
			t.Errorf("%s: a search finds %q, want %q", when, got, usual)
		}
		if got := near(true); got != deep {
			t.Errorf("%s: a deep search finds %q, want %q", when, got, deep)
		}
		hits, err := x.Words(t.Context(), mindScope, lexical.Query{Terms: []lexical.QueryTerm{{Term: "cat", Weight: 1}}}, 10)
		if err != nil || ids(hits) != "a" {
			t.Errorf("%s: its word finds %q, %v", when, ids(hits), err)
		}
	}
	w.Remember(t, said("a", "cat", 1, 2, 3), said("b", "dog", 3, 2, 1))
	was := body()
	expect("at first", "a b", "a b")
	archive()
	demote()
	expect("demoted", "b", "a b")
	if st, err := x.Stats(t.Context()); err != nil || st.Dormant != 1 || st.Vectors != 2 || st.Memories != 2 {
		t.Errorf("stats are %+v, %v", st, err)
	}
	if done, err := s.Promote(t.Context(), mindKey("a"), 1, was); err != nil || !done {
		t.Fatal(done, err)
	}
	expect("promoted", "a b", "a b")
	demote()
	// What the index worker brings sleeps with the rest: an entry of a new
	// analysis, and a vector of another embedder.
	entries, err := w.Memories(t).MemoriesOf(t.Context(), []tiering.Key{mindKey("a")})
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	if set, err := s.SetMemory(t.Context(), mindKey("a"), entries[0].Entry); err != nil || !set {
		t.Fatal(set, err)
	}
	expect("demoted and analysed anew", "b", "a b")
	w.AddVector(t, mindKey("a"), tiering.MemoryVector{Space: "y", Vector: []float32{1, 0}})
	expect("demoted, with a vector of another space", "b", "a b")
	for _, deep := range []bool{false, true} {
		if hits, err := x.Nearest(t.Context(), mindScope, "y", []float32{1, 0}, 10, deep); err != nil || (len(hits) == 1) != deep {
			t.Errorf("in the other space a search (deep: %v) finds %q, %v", deep, ids(hits), err)
		}
	}
	m := said("a", "cat", 1, 2, 3)
	m.Entry.Uses, m.Entry.Vectors = 1, nil // a confirmed use: the same text
	w.Remember(t, m)
	expect("used", "a b", "a b")
}

// TestVectorsFollowTheirUser: a key that had expired and is written with the same
// text by another user keeps its vectors, and they are found as his alone.
func TestVectorsFollowTheirUser(t *testing.T) {
	w, _, x := open(t, pgvector.Options{})
	m := said("a", "cat", 1, 2, 3)
	m.User, m.TTL = "ann", time.Minute
	w.Remember(t, m)
	w.Advance(time.Hour)
	m.User, m.Entry.Vectors = "bob", nil
	w.Remember(t, m)
	for user, want := range map[string]string{"ann": "", "bob": "a"} {
		s := mindScope
		s.User = user
		if hits, err := x.Nearest(t.Context(), s, "x", []float32{1, 2, 3}, 10, false); err != nil || ids(hits) != want {
			t.Errorf("%s finds %q, %v, want %q", user, ids(hits), err, want)
		}
	}
}

// TestMergesMissNoWriter: vectors are written, replaced and deleted while they
// are merged, and none is lost, doubled or left behind.
func TestMergesMissNoWriter(t *testing.T) {
	w, _, x := open(t, pgvector.Options{IndexFrom: 40, ExactUpTo: 10})
	random := rand.New(rand.NewPCG(8, 9))
	vectors := vectortest.Clustered(random, 400, 8)
	put := func(i, v int) vectortest.Memory {
		return said(fmt.Sprintf("%03d", i), fmt.Sprint("w", v), vectors[v]...)
	}
	for i := range 100 {
		w.Remember(t, put(i, i))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := x.Maintain(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	last := map[int]int{}
	for i := range 100 {
		last[i] = i
	}
	for round := range 300 {
		i := random.IntN(100)
		if _, stands := last[i]; stands && round%3 == 0 {
			w.Delete(t, mindKey(fmt.Sprintf("%03d", i)))
			delete(last, i)
			continue
		}
		last[i] = 100 + round
		w.Remember(t, put(i, 100+round))
	}
	close(stop)
	wg.Wait()
	vectortest.Settle(t, x)
	hits, err := x.Nearest(t.Context(), mindScope, "x", vectors[0], 200, false)
	if err != nil || len(hits) != len(last) {
		t.Fatalf("%d hits, %v, want %d", len(hits), err, len(last))
	}
	for _, h := range hits {
		i, err := strconv.Atoi(h.Key.ID)
		if err != nil {
			t.Fatal(err)
		}
		if want := vector.Dot(vectors[0], vectors[last[i]]); math.Abs(want-h.Score) > 1e-5 {
			t.Errorf("%s has score %v, want %v: that of another version", h.Key.ID, h.Score, want)
		}
	}
	st, err := x.Stats(t.Context())
	if err != nil || st.Vectors != int64(len(last)) || st.Fresh != 0 || st.Memories != int64(len(last)) {
		t.Errorf("stats are %+v, %v, want %d", st, err, len(last))
	}
}

// indexes tells how many there are, and whether all are valid.
func indexes(t *testing.T, s *postgres.Store) (state func() (n int, valid bool), pool *pgxpool.Pool) {
	t.Helper()
	pool, err := s.Pool(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return func() (n int, valid bool) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), `SELECT count(*), coalesce(bool_and(i.indisvalid), false) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indrelid = 'memory_vector'::regclass AND c.relname LIKE 'memory\_half%'`).Scan(&n, &valid); err != nil {
			t.Fatal(err)
		}
		return n, valid
	}, pool
}

// TestIndexesGoWithWhatTheyAreOf: one of a namespace that shrank, or of a space
// that was dropped, costs every writer and helps nobody.
func TestIndexesGoWithWhatTheyAreOf(t *testing.T) {
	for _, c := range []struct {
		name string
		left int
		do   func(t *testing.T, w *memorytest.World, s *postgres.Store)
	}{
		{"as many as before", 1, func(*testing.T, *memorytest.World, *postgres.Store) {}},
		{"half of them", 1, func(t *testing.T, w *memorytest.World, s *postgres.Store) {
			for i := range 20 {
				w.Delete(t, mindKey(fmt.Sprintf("%02d", i)))
			}
		}},
		{"less than half", 0, func(t *testing.T, w *memorytest.World, s *postgres.Store) {
			for i := range 21 {
				w.Delete(t, mindKey(fmt.Sprintf("%02d", i)))
			}
		}},
		{"the space was dropped", 0, func(t *testing.T, w *memorytest.World, s *postgres.Store) {
			if n, err := s.DropSpace(t.Context(), "x", 100); err != nil || n != 40 {
				t.Fatal(n, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s, x := open(t, pgvector.Options{IndexFrom: 40, ExactUpTo: 5})
			var ms []vectortest.Memory
			for i := range 40 {
				m := said(fmt.Sprintf("%02d", i), "w", float32(i), 1)
				m.Entry.Vectors = append(m.Entry.Vectors, tiering.MemoryVector{Space: "wide", Vector: make([]float32, 4001)}) // no index takes it
				ms = append(ms, m)
			}
			w.Remember(t, ms...)
			vectortest.Settle(t, x)
			state, _ := indexes(t, s)
			if n, _ := state(); n != 1 {
				t.Fatalf("there are %d indexes", n)
			}
			c.do(t, w, s)
			vectortest.Settle(t, x)
			if n, _ := state(); n != c.left {
				t.Errorf("%d indexes are left, want %d", n, c.left)
			}
			hits, err := x.Nearest(t.Context(), mindScope, "x", []float32{39, 1}, 1, false)
			if err != nil || c.name != "the space was dropped" && ids(hits) != "39" {
				t.Errorf("a search finds %q, %v", ids(hits), err)
			}
		})
	}
}

// TestABuildThatDiedIsReplaced: an index that is not valid serves no search,
// and makes room for a whole one.
func TestABuildThatDiedIsReplaced(t *testing.T) {
	w, s, x := open(t, pgvector.Options{IndexFrom: 20, ExactUpTo: 5})
	for i := range 30 {
		w.Remember(t, said(fmt.Sprintf("%02d", i), "w", float32(i), 1))
	}
	vectortest.Settle(t, x)
	state, pool := indexes(t, s)
	if n, valid := state(); n != 1 || !valid {
		t.Fatalf("there are %d indexes (valid: %v)", n, valid)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE pg_index SET indisvalid = false WHERE indrelid = 'memory_vector'::regclass AND indexrelid::regclass::text LIKE '%memory_half%'`); err != nil {
		t.Fatal(err)
	}
	if _, valid := state(); valid {
		t.Fatal("the index is still valid")
	}
	vectortest.Settle(t, x)
	if n, valid := state(); n != 1 || !valid {
		t.Errorf("afterwards there are %d indexes (valid: %v)", n, valid)
	}
	if hits, err := x.Nearest(t.Context(), mindScope, "x", []float32{1, 0}, 3, false); err != nil || ids(hits) != "29 28 27" {
		t.Errorf("a search finds %s, %v", ids(hits), err)
	}
}

// TestWideVectors are more than an index of whole ones takes: it is of halves,
// and what it finds is ranked by the whole.
func TestWideVectors(t *testing.T) {
	const dims = 2100
	w, _, x := open(t, pgvector.Options{IndexFrom: 50, ExactUpTo: 10})
	vectors := vectortest.Clustered(rand.New(rand.NewPCG(3, 3)), 80, dims)
	var ms []vectortest.Memory
	for i, v := range vectors {
		ms = append(ms, said(fmt.Sprintf("%02d", i), "w", v...))
	}
	w.Remember(t, ms...)
	vectortest.Settle(t, x)
	for _, q := range vectors[:5] {
		hits, err := x.Nearest(t.Context(), mindScope, "x", q, 10, false)
		if err != nil || len(hits) != 10 || math.Abs(hits[0].Score-1) > 1e-4 || vectortest.Recall(hits, vectortest.Exact(q, vectors), 10) < 0.9 {
			t.Fatalf("%d hits, %v", len(hits), err)
		}
	}
}
