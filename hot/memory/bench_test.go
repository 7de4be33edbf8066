package memory_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
)

const benchKeys = 10_000

// spread runs op b.N times in all, from 1, 2 and 8 goroutines.
func spread(b *testing.B, op func(s hot.Store, k tiering.Key, version int64) error) {
	keys := make([]tiering.Key, benchKeys)
	for i := range keys {
		keys[i] = key(fmt.Sprint("documents/", i))
	}
	for _, n := range []int{1, 2, 8} {
		b.Run(fmt.Sprint("goroutines=", n), func(b *testing.B) {
			s := memory.Open(nil)
			defer s.Close()
			for _, k := range keys {
				set(b, s, k.ID, 1, make([]byte, 1024), time.Hour)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			var version atomic.Int64
			version.Store(1)
			for w := range n {
				wg.Go(func() {
					for i := w; i < b.N; i += n {
						if err := op(s, keys[i*31%benchKeys], version.Add(1)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkGetHit(b *testing.B) {
	spread(b, func(s hot.Store, k tiering.Key, _ int64) error {
		l, err := s.Get(context.Background(), k, true)
		if l.State != hot.Present {
			return fmt.Errorf("%v, %w", l.State, err)
		}
		return nil
	})
}

var benchBody = []byte(`{"status":"running","step":17}`)

func BenchmarkSet(b *testing.B) {
	spread(b, func(s hot.Store, k tiering.Key, version int64) error {
		_, err := s.Set(context.Background(), hot.Set{Key: k, Entry: hot.Entry{Meta: tiering.Meta{Version: version}, Body: benchBody}, TTL: time.Hour})
		return err
	})
}

func BenchmarkMarkSet(b *testing.B) {
	spread(b, func(s hot.Store, k tiering.Key, version int64) error {
		token := hot.Token(version)
		if err := s.Mark(context.Background(), k, token); err != nil {
			return err
		}
		_, err := s.Set(context.Background(), hot.Set{Key: k, Token: token, Entry: hot.Entry{Meta: tiering.Meta{Version: version}, Body: benchBody}, TTL: time.Hour})
		return err
	})
}

func BenchmarkSwap(b *testing.B) {
	spread(b, func(s hot.Store, k tiering.Key, _ int64) error {
		_, _, err := s.Swap(context.Background(), k, tiering.Condition{}, benchBody, time.Hour)
		return err
	})
}

// BenchmarkMissFill reads keys that are not there and fills them, in a store
// that is full.
func BenchmarkMissFill(b *testing.B) {
	s := memory.Open(&memory.Options{MaxBytes: 16 << 20})
	defer s.Close()
	b.ReportAllocs()
	for i := range b.N {
		k := key(fmt.Sprint("documents/", i))
		l, err := s.Get(b.Context(), k, true)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Fill(b.Context(), k, l.Lease, hot.Entry{Meta: tiering.Meta{Version: 1}, Body: make([]byte, 1024)}, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}
