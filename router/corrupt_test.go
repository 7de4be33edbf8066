package router

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/hot/memory"
	"github.com/tierd/tierd/internal/soundness"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm/sqlite"
)

// rotting is a hot store whose values change by themselves.
type rotting struct {
	hot.Store
	bad  atomic.Bool
	asks atomic.Int64
}

func (r *rotting) Get(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	r.asks.Add(1)
	l, err := r.Store.Get(ctx, key, lease)
	if l.State == hot.Present && r.bad.Load() {
		l.Entry.Body = append([]byte(" "), l.Entry.Body...)
	}
	return l, err
}

// Hot whose values do not match their digests leaves the read path; nothing
// wrong is ever served, and ephemeral documents, which lie nowhere else, are
// still asked for.
func TestACorruptHotTierLeavesTheReadPath(t *testing.T) {
	ctx := t.Context()
	store, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "warm.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	h := &rotting{Store: memory.Open(nil)}
	defer h.Close()
	r := New(Config{Hot: h, Warm: store})
	defer r.Close()
	if _, err := r.SetNamespace(ctx, "scratch", tiering.Policy{Class: tiering.ClassEphemeral}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Put(ctx, "scratch", "k", []byte(`1`), nil); err != nil {
		t.Fatal(err)
	}
	for i := range soundness.MinObjects {
		if _, err := r.Put(ctx, "docs", fmt.Sprint(i), []byte(`{"n":1}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	read := func() {
		t.Helper()
		for i := range soundness.MinObjects {
			if d, err := r.Get(ctx, "docs", fmt.Sprint(i), nil); err != nil || string(d.Body) != `{"n":1}` {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	}
	h.bad.Store(true)
	for range 2 * soundness.MinLoads / soundness.MinObjects { // every second read finds what the one before filled
		read()
	}
	asked := h.asks.Load()
	read()
	if again := h.asks.Load(); again != asked {
		t.Errorf("hot was asked %d times more", again-asked)
	}
	h.bad.Store(false)
	if d, err := r.Get(ctx, "scratch", "k", nil); err != nil || string(d.Body) != `1` {
		t.Errorf("the ephemeral document: %+v, %v", d, err)
	}
	// Writes go on telling hot, so that it is coherent when it comes back.
	if _, err := r.Put(ctx, "docs", "0", []byte(`{"n":2}`), nil); err != nil {
		t.Fatal(err)
	}
	if l, err := h.Store.Get(ctx, tiering.Key{Tenant: tiering.DefaultTenant, Namespace: "docs", ID: "0"}, false); err != nil || string(l.Entry.Body) != `{"n":2}` {
		t.Errorf("hot holds %+v, %v", l, err)
	}
}
