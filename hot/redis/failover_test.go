package redis_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/redis"
	"github.com/tierd/tierd/tiering"
)

// hotEpoch is the row of warm that holds the hot epoch. Daemons bump it by
// compare-and-set.
type hotEpoch struct {
	base string
	n    atomic.Int64
	// slow is how long a bump takes: meanwhile the old epoch is in use.
	slow time.Duration
}

func (e *hotEpoch) name() tiering.HotEpoch { return tiering.HotEpoch{Life: e.base, Count: e.n.Load()} }

// daemon opens a store that bumps the epoch as the router does.
func (e *hotEpoch) daemon(t *testing.T, url string, o redis.Options) *redis.Store {
	t.Helper()
	o.Epoch, o.CheckEvery = e.name(), 200*time.Millisecond
	s, err := redis.Open(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var follows sync.WaitGroup
	follows.Go(func() {
		for {
			select {
			case <-stop:
				return
			case over := <-s.Ended():
				time.Sleep(e.slow)
				e.n.CompareAndSwap(over.Count, over.Count+1)
			}
			s.Advance(e.name())
		}
	})
	t.Cleanup(func() { close(stop); follows.Wait(); s.Close() })
	return s
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// TestFailover freezes the primary under load. Writers and readers go on, with
// warm alone for a while; then the replica serves under a new epoch. The old
// primary comes back and believes to be one, until the sentinels tell it.
func TestFailover(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	servers := private(t, "sentinel")
	epoch := &hotEpoch{base: "failover"}
	s := epoch.daemon(t, servers.Env("TIERD_HOT_SENTINEL"), redis.Options{Timing: timing, Timeout: 500 * time.Millisecond})
	r := newTrial(s, ttl)
	r.during(t, func() {
		time.Sleep(500 * time.Millisecond)
		before := r.writes.Load()
		servers.Do("pause", "redis-primary")
		began := time.Now()
		eventually(t, 30*time.Second, "a new epoch", func() bool { return epoch.n.Load() > 0 })
		hits := r.hits.Load()
		eventually(t, 30*time.Second, "hits again", func() bool { return r.hits.Load() > hits+100 })
		t.Logf("hits again %v after the primary went", time.Since(began))
		if r.writes.Load() == before {
			t.Error("writers stood still")
		}
		servers.Do("resume", "redis-primary")
		time.Sleep(ttl + time.Second)
		if last := time.Unix(0, r.lastStale.Load()); time.Since(last) < time.Second {
			t.Errorf("stale reads go on: the last was %v ago", time.Since(last))
		}
	})
	if n := epoch.n.Load(); n != 1 {
		t.Errorf("%d epochs for one failover", n)
	}
}

// TestReplicaThatLags: hot has acknowledged v2, and fails over to a replica at
// v1. Nobody is served v1.
func TestReplicaThatLags(t *testing.T) {
	t.Parallel()
	servers := private(t, "sentinel")
	epoch := &hotEpoch{base: "lag", slow: 500 * time.Millisecond}
	s := epoch.daemon(t, servers.Env("TIERD_HOT_SENTINEL"), redis.Options{})
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "x"}
	put := func(version int64) {
		t.Helper()
		if stored, err := s.Set(t.Context(), set(key, version, []byte("1"))); err != nil || !stored {
			t.Fatalf("v%d: stored %v, %v", version, stored, err)
		}
	}
	put(1)
	primary := admin(t, "redis://"+servers.Address("redis-primary"))
	if n, err := primary.Wait(t.Context(), 1, 5*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("%d replicas have v1, %v", n, err)
	}
	servers.Do("pause", "redis-replica")
	if err := primary.ClientKillByFilter(t.Context(), "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	put(2)
	servers.Do("kill", "redis-primary")
	servers.Do("resume", "redis-replica")

	eventually(t, 30*time.Second, "the replica serves under a new epoch", func() bool {
		before := s.HotEpoch()
		l, err := s.Get(t.Context(), key, false)
		if err == nil && l.State == hot.Present {
			t.Fatalf("a reader got v%d", l.Entry.Meta.Version)
		}
		return err == nil && before == s.HotEpoch() && l.State == hot.Empty
	})
	replica := admin(t, "redis://"+servers.Address("redis-replica"))
	if n, err := replica.Exists(t.Context(), "tierd:lag.0:t:ns:x").Result(); err != nil || n != 1 {
		t.Errorf("the replica holds %d of v1, %v: nothing was proved", n, err)
	}
	put(2)
	if l, err := s.Get(t.Context(), key, false); err != nil || l.State != hot.Present || l.Entry.Meta.Version != 2 {
		t.Errorf("a reader got state %d, v%d, %v, want v2", l.State, l.Entry.Meta.Version, err)
	}
}

// TestRestart: a server that comes back from its disk may have lost a second of
// what it acknowledged, so its epoch is over; also for daemons that start later.
func TestRestart(t *testing.T) {
	t.Parallel()
	servers := private(t, "redis")
	url := servers.Env("TIERD_HOT")
	key := tiering.Key{Tenant: "t", Namespace: "ns", ID: "x"}
	is := func(s *redis.Store, want hot.State) {
		t.Helper()
		if l, err := s.Get(t.Context(), key, false); err != nil || l.State != want {
			t.Errorf("a reader got state %d, %v, want %d", l.State, err, want)
		}
	}
	put := func(s *redis.Store, version int64, want bool) {
		t.Helper()
		if stored, err := s.Set(t.Context(), set(key, version, []byte("1"))); err != nil || stored != want {
			t.Errorf("v%d: stored %v, %v, want %v", version, stored, err, want)
		}
	}

	old := &hotEpoch{base: "restart"}
	first := old.daemon(t, url, redis.Options{})
	put(first, 1, true)
	is(first, hot.Present)
	first.Close()

	servers.Do("stop", "redis")
	servers.Do("start", "redis")

	// Nobody bumps the epoch: nothing is served, nothing counts as stored.
	second, err := redis.Open(t.Context(), url, &redis.Options{Epoch: old.name(), CheckEvery: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	is(second, hot.Pending)
	put(second, 2, false)
	if _, _, err := second.Swap(t.Context(), key, tiering.Condition{}, []byte("1"), 0); !errors.Is(err, redis.ErrFailedOver) {
		t.Errorf("Swap answers %v, want %v", err, redis.ErrFailedOver)
	}
	if err := second.Scan(t.Context(), key.Tenant, key.Namespace, "", func(tiering.Key) bool { return true }); !errors.Is(err, redis.ErrFailedOver) {
		t.Errorf("Scan answers %v, want %v", err, redis.ErrFailedOver)
	}
	for range 3 { // told again and again
		select {
		case <-second.Ended():
		case <-time.After(5 * time.Second):
			t.Fatal("nobody is told of the failover")
		}
	}

	later := tiering.HotEpoch{Life: "restart", Count: 1}
	second.Advance(later)
	eventually(t, 10*time.Second, "the next epoch is in use", func() bool {
		l, err := second.Get(t.Context(), key, false)
		return err == nil && l.State != hot.Pending
	})
	is(second, hot.Empty)
	put(second, 3, true)
	is(second, hot.Present)

	// Another daemon learns of it from the marker, or from a commit: no further
	// epoch is needed.
	third, err := redis.Open(t.Context(), url, &redis.Options{Epoch: later, CheckEvery: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	is(third, hot.Present)
	select {
	case <-third.Ended():
		t.Error("told of a failover before its time")
	case <-time.After(500 * time.Millisecond):
	}

	if err := second.Forget(t.Context(), old.name()); err != nil {
		t.Fatal(err)
	}
	is(second, hot.Present)
	if n, err := admin(t, url).Exists(t.Context(), "tierd:restart.0:t:ns:x").Result(); err != nil || n != 0 {
		t.Errorf("%d keys of the epoch that was forgotten are left, %v", n, err)
	}
	second.Advance(old.name())
	is(second, hot.Present) // never back
}
