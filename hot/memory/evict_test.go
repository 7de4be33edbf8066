package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
)

func key(id string) tiering.Key { return tiering.Key{Tenant: "t", Namespace: "ns", ID: id} }

func get(t testing.TB, s hot.Store, id string, lease bool) hot.Lookup {
	t.Helper()
	l, err := s.Get(context.Background(), key(id), lease)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// replay reads ids, fills what it misses, and returns the ratio of hits.
func replay(t testing.TB, s hot.Store, ids []uint64) float64 {
	t.Helper()
	ctx, hits := context.Background(), 0
	body := make([]byte, 1000)
	for _, n := range ids {
		id := fmt.Sprint(n)
		l := get(t, s, id, true)
		if l.State == hot.Present {
			hits++
			continue
		}
		if _, err := s.Fill(ctx, key(id), l.Lease, hot.Entry{Meta: tiering.Meta{Version: 1}, Body: body}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	return float64(hits) / float64(len(ids))
}

// zipf draws n reads of 100,000 documents; scan puts a document that is read
// only once after every second of them.
func zipf(n int, scan bool) []uint64 {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.01, 1, 99_999)
	ids := make([]uint64, 0, n)
	for len(ids) < n {
		ids = append(ids, z.Uint64())
		if scan {
			ids = append(ids, 1_000_000+uint64(len(ids)))
		}
	}
	return ids
}

// A least-recently-used cache of as many documents, about 4,700 of 100,000,
// hits 0.67 of the plain trace, and 0.28 of the one with a scan in it, of which
// half can be hit at all.
func TestEvictionKeepsWhatIsReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		scan bool
		want float64
	}{
		"zipf":             {false, 0.70},
		"zipf with a scan": {true, 0.32},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.Open(&memory.Options{MaxBytes: 7 << 20})
			defer s.Close()
			ratio := replay(t, s, zipf(300_000, test.scan))
			if st := stats(t, s); st.Bytes > 7<<20 || ratio < test.want {
				t.Errorf("%.3f of the reads hit, want %.2f; %+v", ratio, test.want, st)
			}
		})
	}
}

func TestStatsCountTheHeap(t *testing.T) {
	held := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 20_000
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("documents/", i)
	}
	for name, fill := range map[string]func(s hot.Store){
		"values": func(s hot.Store) {
			for _, id := range ids {
				set(t, s, id, 1, make([]byte, 512), time.Hour)
			}
		},
		"marks": func(s hot.Store) {
			for i, id := range ids {
				if err := s.Mark(t.Context(), key(id), hot.Token(i+1)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"what was seen": func(s hot.Store) {
			for _, id := range ids {
				set(t, s, id, 1, nil, 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := held()
			s := memory.Open(nil)
			defer s.Close()
			fill(s)
			heap, counted := held()-before, stats(t, s).Bytes
			if counted < heap*8/10 || counted > heap*14/10 {
				t.Errorf("%d bytes of heap are counted as %d", heap, counted)
			}
		})
	}
}

func TestMarksAreNotEvicted(t *testing.T) {
	const limit = 1 << 20
	c := newClock()
	s := memory.Open(&memory.Options{MaxBytes: limit, Clock: c.Now})
	defer s.Close()
	set(t, s, "kept", 1, make([]byte, 1000), time.Hour)

	// Misses of absent keys are given leases up to a quarter of the bound.
	leases := 0
	for i := range 10_000 {
		if get(t, s, fmt.Sprint("absent/", i), true).Lease != 0 {
			leases++
		}
	}
	if st := stats(t, s); leases < 100 || leases == 10_000 || st.Bytes > limit/2 || st.Items != 1 {
		t.Errorf("%d leases; %+v", leases, st)
	}

	// Writes are not refused: all of them stay pending, above the bound.
	const writes = 5000
	for i := range writes {
		if err := s.Mark(t.Context(), key(fmt.Sprint("write/", i)), 1); err != nil {
			t.Fatal(err)
		}
	}
	pending := 0
	for i := range writes {
		if get(t, s, fmt.Sprint("write/", i), false).State == hot.Pending {
			pending++
		}
	}
	if st := stats(t, s); pending != writes || st.Items != 0 {
		t.Errorf("%d of %d are pending; %+v", pending, writes, st)
	}

	// Within a bound of marks alone no value is kept; when they have lapsed,
	// and are swept, there is room again.
	set(t, s, "new", 1, make([]byte, 1000), time.Hour)
	if l := get(t, s, "new", false); l.State != hot.Empty {
		t.Errorf("a value is kept above the bound: %v", l.State)
	}
	c.Advance(hot.TombstoneTTL)
	eventually(t, func() bool { return stats(t, s).Bytes < limit/4 })
	if set(t, s, "new", 2, make([]byte, 1000), time.Hour); get(t, s, "new", false).State != hot.Present {
		t.Error("a value is not kept when the marks have lapsed")
	}
}

// eventually waits for the sweeper, which ticks in real time.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("not within 30 seconds")
}

func TestWhatWasSeenOfTooManyKeys(t *testing.T) {
	c := newClock()
	s := memory.Open(&memory.Options{MaxBytes: 64 << 10, Clock: c.Now})
	defer s.Close()
	// Far more keys than an eighth of the bound can remember.
	for i := range 5000 {
		set(t, s, fmt.Sprint(i), 2, make([]byte, 100), time.Hour)
	}
	if st := stats(t, s); st.Bytes > 64<<10 {
		t.Errorf("%d bytes are held", st.Bytes)
	}
	for i := range 5000 {
		if set(t, s, fmt.Sprint(i), 1, []byte("old"), time.Hour) {
			t.Fatalf("an older version of key %d is stored", i)
		}
	}
	// Readers and writers that mark are served all the same.
	l := get(t, s, "fresh", true)
	if stored, err := s.Fill(t.Context(), key("fresh"), l.Lease, hot.Entry{Meta: tiering.Meta{Version: 1}}, time.Hour); err != nil || !stored {
		t.Errorf("a fill is stored: %v, %v", stored, err)
	}
	if err := s.Mark(t.Context(), key("written"), 7); err != nil {
		t.Fatal(err)
	}
	if stored, err := s.Set(t.Context(), hot.Set{Key: key("written"), Token: 7, Entry: hot.Entry{Meta: tiering.Meta{Version: 1}}, TTL: time.Hour}); err != nil || !stored {
		t.Errorf("a set under a mark is stored: %v, %v", stored, err)
	}
	c.Advance(hot.TombstoneTTL)
	if !set(t, s, "unmarked", 1, nil, time.Hour) {
		t.Error("a set without a mark is not stored after a tombstone's life")
	}
}

func TestSwapRefusesWhatItCouldNotKeep(t *testing.T) {
	s := memory.Open(&memory.Options{MaxBytes: 1 << 20})
	defer s.Close()
	if _, ok, err := s.Swap(t.Context(), key("x"), tiering.Condition{}, make([]byte, 1<<20), 0); ok || !errors.Is(err, tiering.ErrTooLarge) {
		t.Errorf("a body of the bound's size: %v, %v", ok, err)
	}
	if _, ok, err := s.Swap(t.Context(), key("x"), tiering.Condition{}, []byte("1"), -time.Second); ok || !errors.Is(err, tiering.ErrInvalid) {
		t.Errorf("a negative life: %v, %v", ok, err)
	}
	if l := get(t, s, "x", false); l.State != hot.Empty {
		t.Errorf("afterwards the key is %v", l.State)
	}
}

func TestCapabilities(t *testing.T) {
	s := memory.Open(nil)
	defer s.Close()
	if c := s.Capabilities(); c != harness().Capabilities {
		t.Errorf("%+v", c)
	}
}
