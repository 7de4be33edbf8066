package lifecycle

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// hotPage is how many heads are listed at a time.
const hotPage = 1000

// taken is what an erase found of its subject before it took it from warm.
type taken struct {
	live    []tiering.Key // documents that a reader may be about to put into hot
	counted warm.Erasure  // as warm counted them before
}

// keysInHot lists the documents that hot may hold or come to hold. What is
// written later is seen by the count.
func (x *eraser) keysInHot(ctx context.Context) (taken, error) {
	if x.Hot == nil {
		return taken{}, nil
	}
	n, err := x.Warm.CountErase(ctx, x.er.Selector)
	if err != nil {
		return taken{}, err
	}
	t := taken{counted: n}
	namespaces, err := x.namespaces(ctx)
	if err != nil {
		return t, err
	}
	sel := x.er.Selector
	for _, ns := range namespaces {
		l := warm.List{Tenant: sel.Tenant, Namespace: ns, Prefix: sel.ID + sel.Prefix, User: sel.User, Limit: hotPage}
		err := x.list(ctx, l, func(h warm.Head) {
			if sel.Takes(h.Key, h.User) {
				t.live = append(t.live, h.Key)
			}
		})
		if err != nil {
			return t, err
		}
	}
	return t, nil
}

// list calls fn with every live head that l selects.
func (x *eraser) list(ctx context.Context, l warm.List, fn func(warm.Head)) error {
	for {
		page, err := x.Warm.List(ctx, l)
		if err != nil {
			return err
		}
		for _, cur := range page {
			fn(cur.Head)
			l.After = cur.Head.Key.ID
		}
		if len(page) < l.Limit {
			return nil
		}
	}
}

// namespaces are those that the subject may be in.
func (x *eraser) namespaces(ctx context.Context) (names []string, err error) {
	if x.er.Selector.User == "" {
		return []string{x.er.Selector.Namespace}, nil
	}
	l := warm.List{Tenant: x.er.Selector.Tenant, Namespace: tiering.PolicyNamespace, Limit: hotPage}
	err = x.list(ctx, l, func(h warm.Head) { names = append(names, h.Key.ID) })
	return names, err
}

// dropFromHot drops the values of keys that are gone from warm, and the leases
// of readers that loaded them before and are about to fill: the mark of a write
// does both. Where that fails, or keys were taken that nobody listed, the end
// of all leases is waited for.
func (x *eraser) dropFromHot(ctx context.Context, t taken) {
	if x.Hot == nil || x.followHot(ctx) != nil {
		return
	}
	for _, k := range t.live {
		token := hot.Token(rand.Uint64() | 1)
		if err := x.Hot.Mark(ctx, k, token); err != nil {
			return
		}
		if err := x.Hot.Unmark(ctx, k, token); err != nil {
			return
		}
	}
	if t.all(x.er) {
		x.state.fillsEnd = time.Now()
	}
}

// all reports whether an erasure took what was counted, and so listed. As many keys may
// be others: one that became somebody else's, and one that was written since. What was
// written has a version more, of some bytes.
func (t taken) all(er warm.Erasure) bool {
	return t.counted.Keys == er.Keys && t.counted.Versions == er.Versions && t.counted.Bytes == er.Bytes
}

// followHot goes on to the hot epoch that stands now that warm has lost the
// keys: another daemon may have filled it with them before.
func (x *eraser) followHot(ctx context.Context) error {
	store, ok := hot.As[hot.Epochal](x.Hot)
	if !ok {
		return nil
	}
	e, err := x.Warm.HotEpoch(ctx)
	if err == nil {
		store.Advance(e)
	}
	return err
}

// clearHot drops what hot holds of the subject: whatever the selector takes
// and warm does not have at that version. Documents of ephemeral namespaces are
// never in warm, so they go; hot knows no owner of theirs.
func (x *eraser) clearHot(ctx context.Context) error {
	if x.Hot == nil {
		return nil
	}
	if err := x.followHot(ctx); err != nil {
		return err
	}
	if x.state.fillsEnd.IsZero() {
		x.state.fillsEnd = time.Now().Add(x.HotLease)
	}
	if left := time.Until(x.state.fillsEnd); left > 0 {
		return tiering.Errorf(tiering.CodeUnavailable, "readers that loaded a document before the erase may fill hot for another %s", left.Round(time.Millisecond))
	}
	namespaces, err := x.namespaces(ctx)
	if err != nil {
		return err
	}
	sel := x.er.Selector
	for _, ns := range namespaces {
		var keys []tiering.Key
		err := x.Hot.Scan(ctx, sel.Tenant, ns, sel.ID+sel.Prefix, func(k tiering.Key) bool {
			if sel.ID == "" || k.ID == sel.ID {
				keys = append(keys, k)
			}
			return true
		})
		if err != nil {
			return tiering.Wrap(err, "scan", tiering.Hot, tiering.Key{})
		}
		for _, k := range keys {
			if err := x.dropStale(ctx, k); err != nil {
				return err
			}
		}
	}
	return x.scrubHot(ctx)
}

// clearIndex has the index forget what it keeps of the subject in this process:
// what it keeps in warm went with the keys.
func (x *eraser) clearIndex(ctx context.Context) error {
	if x.Memories.Index == nil {
		return nil
	}
	return tiering.Wrap(x.Memories.Index.Forget(ctx), "forget", tiering.Vector, tiering.Key{})
}

// scrubHot has hot forget what it keeps of the subject and does not serve:
// under epochs that are over, also of earlier lives of the store, and in files
// of its own.
func (x *eraser) scrubHot(ctx context.Context) error {
	store, ok := hot.As[hot.Scrubber](x.Hot)
	if !ok {
		return nil
	}
	lives, err := x.earlierLives(ctx)
	if err != nil {
		return err
	}
	return tiering.Wrap(store.Scrub(ctx, lives), "scrub", tiering.Hot, tiering.Key{})
}

// earlierLives are the epochs of warm that went before this one, as the markers
// in either bucket tell.
func (x *eraser) earlierLives(ctx context.Context) (lives []string, err error) {
	now, err := x.Warm.Epoch(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{now: true}
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		markers, err := readMarkers(ctx, x.Archive.Bucket(c))
		if err != nil {
			return nil, err
		}
		for _, m := range markers {
			for _, l := range m.Lives() {
				if !seen[l.Epoch] {
					seen[l.Epoch] = true
					lives = append(lives, l.Epoch)
				}
			}
		}
	}
	return lives, nil
}

// dropStale drops a value of the subject that warm does not have.
func (x *eraser) dropStale(ctx context.Context, key tiering.Key) error {
	l, err := x.Hot.Get(ctx, key, false)
	if err != nil {
		return tiering.Wrap(err, "look", tiering.Hot, tiering.Key{})
	}
	m := l.Entry.Meta
	if l.State != hot.Present || !x.er.Selector.Takes(key, m.User) {
		return nil
	}
	cur, err := x.Warm.Head(ctx, key)
	if err != nil {
		return err
	}
	if cur.Head.Live(cur.Now) && cur.Head.Version == m.Version { // written since
		return nil
	}
	return tiering.Wrap(x.Hot.Drop(ctx, key, m.Version, m.Revision), "drop", tiering.Hot, tiering.Key{})
}
