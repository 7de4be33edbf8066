package router

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/sqlite"
)

// apart is a shared hot store out of one daemon's reach: it answers nothing,
// and never says that it is back.
type apart struct {
	hot.Store
	epoch atomic.Pointer[tiering.HotEpoch]
}

func (a *apart) Get(context.Context, tiering.Key, bool) (hot.Lookup, error) {
	return hot.Lookup{}, errHotLost
}
func (a *apart) Mark(context.Context, tiering.Key, hot.Token) error { return errHotLost }
func (a *apart) Set(context.Context, hot.Set) (bool, error)         { return false, errHotLost }

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
