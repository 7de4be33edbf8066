package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
)

// keeper is a hot tier that keeps more than it serves.
type keeper struct {
	hot.Store
	fails int
	lives []string
}

func (k *keeper) Scrub(_ context.Context, lives []string) error {
	if k.fails > 0 {
		k.fails--
		return errors.New("the file cannot be written")
	}
	k.lives = lives
	return nil
}

// An erase is done only after hot forgot what it keeps of all lives of the
// store, those before a rebuild too.
func TestEraseScrubsHot(t *testing.T) {
	w := newWard(t, wardOptions{})
	now, err := w.store.Epoch(w.ctx)
	w.no(err)
	m := lifecycle.Marker{
		Format: 1, Epoch: now, Parent: "01PARENT0000000000000000AA", CreatedAt: time.Now(),
		Cuts: map[string]int64{}, Before: []lifecycle.Life{{Epoch: "01FIRST00000000000000000AA", Cuts: map[string]int64{}}},
	}
	errs := w.archive.WriteBoth(w.ctx, m.Name(), m.Encode())
	w.no(errors.Join(errs[0], errs[1]))
	k := &keeper{Store: w.hot, fails: 1}
	w.config.Hot = k
	w.restart()

	key := tiering.Key{Tenant: "acme", Namespace: "notes", ID: "a"}
	w.write(key, owned("ada", `{"v":1}`))
	no := false
	r, err := w.engine.Erase(w.ctx, key.Tenant, tiering.EraseRequest{User: "ada", DryRun: &no})
	w.no(err)
	if r.State == "done" || k.lives != nil {
		t.Fatalf("done although hot could not forget: %+v", r)
	}
	w.finish(r.ID)
	if want := []string{"01FIRST00000000000000000AA", m.Parent}; !slices.Equal(k.lives, want) {
		t.Errorf("hot forgot the lives %v, want %v", k.lives, want)
	}
}
