package router

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/sqlite"
)

// benchRouter is a router over the embedded tiers, without gates.
func benchRouter(b *testing.B) *Router {
	b.Helper()
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "warm.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	cache := memory.Open(nil)
	b.Cleanup(func() { cache.Close() })
	r := New(Config{Hot: cache, HotTimeout: -1, Warm: store, Committers: store.Capabilities().Committers})
	b.Cleanup(r.Close)
	return r
}

// kilobyte is a document of about 1 KB.
func kilobyte() []byte {
	return fmt.Appendf(nil, `{"n":0,"text":%q}`, strings.Repeat("a sentence of prose ", 50))
}

// spread runs op b.N times by a number of writers, telling each its number.
func spread(b *testing.B, writers int, op func(writer, i int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := n; i < b.N; i += writers {
				if err := op(n, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func BenchmarkPut(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("size=1KB/writers=%d", writers), func(b *testing.B) {
			r, body := benchRouter(b), kilobyte()
			b.SetBytes(int64(len(body)))
			spread(b, writers, func(_, i int) error {
				_, err := r.Put(b.Context(), space, fmt.Sprint("k-", i%1000), body, nil)
				return err
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for name, o := range map[string]*tiering.GetOptions{"cached": nil, "strong": {Strong: true}} {
		b.Run("get="+name, func(b *testing.B) {
			r, body := benchRouter(b), kilobyte()
			if _, err := r.Put(b.Context(), space, "k", body, nil); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			spread(b, 1, func(int, int) error {
				_, err := r.Get(b.Context(), space, "k", o)
				return err
			})
		})
	}
}

// BenchmarkEditOneKey is a counter that 64 writers increment.
func BenchmarkEditOneKey(b *testing.B) {
	r := benchRouter(b)
	spread(b, 64, func(int, int) error {
		_, err := r.Apply(b.Context(), space, "n", increment, nil)
		return err
	})
}
