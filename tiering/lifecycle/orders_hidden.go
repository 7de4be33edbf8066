package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// hidden is what others had under keys that users' orders take something of, and
// that were the users' in the end: a rebuild leaves it out because it finds the
// user's versions above it. Without those it would stand again where nobody
// recorded its end, so it goes before they do.
type hidden struct {
	*rewriter
	found signs // the users' orders alone
	// top is the highest version that an order takes of a key.
	top map[tiering.Key]int64
}

// takeHidden takes it wherever it lies. blocked are the tenants of which that
// failed, and whose segments have to stay as they are; nil is all of them.
func (w *rewriter) takeHidden(ctx context.Context, found signs) (blocked map[string]bool, failed error) {
	h := hidden{rewriter: w, found: found.byUsers(), top: map[tiering.Key]int64{}}
	blocked = map[string]bool{}
	if len(h.found.orders) == 0 {
		return blocked, nil
	}
	marked, err := w.marked(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, s := range marked {
		src, err := w.openEither(ctx, s.Name)
		if err = errors.Join(err, w.renew(ctx)); err != nil {
			blocked[s.Tenant], failed = true, errors.Join(failed, err)
			continue
		}
		h.meet(src)
	}
	strangers, err := w.strangers(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range strangers {
		src, err := w.openStranger(ctx, o)
		if failed = errors.Join(failed, err, w.renew(ctx)); src != nil {
			h.meet(src)
		}
	}
	for tenant, keys := range h.byTenant() {
		if err := h.takeListed(ctx, tenant, keys); err != nil {
			blocked[tenant], failed = true, errors.Join(failed, err)
		}
	}
	for _, o := range strangers {
		failed = errors.Join(failed, h.takeStranger(ctx, o))
	}
	return blocked, failed
}

// byUsers leaves the orders that take what one user had.
func (s signs) byUsers() signs {
	out := signs{lineage: s.lineage}
	for _, o := range s.orders {
		if o.Kind == orderByUser {
			out.orders = append(out.orders, o)
		}
	}
	return out
}

// strangers are the objects that the catalog does not know.
func (w *rewriter) strangers(ctx context.Context) (out []looseObject, err error) {
	objects, err := w.looseObjects(ctx)
	for _, o := range objects {
		if o.state == "" {
			out = append(out, o)
		}
	}
	return out, err
}

// meet notes of which keys the orders take something. Its records are known to be
// sound.
func (h *hidden) meet(src *cold.Segment) {
	t := h.found.taker(src)
	for r, err := range src.Records() {
		if err == nil && !r.Key.Reserved() && t.takes(r) {
			h.top[r.Key] = max(h.top[r.Key], r.Version)
		}
	}
}

func (h *hidden) byTenant() map[string][]tiering.Key {
	out := map[string][]tiering.Key{}
	for k := range h.top {
		out[k.Tenant] = append(out[k.Tenant], k)
	}
	return out
}

// takeListed takes it out of the tenant's segments. They list each such key, with
// no version of it.
func (h *hidden) takeListed(ctx context.Context, tenant string, keys []tiering.Key) error {
	in := map[string]map[tiering.Key]bool{} // by segment
	for _, k := range keys {
		locs, err := h.Warm.Locations(ctx, k)
		if err != nil {
			return err
		}
		if h.stood(locs) {
			continue
		}
		for _, l := range locs {
			if l.MaxVersion > 0 {
				continue
			}
			if in[l.Segment] == nil {
				in[l.Segment] = map[tiering.Key]bool{}
			}
			in[l.Segment][k] = true
		}
	}
	all := pasts{}
	for name, keys := range in {
		src, err := h.openEither(ctx, name)
		if err != nil {
			return err
		}
		kept, _, err := split(src, h.found.taker(src).takes)
		if err = errors.Join(err, h.renew(ctx)); err != nil {
			return err
		}
		for _, r := range kept {
			if keys[r.Key] {
				all.add(r)
			}
		}
	}
	orphans := all.orphans()
	if len(orphans) == 0 {
		return nil
	}
	for name, keys := range in {
		if err := h.lessen(ctx, name, func(r cold.Record) bool {
			deleted, orphan := orphans[r.Key]
			return orphan && keys[r.Key] && r.Version > deleted
		}); err != nil {
			return err
		}
	}
	return nil
}

// stood reports whether a key of those locations stood when the store was rebuilt:
// then what others had before is its history. What was written since is above the
// floor.
func (h *hidden) stood(locs []tiering.Location) bool {
	for _, l := range locs {
		if l.MaxVersion > 0 && l.MaxVersion <= h.found.lineage.floor() {
			return true
		}
	}
	return false
}

// lessen writes a segment anew without the records taken, and with those that an
// order takes: one that is marked stays so.
func (h *hidden) lessen(ctx context.Context, name string, taken func(cold.Record) bool) error {
	if err := h.renew(ctx); err != nil {
		return err
	}
	s, ok, err := h.Warm.Segment(ctx, name)
	if err != nil || !ok || s.State != tiering.SegmentFinished {
		return err
	}
	src, err := h.openEither(ctx, name)
	if err != nil {
		return err
	}
	subject := h.found.taker(src)
	kept, found, err := split(src, func(r cold.Record) bool { return taken(r) && !subject.takes(r) })
	if err != nil || !found {
		return err
	}
	if s.Owner != unfinishedErase {
		_, err = h.replace(ctx, s, src, kept)
		return err
	}
	return h.marking(ctx, func(ctx context.Context, w *rewriter) error {
		_, err := w.replace(ctx, s, src, kept)
		return err
	})
}

// marking runs fn under the lease whose segments are marked.
func (w *rewriter) marking(ctx context.Context, fn func(context.Context, *rewriter) error) error {
	l, ok, err := w.Warm.Acquire(ctx, unfinishedErase, w.Holder, w.LeaseTTL)
	if err != nil {
		return err
	}
	if !ok {
		return tiering.Errorf(tiering.CodeLeaseHeld, "daemon %s finishes orders until %s", l.Holder, l.Expires.Format(time.RFC3339))
	}
	ctx = warm.Under(ctx, l)
	if err := w.sweepIntents(ctx, l); err != nil {
		return err
	}
	return fn(ctx, &rewriter{w.Engine, l})
}

// takeStranger takes it out of an object that the catalog does not know. Deletions
// stay: they bring nobody back.
func (h *hidden) takeStranger(ctx context.Context, o looseObject) error {
	before := formerOwners{rewriter: h.rewriter}
	var subject *taker
	_, err := h.cleanStranger(ctx, o, "", func(src *cold.Segment, r cold.Record) bool {
		if subject == nil {
			subject = h.found.taker(src)
		}
		return r.Version < h.top[r.Key] && !r.Op.Deleting() && !subject.takes(r) && before.takes(ctx, r)
	})
	return errors.Join(err, before.err)
}
