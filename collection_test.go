package tierd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/tiering"
)

// A node is opened on data that a collection then looks after: while the node
// runs by itself, and when it is closed by opening the tiers.
func TestCollect(t *testing.T) {
	ctx := t.Context()
	var mu sync.Mutex
	now := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	c := tierd.Config{Data: t.TempDir(), SegmentAge: time.Hour, Clock: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}
	n, err := tierd.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := n.Put(ctx, "prefs", "ada", []byte(fmt.Sprint(i)), nil); err != nil {
			t.Fatal(err)
		}
		if err := n.Archive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := n.Collect(ctx, true); err != nil || !r.DryRun || len(r.Rewritten) > 0 {
		t.Errorf("a dry run on the node: %+v, %v", r, err)
	}
	if _, err := tierd.Collect(ctx, c, true); !errors.Is(err, tierd.ErrInUse) {
		t.Errorf("while the node runs: %v, want ErrInUse", err)
	}
	for i := range 5 {
		if _, err := n.Put(ctx, "prefs", "bob", []byte(fmt.Sprint(i)), nil); err != nil {
			t.Fatal(err)
		}
		if err := n.Archive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := n.Collect(ctx, false); err != nil || len(r.Rewritten) > 1 {
		t.Errorf("a run on the node: %+v, %v", r, err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	r, err := tierd.Collect(ctx, c, false)
	if err != nil || r.Objects < 16 {
		t.Errorf("a run on closed tiers: %+v, %v", r, err)
	}
	if n, err = tierd.Open(ctx, c); err != nil {
		t.Fatal(err)
	}
	for v := range 5 {
		d, err := n.Get(ctx, "prefs", "ada", &tiering.GetOptions{Version: int64(v + 1)})
		if err != nil || string(d.Body) != fmt.Sprint(v) {
			t.Errorf("version %d: %v, %v", v+1, d, err)
		}
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestCollectOfNoStore(t *testing.T) {
	if _, err := tierd.Collect(t.Context(), tierd.Config{Data: t.TempDir()}, true); !errors.Is(err, tiering.ErrNotFound) {
		t.Errorf("got %v, want not_found", err)
	}
}
