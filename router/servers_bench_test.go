package router

import (
	"fmt"
	"testing"

	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/warm/postgres"
)

// BenchmarkPutOnServers is BenchmarkPut on Redis and PostgreSQL, over many keys
// and on one that all writers share.
func BenchmarkPutOnServers(b *testing.B) {
	for _, keys := range []int{1000, 1} {
		for _, writers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("size=1KB/keys=%d/writers=%d", keys, writers), func(b *testing.B) {
				r, body := serversRouter(b), kilobyte()
				b.SetBytes(int64(len(body)))
				spread(b, writers, func(_, i int) error {
					_, err := r.Put(b.Context(), space, fmt.Sprint("k-", i%keys), body, nil)
					return err
				})
			})
		}
	}
}

// serversRouter is benchRouter over Redis and PostgreSQL, in a schema of its own.
func serversRouter(b *testing.B) *Router {
	b.Helper()
	redisURL, base := addresses(b)
	place, drop, err := makeSchema(base)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := drop(); err != nil {
			b.Error(err)
		}
	})
	store, err := postgres.Open(b.Context(), place, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	epoch, err := store.HotEpoch(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	cache, err := redis.Open(b.Context(), redisURL, &redis.Options{Epoch: epoch})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cache.Close() })
	r := New(Config{Hot: cache, Warm: store, Committers: store.Capabilities().Committers})
	b.Cleanup(r.Close)
	return r
}
