package redis_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/hottest"
	"github.com/tierd/tierd/hot/redis"
)

// admin is a plain client of a server.
func admin(t testing.TB, url string) *goredis.Client {
	o, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// repeatedly calls fn every few milliseconds until the test says stop.
func repeatedly(t *testing.T, every time.Duration, fn func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if err := fn(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(every)
		}
	})
	return func() { cancel(); done.Wait() }
}

// TestScriptFlush: Redis forgets the scripts between and inside pipelines.
// Nothing is lost by it.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	url := private(t, "redis").Env("TIERD_HOT")
	s := open(t, url, redis.Options{Timing: timing, Timeout: 10 * time.Second})
	c, flushed := admin(t, url), 0
	stop := repeatedly(t, time.Millisecond, func(ctx context.Context) error {
		flushed++
		return c.ScriptFlush(ctx).Err()
	})
	err := hottest.Stampede(t.Context(), hottest.Subject{Store: s, Timing: timing, Advance: time.Sleep}, "t", 32, 100)
	stop()
	if err != nil {
		t.Error(err)
	}
	if flushed < 10 {
		t.Errorf("only %d flushes: nothing was proved", flushed)
	}
}

// TestFlushAll: Redis loses everything, marks and leases among it, again and
// again. What it has acknowledged since is not contradicted.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	url := private(t, "redis").Env("TIERD_HOT")
	c := admin(t, url)
	r := newTrial(open(t, url, redis.Options{Timing: timing, Timeout: 10 * time.Second}), time.Minute)
	r.during(t, func() {
		stop := repeatedly(t, 5*time.Millisecond, func(ctx context.Context) error { return c.FlushAll(ctx).Err() })
		time.Sleep(time.Second)
		stop()
		time.Sleep(50 * time.Millisecond) // hits again
	})
	if n := r.refused.Load(); n > 0 {
		t.Errorf("%d writes were refused", n)
	}
}

// TestFull: a server without room evicts, or refuses.
func TestFull(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s, flood := full(t, policy)
			flood()
			st, err := s.Stats(t.Context())
			if err != nil || st.Evictions == 0 || st.Items == 0 {
				t.Fatalf("%+v, %v: nothing was evicted", st, err)
			}
			newTrial(s, time.Minute).during(t, flood)
		})
	}
	t.Run("noeviction", func(t *testing.T) {
		t.Parallel()
		s, flood := full(t, "noeviction")
		key := benchKey(-1)
		if stored, err := s.Set(t.Context(), set(key, 1, []byte("1"))); err != nil || !stored {
			t.Fatal(stored, err)
		}
		flood()
		if l, err := s.Get(t.Context(), key, false); err != nil || l.State != hot.Present {
			t.Errorf("a full server answers a read with state %d, %v", l.State, err)
		}
		if err := s.Mark(t.Context(), key, 1); err == nil || errors.Is(err, redis.ErrTimeout) || errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("Mark answers %v, want the server's refusal", err)
		}
		if l, err := s.Get(t.Context(), key, false); err != nil || l.State == hot.Present {
			t.Errorf("after a write that could not be marked a reader gets state %d, %v", l.State, err)
		}
	})
}

// full opens a store on a server with room for a few hundred values; flood
// writes many more.
func full(t *testing.T, policy string) (s *redis.Store, flood func()) {
	url := private(t, "redis").Env("TIERD_HOT")
	c := admin(t, url)
	for name, value := range map[string]string{"maxmemory-policy": policy, "maxmemory": "6mb"} {
		if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, url, redis.Options{Timing: timing, Timeout: 10 * time.Second})
	version := int64(1)
	return s, func() {
		version++
		together(8, func(caller int) {
			for i := range int64(80) {
				_, _ = s.Set(t.Context(), set(benchKey(int64(caller)*80+i), version, make([]byte, 10_000)))
			}
		})
	}
}
