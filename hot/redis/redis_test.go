package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/hottest"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// timing is short, for Redis cannot be given a clock.
var timing = hot.Timing{Token: 2 * time.Second, Lease: 1600 * time.Millisecond, Tombstone: 6 * time.Second}

// open returns a store with an epoch of its own, which is removed after the
// test.
func open(t testing.TB, url string, o redis.Options) *redis.Store {
	t.Helper()
	if o.Epoch.IsZero() {
		o.Epoch.Life = fmt.Sprintf("test-%d-%s", time.Now().UnixNano(), t.Name())
	}
	s, err := redis.Open(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	t.Cleanup(func() { forget(t, url, o.Epoch) })
	return s
}

func forget(t testing.TB, url string, epoch tiering.HotEpoch) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := redis.Open(ctx, url, nil)
	if err != nil {
		t.Log(err)
		return
	}
	defer s.Close()
	if err := s.Forget(ctx, epoch); err != nil {
		t.Log(err)
	}
}

func harness(url string) hottest.Harness {
	return hottest.Harness{
		Capabilities: hot.Capabilities{Shared: true},
		RealTime:     true,
		Open: func(t testing.TB, _ hottest.Options) hottest.Subject {
			// A patient store: the suite is not about slow machines.
			s := open(t, url, redis.Options{Timing: timing, Timeout: 10 * time.Second})
			if got := s.Capabilities(); got != (hot.Capabilities{Shared: true}) {
				t.Errorf("capabilities are %+v", got)
			}
			return hottest.Subject{Store: s, Timing: timing, Advance: time.Sleep}
		},
	}
}

func TestConformance(t *testing.T) { hottest.Run(t, harness(servicestest.Variable(t, "TIERD_HOT"))) }

// TestClusterConformance runs the suite on three servers that share the keys.
func TestClusterConformance(t *testing.T) {
	t.Parallel()
	url := private(t, "cluster").Env("TIERD_HOT_CLUSTER")
	t.Run("suite", func(t *testing.T) { hottest.Run(t, harness(url)) })
	t.Run("stats add up, and every server holds keys", func(t *testing.T) {
		s := open(t, url, redis.Options{Timeout: 10 * time.Second})
		before, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const n = 100
		for i := range int64(n) {
			if _, err := s.Set(t.Context(), set(benchKey(i), 1, []byte("1"))); err != nil {
				t.Fatal(err)
			}
		}
		after, err := s.Stats(t.Context())
		if err != nil || after.Items-before.Items != n {
			t.Errorf("%d items after %d, %v, want %d more", after.Items, before.Items, err, n)
		}
	})
}
