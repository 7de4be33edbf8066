package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// The yardsticks: SET and GET of the same bytes through the pool of go-redis,
// and through its AutoPipeline.
func BenchmarkSet(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 64)
	benchmark(b, map[string]func(b *testing.B, url string) operation{
		"pool": func(b *testing.B, url string) operation {
			c := plain(b, url)
			return func(ctx context.Context, i int64) error { return c.Set(ctx, benchKey(i).ID, body, time.Minute).Err() }
		},
		"autopipeline": func(b *testing.B, url string) operation {
			c := automatic(b, url)
			return func(ctx context.Context, i int64) error { return c.Set(ctx, benchKey(i).ID, body, time.Minute).Err() }
		},
		"driver": func(b *testing.B, url string) operation {
			s := open(b, url, redis.Options{Timeout: 10 * time.Second})
			var version atomic.Int64
			return func(ctx context.Context, i int64) error {
				_, err := s.Set(ctx, set(benchKey(i), version.Add(1), body))
				return err
			}
		},
		"driver-marked": func(b *testing.B, url string) operation {
			s := open(b, url, redis.Options{Timeout: 10 * time.Second})
			var version atomic.Int64
			return func(ctx context.Context, i int64) error {
				e := set(benchKey(i), version.Add(1), body)
				e.Token = hot.Token(e.Entry.Meta.Version)
				if err := s.Mark(ctx, e.Key, e.Token); err != nil {
					return err
				}
				_, err := s.Set(ctx, e)
				return err
			}
		},
	})
}

func BenchmarkGet(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 64)
	benchmark(b, map[string]func(b *testing.B, url string) operation{
		"pool": func(b *testing.B, url string) operation {
			c := plain(b, url)
			for i := range int64(benchKeys) {
				c.Set(b.Context(), benchKey(i).ID, body, time.Hour)
			}
			return func(ctx context.Context, i int64) error { return c.Get(ctx, benchKey(i).ID).Err() }
		},
		"autopipeline": func(b *testing.B, url string) operation {
			c := automatic(b, url)
			for i := range int64(benchKeys) {
				c.Set(b.Context(), benchKey(i).ID, body, time.Hour)
			}
			return func(ctx context.Context, i int64) error { return c.Get(ctx, benchKey(i).ID).Err() }
		},
		"driver": func(b *testing.B, url string) operation {
			s := open(b, url, redis.Options{Timeout: 10 * time.Second})
			for i := range int64(benchKeys) {
				if _, err := s.Set(b.Context(), set(benchKey(i), 1, body)); err != nil {
					b.Fatal(err)
				}
			}
			return func(ctx context.Context, i int64) error {
				l, err := s.Get(ctx, benchKey(i), true)
				if err == nil && l.State != hot.Present {
					err = fmt.Errorf("state %d", l.State)
				}
				return err
			}
		},
	})
}

const benchKeys = 1000

type operation func(ctx context.Context, i int64) error

func benchmark(b *testing.B, ways map[string]func(b *testing.B, url string) operation) {
	url := servicestest.Variable(b, "TIERD_HOT")
	for _, callers := range []int{1, 64} {
		for _, way := range []string{"pool", "autopipeline", "driver", "driver-marked"} {
			if ways[way] == nil {
				continue
			}
			b.Run(fmt.Sprintf("callers=%d/way=%s", callers, way), func(b *testing.B) {
				do := ways[way](b, url)
				var left atomic.Int64
				left.Store(int64(b.N))
				server, client := serverTime(b, url), clientTime(b)
				b.ResetTimer()
				together(callers, func(int) {
					for left.Add(-1) >= 0 {
						if err := do(b.Context(), rand.Int64N(benchKeys)); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
				b.ReportMetric((serverTime(b, url)-server)/float64(b.N), "server-us/op")
				b.ReportMetric((clientTime(b)-client)/float64(b.N), "client-us/op")
			})
		}
	}
}

// serverTime and clientTime are what Redis and this process have used of the
// processors, in microseconds: figures that a busy machine does not blur.
func serverTime(b *testing.B, url string) float64 {
	info, err := plain(b, url).InfoMap(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var sum float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += seconds * 1e6
	}
	return sum
}

func clientTime(b *testing.B) float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e3
}

func benchKey(i int64) tiering.Key {
	return tiering.Key{Tenant: "bench", Namespace: "docs", ID: fmt.Sprint("bench:", i)}
}

func set(key tiering.Key, version int64, body []byte) hot.Set {
	at := time.UnixMicro(version).UTC()
	return hot.Set{Key: key, TTL: time.Hour, Entry: hot.Entry{Body: body, Meta: tiering.Meta{
		Namespace: key.Namespace, ID: key.ID, Version: version, Size: int64(len(body)), CreatedAt: at, UpdatedAt: at,
	}}}
}

func plain(b *testing.B, url string) *goredis.Client {
	o, err := goredis.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.PoolSize = -1, true, 64
	c := goredis.NewClient(o)
	b.Cleanup(func() { c.Close() })
	return c
}

func automatic(b *testing.B, url string) *goredis.AutoPipeliner {
	p, err := plain(b, url).AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkTogether is what a batch of keys costs that are marked and then set,
// in two exchanges; figures are a key's.
//
//	go test -run '^$' -bench BenchmarkTogether ./hot/redis
func BenchmarkTogether(b *testing.B) {
	url := servicestest.Variable(b, "TIERD_HOT")
	body := bytes.Repeat([]byte("0123456789abcdef"), 64)
	for _, keys := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			s := open(b, url, redis.Options{Timeout: 10 * time.Second})
			marks, sets := make([]hot.Step, keys), make([]hot.Step, keys)
			server, client := serverTime(b, url), clientTime(b)
			b.ResetTimer()
			for n := range b.N {
				for i := range keys {
					e := set(benchKey(int64((n*keys+i)%benchKeys)), int64(n+1), body)
					e.Token = hot.Token(n + 1)
					marks[i], sets[i] = hot.Step{Act: hot.ToMark, Set: e}, hot.Step{Act: hot.ToSet, Set: e}
				}
				for _, steps := range [][]hot.Step{marks, sets} {
					for _, err := range hot.Together(b.Context(), s, steps) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.StopTimer()
			each := float64(b.N * keys)
			b.ReportMetric((serverTime(b, url)-server)/each, "server-us/key")
			b.ReportMetric((clientTime(b)-client)/each, "client-us/key")
		})
	}
}
