package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
)

func set(t testing.TB, s hot.Store, id string, version int64, body []byte, ttl time.Duration) bool {
	t.Helper()
	stored, err := s.Set(context.Background(), hot.Set{
		Key:   tiering.Key{Tenant: "t", Namespace: "ns", ID: id},
		Entry: hot.Entry{Meta: tiering.Meta{Version: version}, Body: body},
		TTL:   ttl,
	})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func stats(t *testing.T, s hot.Store) hot.Stats {
	t.Helper()
	st, err := s.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestExpiredEntriesAreFreedWithinASecondWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(nil)
		defer s.Close()
		for i := range 2000 {
			set(t, s, string(rune('a'+i)), 1, make([]byte, 1000), time.Minute)
		}
		if n := stats(t, s).Items; n != 2000 {
			t.Fatalf("%d items before expiry, want 2000", n)
		}
		time.Sleep(time.Minute + time.Second)
		if st := stats(t, s); st.Items != 0 || st.Bytes > 2000*100 {
			t.Errorf("a second after expiry %d items and %d bytes are held", st.Items, st.Bytes)
		}
		// Marks and what was seen lapse too.
		for i := range 100 {
			k := key(fmt.Sprint("marks/", i))
			deleted := hot.Set{Key: k, Entry: hot.Entry{Meta: tiering.Meta{Version: 2}}, Deleted: true}
			if _, err := s.Set(t.Context(), deleted); err != nil {
				t.Fatal(err)
			}
			if err := s.Mark(t.Context(), key(fmt.Sprint("pending/", i)), 1); err != nil {
				t.Fatal(err)
			}
			get(t, s, fmt.Sprint("leased/", i), true)
		}
		time.Sleep(3*hot.TombstoneTTL + time.Second)
		if n := stats(t, s).Bytes; n != 0 {
			t.Errorf("%d bytes are held when all has lapsed", n)
		}
	})
}

func TestCloseEndsTheSweeper(t *testing.T) {
	// synctest.Test fails when a goroutine of the bubble is left behind.
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(nil)
		time.Sleep(time.Hour)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
		if _, err := s.Stats(t.Context()); !errors.Is(err, memory.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
