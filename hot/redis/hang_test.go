package redis_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/tiering"
)

// TestServerThatHangs freezes Redis under 32 callers: calls fail, and soon they
// fail at once; when it goes on, the store is back by itself.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	const timeout = 250 * time.Millisecond
	servers := private(t, "redis")
	s, err := redis.Open(t.Context(), servers.Env("TIERD_HOT"), &redis.Options{Timeout: timeout, Epoch: tiering.HotEpoch{Life: "hang"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "x"}
	if _, err := s.Set(t.Context(), set(key, 1, []byte("1"))); err != nil {
		t.Fatal(err)
	}

	servers.Do("pause", "redis")
	took := hammer(t, s, key, 3*time.Second)
	if len(took) < 1000 {
		t.Errorf("only %d calls came back in 3 s", len(took))
	}
	p99, longest := took[len(took)*99/100], took[len(took)-1]
	t.Logf("%d calls while Redis hung: p50 %v, p99 %v, longest %v", len(took), took[len(took)/2], p99, longest)
	if longest > 2*timeout+200*time.Millisecond {
		t.Errorf("a call took %v: two timeouts of %v are the bound", longest, timeout)
	}
	if p99 > 50*time.Millisecond {
		t.Errorf("p99 is %v while Redis hangs", p99)
	}
	if _, err := s.Get(t.Context(), key, false); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("Get answers %v, want %v", err, redis.ErrUnavailable)
	}

	servers.Do("resume", "redis")
	back := time.Now()
	for {
		l, err := s.Get(t.Context(), key, false)
		if err == nil && l.State == hot.Present {
			break
		}
		if time.Since(back) > 5*time.Second {
			t.Fatalf("5 s after Redis went on: state %d, %v", l.State, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("back after %v", time.Since(back))
}

// hammer calls the store from 32 goroutines for d and returns how long each
// call took, sorted. A caller that was refused goes on at the pace of a caller
// that asks warm instead.
func hammer(t *testing.T, s *redis.Store, key tiering.Key, d time.Duration) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	until := time.Now().Add(d)
	together(32, func(int) {
		var took []time.Duration
		for time.Now().Before(until) {
			began := time.Now()
			_, err := s.Get(t.Context(), key, true)
			took = append(took, time.Since(began))
			if err != nil {
				time.Sleep(time.Millisecond)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, took...)
	})
	slices.Sort(all)
	return all
}
