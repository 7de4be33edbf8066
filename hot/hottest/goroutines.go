package hottest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

func testGoroutines(t *testing.T, h Harness) {
	if err := Stampede(t.Context(), h.open(t, Options{}), "tenant", 64, 60); err != nil {
		t.Error(err)
	}
}

// Stampede lets workers write and read a few keys at once, as the router does,
// and returns the first read that no order of the commits explains: a hit must
// be a version that warm held at some time between the call of Get and its
// return.
func Stampede(ctx context.Context, s Subject, tenant string, workers, rounds int) error {
	keys := make([]*warmKey, 3)
	for i := range keys {
		keys[i] = &warmKey{key: tiering.Key{Tenant: tenant, Namespace: "docs", ID: fmt.Sprint(i)}}
	}
	var (
		tokens, hits atomic.Int64
		mu           sync.Mutex
		faults       []error
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && len(faults) < 3 {
			faults = append(faults, err)
		}
	}
	together(workers, func(w int) {
		for n := range rounds {
			k := keys[(w+n)%len(keys)]
			// Few writes: while one is pending nobody is given a lease.
			if (w*5+n)%16 == 0 {
				fail(k.write(ctx, s, hot.Token(tokens.Add(1)), n%5 == 0))
				continue
			}
			hit, err := k.read(ctx, s)
			if hit {
				hits.Add(1)
			}
			fail(err)
		}
	})
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	// With the writers gone a reader fills, and the next one is served.
	for _, k := range keys {
		if _, err := k.read(ctx, s); err != nil {
			return err
		}
		if hit, err := k.read(ctx, s); err != nil || !hit {
			return fmt.Errorf("key %s is not served when all is quiet: %v", k.key.ID, err)
		}
	}
	if hits.Load() == 0 {
		return errors.New("no reader had a hit: nothing was proved")
	}
	return nil
}

// warmKey is one key of a warm store that only counts its versions.
type warmKey struct {
	key tiering.Key
	mu  sync.Mutex
	at  int64
}

func (k *warmKey) version() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at
}

func (k *warmKey) write(ctx context.Context, s Subject, token hot.Token, giveUp bool) error {
	began := time.Now()
	if err := s.Store.Mark(ctx, k.key, token); err != nil {
		return err
	}
	runtime.Gosched()
	k.mu.Lock()
	// The mark must outlive the commit, as it outlives the longest statement.
	if giveUp || time.Since(began) > s.Timing.Token/2 {
		k.mu.Unlock()
		return s.Store.Unmark(ctx, k.key, token)
	}
	k.at++
	version := k.at
	k.mu.Unlock()
	runtime.Gosched()
	_, err := s.Store.Set(ctx, hot.Set{Key: k.key, Token: token, Entry: entry(k.key, version, 0), TTL: long})
	return err
}

func (k *warmKey) read(ctx context.Context, s Subject) (hit bool, err error) {
	before := k.version()
	l, err := s.Store.Get(ctx, k.key, true)
	if err != nil {
		return false, err
	}
	after := k.version()
	switch l.State {
	case hot.Present:
		if v := l.Entry.Meta.Version; v < before || v > after || string(l.Entry.Body) != string(entry(k.key, v, 0).Body) {
			return true, fmt.Errorf("a reader got %s, while warm went from v%d to v%d", describe(l), before, after)
		}
		return true, nil
	case hot.Deleted:
		return false, fmt.Errorf("a reader got %s of a key never deleted", describe(l))
	}
	if l.Lease == 0 {
		return false, nil
	}
	load := k.version()
	runtime.Gosched()
	if load > 0 {
		_, err = s.Store.Fill(ctx, k.key, l.Lease, entry(k.key, load, 0), long)
	}
	return false, err
}
