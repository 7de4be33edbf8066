package lifecycle_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/tiering/lifecycle"
	"github.com/tierd/tierd/warm"
)

// beforeTaken calls fn once, when an erase has listed what it is to take and has not
// begun to.
type beforeTaken struct {
	warm.Store
	once sync.Once
	fn   func()
}

func (b *beforeTaken) EraseKeys(ctx context.Context, id string, limit int) (warm.Erasure, bool, error) {
	b.once.Do(b.fn)
	return b.Store.EraseKeys(ctx, id, limit)
}

// Readers that loaded a document before it was erased may put it into hot afterwards. An
// erase ends their leases, of the documents that it has listed; where it takes others it
// waits until all leases have lapsed, also if they are as many.
func TestAnEraseWaitsForReadersOfWhatItDidNotList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(w *ward)
		done bool
	}{
		{"nothing comes between", func(*ward) {}, true},
		{"a document more", func(w *ward) { w.write(in("notes", "new"), owned(canary, `{"text":"late"}`)) }, false},
		{"one more and one less", func(w *ward) {
			w.write(in("notes", "old"), row(tiering.OpDelete))
			w.write(in("notes", "old"), owned("bob", `"bobs"`))
			w.write(in("notes", "new"), owned(canary, `{"text":"late"}`))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			between := &beforeTaken{fn: func() {}}
			w := newWard(t, wardOptions{
				store:  func(s warm.Store) warm.Store { between.Store = s; return between },
				config: lifecycle.Config{HotLease: time.Hour},
			})
			w.write(in("notes", "old"), owned(canary, `{"text":"early"}`))
			between.fn = func() { c.do(w) }
			if r := w.erase(tiering.EraseRequest{User: canary}); (r.State == "done") != c.done {
				t.Errorf("%+v", r)
			}
		})
	}
}
