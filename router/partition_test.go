package router

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/sqlite"
)

// apart is a shared hot store out of one daemon's reach: it answers nothing
// until it is near again, and never says so.
type apart struct {
	hot.Store
	near  atomic.Bool
	epoch atomic.Pointer[tiering.HotEpoch]
}

func (a *apart) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	if a.near.Load() {
		return a.Store.Get(ctx, key, lease)
	}
	return hot.Lookup{}, errHotLost
}

func (a *apart) Mark(ctx context.Context, key tiering.Key, token hot.Token) error {
	if a.near.Load() {
		return a.Store.Mark(ctx, key, token)
	}
	return errHotLost
}

func (a *apart) Set(ctx context.Context, s hot.Set) (bool, error) {
	if a.near.Load() {
		return a.Store.Set(ctx, s)
	}
	return false, errHotLost
}

func (a *apart) HotEpoch() tiering.HotEpoch { return *a.epoch.Load() }
func (a *apart) Advance(e tiering.HotEpoch) {
	if e.Supersedes(a.HotEpoch()) {
		a.epoch.Store(&e)
	}
}
func (a *apart) Ended() <-chan tiering.HotEpoch                 { return nil }
func (a *apart) End(tiering.HotEpoch)                           {}
func (a *apart) Forget(context.Context, tiering.HotEpoch) error { return nil }

// A daemon that cannot reach the shared hot tier writes on, and every now and
// then ends the epoch in warm for it: so the daemons that do reach it soon read
// what it wrote.
func TestADaemonCutOffFromHotEndsTheEpochForTheOthers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	store, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "warm.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	h := &apart{Store: memory.Open(nil)}
	h.epoch.Store(&tiering.HotEpoch{})
	defer h.Close()
	r := New(Config{Hot: h, Warm: store, EpochEvery: 20 * time.Millisecond})
	defer r.Close()
	for round := int64(1); round <= 3; round++ {
		before, err := store.HotEpoch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Put(ctx, "docs", "k", []byte(`1`), nil); err != nil {
			t.Fatal(err)
		}
		for {
			e, err := store.HotEpoch(ctx)
			if err != nil {
				t.Fatalf("write %d ended no epoch: %v", round, err)
			}
			if e.Supersedes(before) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// reluctant is a warm store that begins no hot epoch until it may.
type reluctant struct {
	*sqlite.Store
	may atomic.Bool
}

func (s *reluctant) BumpHotEpoch(ctx context.Context, from tiering.HotEpoch) (tiering.HotEpoch, error) {
	if !s.may.Load() {
		return tiering.HotEpoch{}, errors.New("not yet")
	}
	return s.Store.BumpHotEpoch(ctx, from)
}

// Until every daemon has heard that the epoch is over in which hot missed a
// write, one of them may serve what the write has overwritten, also after later
// writes: none of these counts as taken by hot, though it is.
func TestHotTakesNothingUntilAllHaveHeardOfWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "warm.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		store := &reluctant{Store: file}
		defer store.Close()
		h := &apart{Store: memory.Open(nil)}
		h.epoch.Store(&tiering.HotEpoch{})
		defer h.Close()
		r := New(Config{Hot: h, Warm: store, EpochEvery: time.Second})
		defer r.Close()
		put := func() bool {
			t.Helper()
			rc, err := r.Put(t.Context(), "docs", "k", []byte(`1`), nil)
			if err != nil {
				t.Fatal(err)
			}
			return rc.Hot
		}
		if put() {
			t.Error("hot took a write that it did not answer")
		}
		h.near.Store(true)
		time.Sleep(time.Minute)
		if put() {
			t.Error("hot took a write while its epoch was owed an end")
		}
		store.may.Store(true)
		time.Sleep(1100 * time.Millisecond)
		if e := h.HotEpoch(); e.IsZero() {
			t.Error("the epoch was not ended within a second")
		}
		if put() {
			t.Error("hot took a write while others may not have heard that the epoch is over")
		}
		time.Sleep(2 * time.Second)
		if !put() {
			t.Error("hot takes no write though all have heard")
		}
	})
}
