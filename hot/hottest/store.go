package hottest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// testScan proves that Scan lists what one tenant can be served, by the bytes
// of a prefix.
func testScan(t *testing.T, h Harness) {
	sub := h.open(t, Options{})
	s, ctx := sub.Store, t.Context()
	put := func(tenant, namespace, id string, ttl time.Duration) {
		t.Helper()
		k := tiering.Key{Tenant: tenant, Namespace: namespace, ID: id}
		if _, err := s.Set(ctx, hot.Set{Key: k, Entry: entry(k, 1, 0), TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{"a", "a/1", "a/2", "ab", "a_", "a%", "a*", "a?", "a[b]", "a\\", "A", "b/1", "é/1"}
	for _, id := range ids {
		put("t1", "ns", id, long)
	}
	put("t1", "ns2", "a/other-namespace", long)
	put("t1", "n", "sa/other-namespace", long)
	put("t2", "ns", "a/other-tenant", long)
	put("t", "1ns", "a/other-tenant", long)
	put("t*", "ns", "a/other-tenant", long)

	// None of these can be served.
	gone := func(id string) tiering.Key { return tiering.Key{Tenant: "t1", Namespace: "ns", ID: id} }
	put("t1", "ns", "a/pending", long)
	if err := s.Mark(ctx, gone("a/pending"), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, gone("a/leased"), true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set(ctx, hot.Set{Key: gone("a/deleted"), Entry: entry(gone("a/deleted"), 1, 0), Deleted: true}); err != nil {
		t.Fatal(err)
	}
	put("t1", "ns", "a/expired", sub.Timing.Lease/4)
	put("t1", "ns", "a/dropped", long)
	if err := s.Drop(ctx, gone("a/dropped"), 0, 0); err != nil {
		t.Fatal(err)
	}
	sub.Advance(sub.Timing.Lease / 3)

	for _, test := range []struct {
		prefix string
		want   []string
	}{
		{"", ids},
		{"a/", []string{"a/1", "a/2"}},
		{"a_", []string{"a_"}},
		{"a%", []string{"a%"}},
		{"a*", []string{"a*"}},
		{"a?", []string{"a?"}},
		{"a[", []string{"a[b]"}},
		{"a\\", []string{"a\\"}},
		{"A", []string{"A"}},
		{"\xc3", []string{"é/1"}},
		{"a/1", []string{"a/1"}},
		{"zz", nil},
	} {
		t.Run(fmt.Sprintf("prefix %q", test.prefix), func(t *testing.T) {
			var got []string
			err := s.Scan(ctx, "t1", "ns", test.prefix, func(k tiering.Key) bool {
				if k.Tenant != "t1" || k.Namespace != "ns" {
					t.Errorf("got %+v", k)
				}
				got = append(got, k.ID)
				return true
			})
			slices.Sort(got)
			want := slices.Clone(test.want)
			slices.Sort(want)
			// A store may list a key twice when it grows meanwhile.
			if got = slices.Compact(got); err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	t.Run("stops when told", func(t *testing.T) {
		n := 0
		if err := s.Scan(ctx, "t1", "ns", "", func(tiering.Key) bool { n++; return n < 3 }); err != nil || n != 3 {
			t.Errorf("%d keys, %v", n, err)
		}
	})
	t.Run("stops when the context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		n := 0
		err := s.Scan(ctx, "t1", "ns", "", func(tiering.Key) bool { n++; cancel(); return true })
		if !errors.Is(err, context.Canceled) || n != 1 {
			t.Errorf("%d keys, %v", n, err)
		}
	})
	t.Run("its function may call the store", func(t *testing.T) {
		err := s.Scan(ctx, "t1", "ns", "", func(k tiering.Key) bool {
			if err := s.Drop(ctx, k, 0, 0); err != nil {
				t.Error(err)
			}
			return true
		})
		if err != nil {
			t.Error(err)
		}
		left := 0
		if err := s.Scan(ctx, "t1", "ns", "", func(tiering.Key) bool { left++; return true }); err != nil || left != 0 {
			t.Errorf("%d keys are left, %v", left, err)
		}
		if l, err := s.Get(ctx, tiering.Key{Tenant: "t2", Namespace: "ns", ID: "a/other-tenant"}, false); err != nil || l.State != hot.Present {
			t.Errorf("the other tenant's key is %s, %v", stateName(l.State), err)
		}
	})
}

// calls are all methods, to be made with a context or after Close.
func calls(s hot.Store, key tiering.Key) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Get":            func(ctx context.Context) error { _, err := s.Get(ctx, key, false); return err },
		"Get with lease": func(ctx context.Context) error { _, err := s.Get(ctx, key, true); return err },
		"Mark":           func(ctx context.Context) error { return s.Mark(ctx, key, 1) },
		"Unmark":         func(ctx context.Context) error { return s.Unmark(ctx, key, 1) },
		"Set": func(ctx context.Context) error {
			_, err := s.Set(ctx, hot.Set{Key: key, Entry: entry(key, 9, 0), TTL: long})
			return err
		},
		"Fill": func(ctx context.Context) error { _, err := s.Fill(ctx, key, 1, entry(key, 9, 0), long); return err },
		"Drop": func(ctx context.Context) error { return s.Drop(ctx, key, 0, 0) },
		"Swap": func(ctx context.Context) error {
			_, _, err := s.Swap(ctx, key, tiering.Condition{}, []byte("9"), 0)
			return err
		},
		"Scan": func(ctx context.Context) error {
			return s.Scan(ctx, key.Tenant, key.Namespace, "", func(tiering.Key) bool { return true })
		},
		"Stats": func(ctx context.Context) error { _, err := s.Stats(ctx); return err },
		"Ping":  func(ctx context.Context) error { return s.Ping(ctx) },
	}
}

// testStore proves what concerns a store as a whole.
func testStore(t *testing.T, h Harness) {
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "x"}
	t.Run("a context that is done", func(t *testing.T) {
		s := h.open(t, Options{}).Store
		if _, err := s.Set(t.Context(), hot.Set{Key: key, Entry: entry(key, 1, 0), TTL: long}); err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		for name, call := range calls(s, key) {
			if err := call(cancelled); !errors.Is(err, context.Canceled) {
				t.Errorf("%s under a cancelled context: %v", name, err)
			}
			if err := call(late); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s past its deadline: %v", name, err)
			}
		}
		if l, err := s.Get(t.Context(), key, false); err != nil || l.State != hot.Present || l.Entry.Meta.Version != 1 {
			t.Errorf("afterwards a reader got %s, %v", describe(l), err)
		}
	})
	t.Run("after Close", func(t *testing.T) {
		s := h.open(t, Options{}).Store
		for name, call := range calls(s, key) {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s before: %v", name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for name, call := range calls(s, key) {
			if err := call(t.Context()); err == nil {
				t.Errorf("%s answers", name)
			}
		}
	})
	t.Run("Close while others call", func(t *testing.T) {
		s := h.open(t, Options{}).Store
		together(16, func(i int) {
			for n := 0; n < 200; n++ {
				if i == 0 && n == 100 {
					s.Close()
				}
				s.Set(t.Context(), hot.Set{Key: key, Entry: entry(key, int64(n), 0), TTL: long})
				s.Get(t.Context(), key, true)
			}
		})
		if err := s.Ping(t.Context()); err == nil {
			t.Error("it answers")
		}
	})
	t.Run("stats", func(t *testing.T) { testStats(t, h) })
	if !h.Capabilities.Shared {
		t.Run("the bound", func(t *testing.T) { testBound(t, h) })
	}
}

func testStats(t *testing.T, h Harness) {
	s := h.open(t, Options{}).Store
	read := func() hot.Stats {
		t.Helper()
		st, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	before := read()
	const n, size = 20, 10_000
	for i := range n {
		k := tiering.Key{Tenant: "t", Namespace: "ns", ID: fmt.Sprint(i)}
		e := entry(k, 1, 0)
		e.Body = make([]byte, size)
		for j := range e.Body {
			e.Body[j] = byte(j * (i + 7) >> 3)
		}
		if _, err := s.Set(t.Context(), hot.Set{Key: k, Entry: e, TTL: long}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{k.ID, k.ID, "unknown"} {
			k.ID = id
			if _, err := s.Get(t.Context(), k, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	after := read()
	if hits, misses := after.Hits-before.Hits, after.Misses-before.Misses; hits != 2*n || misses != n {
		t.Errorf("%d hits and %d misses, want %d and %d", hits, misses, 2*n, n)
	}
	if h.Capabilities.Shared {
		return // what a server holds is not ours alone
	}
	if items, bytes := after.Items-before.Items, after.Bytes-before.Bytes; items != n || bytes < n*size || bytes > 2*n*size {
		t.Errorf("%d items of %d bytes, want %d of a little more than %d", items, bytes, n, n*size)
	}
	for i := range n {
		if err := s.Drop(t.Context(), tiering.Key{Tenant: "t", Namespace: "ns", ID: fmt.Sprint(i)}, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if end := read(); end.Items != before.Items || end.Bytes-before.Bytes > n*size/10 || end.Evictions != before.Evictions {
		t.Errorf("after dropping all: %+v", end)
	}
}

// testBound fills a store many times over: it stays within its bound, keeps
// what is read, and evicted versions do not come back.
func testBound(t *testing.T, h Harness) {
	const limit, size, n = 1 << 20, 4096, 2000
	sub := h.open(t, Options{MaxBytes: limit})
	s := sub.Store
	at := func(i int) tiering.Key { return tiering.Key{Tenant: "t", Namespace: "ns", ID: fmt.Sprint(i)} }
	favourite := tiering.Key{Tenant: "t", Namespace: "ns", ID: "favourite"}
	set := func(k tiering.Key, version int64) bool {
		t.Helper()
		e := entry(k, version, 0)
		e.Body = make([]byte, size)
		stored, err := s.Set(t.Context(), hot.Set{Key: k, Entry: e, TTL: long})
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	set(favourite, 1)
	for i := range n {
		if !set(at(i), 2) {
			t.Fatalf("value %d is not stored", i)
		}
		if l, err := s.Get(t.Context(), favourite, false); err != nil || l.State != hot.Present {
			t.Fatalf("after %d values, what is read all the time is %s, %v", i, stateName(l.State), err)
		}
		st, err := s.Stats(t.Context())
		if err != nil || st.Bytes > limit {
			t.Fatalf("%d bytes are held, %v", st.Bytes, err)
		}
	}
	st, err := s.Stats(t.Context())
	if err != nil || st.Bytes < limit/2 || st.Evictions+st.Items != n+1 {
		t.Errorf("%+v, %v: want it half full at least, and the rest evicted", st, err)
	}
	for i := range n {
		if set(at(i), 1) {
			t.Fatalf("an older version of key %d is stored after eviction", i)
		}
	}
	if stored := set(tiering.Key{Tenant: "t", Namespace: "ns", ID: "new"}, 1); !stored {
		t.Error("a new key is not stored")
	}
	e := entry(favourite, 3, 0)
	e.Body = make([]byte, 2*limit)
	if stored, err := s.Set(t.Context(), hot.Set{Key: favourite, Entry: e, TTL: long}); err != nil || stored {
		t.Errorf("a value above the bound: stored %v, %v", stored, err)
	}
	if l, err := s.Get(t.Context(), favourite, false); err != nil || l.State != hot.Empty {
		t.Errorf("the version before it is %s, %v", stateName(l.State), err)
	}
}
