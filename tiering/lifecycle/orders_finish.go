package lifecycle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// unfinishedErase owns, in the catalog, the segments in which a rebuild found
// something that an erase order takes: the erase died with the warm store. The
// order alone is left to finish it by. It is the name of a lease too, under which
// such a segment is written anew while the subject is in it.
const unfinishedErase = "unfinished erase"

// ordersEvery is how often the orders in the buckets are held against what may
// still be left of their subjects.
const ordersEvery = time.Hour

// signs are the orders and the lineage that both buckets tell of together.
type signs struct {
	orders  []Order
	lineage *Lineage
}

// taker asks the orders of a segment's tenant about its records.
func (s signs) taker(src *cold.Segment) *taker {
	t := &taker{lineage: s.lineage, epoch: src.Epoch()}
	for _, o := range s.orders {
		if o.Tenant == src.Tenant() {
			t.orders = append(t.orders, o)
		}
	}
	return t
}

// readSigns reads the orders and markers of both buckets, whole or not at all. Of the
// orders of this life it returns those that warm has done: one that is under way is
// the eraser's, and one that warm does not know was not begun, or is being withdrawn,
// so that what it would take still stands.
func (e *Engine) readSigns(ctx context.Context) (signs, error) {
	var out signs
	for _, c := range bothCopies() {
		orders, err := ReadOrders(ctx, e.Archive.Bucket(c))
		if err != nil {
			return out, err
		}
		for _, o := range orders {
			out.orders = addOrder(out.orders, o)
		}
	}
	epoch, err := e.Warm.Epoch(ctx)
	if err != nil {
		return out, err
	}
	done := out.orders[:0]
	for _, o := range out.orders {
		if o.Epoch == epoch {
			er, ok, err := e.Warm.Erasure(ctx, o.ID)
			if err != nil {
				return out, err
			}
			if !ok || er.Done.IsZero() {
				continue
			}
		}
		done = append(done, o)
	}
	out.orders = done
	out.lineage, err = e.readLineage(ctx)
	return out, err
}

// readLineage reads the markers of both buckets, whole or not at all.
func (e *Engine) readLineage(ctx context.Context) (*Lineage, error) {
	var markers []Marker
	for _, c := range bothCopies() {
		more, err := readMarkers(ctx, e.Archive.Bucket(c))
		if err != nil {
			return nil, err
		}
		markers = append(markers, more...)
	}
	epoch, err := e.Warm.Epoch(ctx)
	if err != nil {
		return nil, err
	}
	return traceLineage([]string{epoch}, markers)
}

// finishOrders is the worker's step that leaves nothing of a subject whose
// erase warm does not know: it died with an earlier life of the store, or
// something of the subject came to a bucket after it was done. An order names
// nobody, and knows its own.
func (e *Engine) finishOrders(ctx context.Context, _ warm.Lease) (time.Duration, error) {
	if err := e.FinishOrders(ctx); err != nil {
		if tiering.CodeOf(err) == tiering.CodeLeaseHeld {
			return e.LeaseTTL / 3, nil
		}
		return 0, err
	}
	return ordersEvery, nil
}

// FinishOrders carries out, now, every erase order in the buckets: in segments
// that a rebuild took over from an unfinished erase, and in objects that the
// catalog does not know. An order or marker that one bucket alone holds comes
// to the other. It is lease_held while another daemon erases.
func (e *Engine) FinishOrders(ctx context.Context) error {
	return e.rewriting(ctx, func(ctx context.Context, w *rewriter) error {
		if err := w.spreadSigns(ctx); err != nil {
			return err
		}
		found, err := w.readSigns(ctx)
		if err != nil || len(found.orders) == 0 {
			return err
		}
		return w.carryOut(ctx, found)
	})
}

// rewriting runs fn under the eraser's lease, while no erasure runs here, once
// what a rewriter that died had begun is given up.
func (e *Engine) rewriting(ctx context.Context, fn func(context.Context, *rewriter) error) error {
	l, ok, err := e.Warm.Acquire(ctx, eraseLease, e.Holder, e.LeaseTTL)
	if err != nil {
		return err
	}
	if !ok {
		return tiering.Errorf(tiering.CodeLeaseHeld, "daemon %s erases until %s", l.Holder, l.Expires.Format(time.RFC3339))
	}
	if err := lockWithin(ctx, &e.erasures.running); err != nil {
		return err
	}
	defer e.erasures.running.Unlock()
	ctx = warm.Under(ctx, l)
	if err := e.sweepIntents(ctx, l); err != nil {
		return err
	}
	return fn(ctx, &rewriter{e, l})
}

// finishMarked carries the orders out if a rebuild marked a segment of the tenant.
func (w *rewriter) finishMarked(ctx context.Context, tenant string) error {
	marked, err := w.marked(ctx, tenant)
	if err != nil || len(marked) == 0 {
		return err
	}
	found, err := w.readSigns(ctx)
	if err != nil {
		return err
	}
	return w.carryOut(ctx, found)
}

// carryOut takes what the orders take. What others had before under a user's keys
// goes first: his own versions are all that tells a rebuild that nobody before has
// the key any more.
func (w *rewriter) carryOut(ctx context.Context, found signs) error {
	blocked, failed := w.takeHidden(ctx, found)
	if blocked == nil || errors.Is(failed, tiering.ErrUnavailable) {
		return failed
	}
	return errors.Join(failed, w.finishSegments(ctx, found, blocked), w.finishStrangers(ctx, found, blocked))
}

// marked are the segments that a rebuild marked: of one tenant, or of all ("").
func (w *rewriter) marked(ctx context.Context, tenant string) (out []tiering.SegmentInfo, err error) {
	err = w.eachSegment(ctx, tenant, tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		if s.Owner == unfinishedErase {
			out = append(out, s)
		}
		return nil
	})
	return out, err
}

// finishSegments rewrites the marked segments, but for those of some tenants.
func (w *rewriter) finishSegments(ctx context.Context, found signs, without map[string]bool) error {
	marked, err := w.marked(ctx, "")
	if err != nil {
		return err
	}
	var failed error
	for _, s := range marked {
		if without[s.Tenant] {
			continue
		}
		if err := w.renew(ctx); err != nil {
			return err
		}
		failed = errors.Join(failed, w.moveTo(ctx, s, found))
	}
	return failed
}

// moveTo writes a segment under another name, without what an order takes.
func (w *rewriter) moveTo(ctx context.Context, s tiering.SegmentInfo, found signs) error {
	src, err := w.openEither(ctx, s.Name)
	if err != nil {
		return err
	}
	kept, _, err := split(src, found.taker(src).takes)
	if err != nil {
		return err
	}
	_, err = w.replace(ctx, s, src, kept)
	return err
}

// finishStrangers takes what an order takes out of the objects that the catalog
// does not know, but for those of blocked tenants. One that cannot be judged does not
// stop the others.
func (w *rewriter) finishStrangers(ctx context.Context, found signs, blocked map[string]bool) error {
	strangers, err := w.strangers(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, o := range strangers {
		if err := w.renew(ctx); err != nil {
			return err
		}
		var of *taker
		_, err := w.cleanStranger(ctx, o, "", func(src *cold.Segment, r cold.Record) bool {
			if of == nil {
				of = found.taker(src)
			}
			return !blocked[src.Tenant()] && of.takes(r)
		})
		failed = errors.Join(failed, err)
	}
	return failed
}

// rename gives a segment of the catalog another name, because its own is
// occupied in a bucket: an erase gave the object up, and died before it was
// gone from the other bucket, from which the store was rebuilt. What it holds
// may lie nowhere else, so that it is copied; a name that was given up is never
// written again.
func (e *Engine) rename(ctx context.Context, name string) error {
	return e.rewriting(ctx, func(ctx context.Context, w *rewriter) error {
		s, ok, err := w.Warm.Segment(ctx, name)
		switch {
		case err != nil || !ok || s.State != tiering.SegmentFinished:
			return err
		case s.Owner == unfinishedErase:
			return w.finishMarked(ctx, s.Tenant)
		}
		found, err := w.readSigns(ctx)
		if err != nil {
			return err
		}
		return w.moveTo(ctx, s, found)
	})
}

// spreadSigns brings orders and markers that one bucket alone holds to the
// other, so that a rebuild does the same from either. An order that is young
// may be on its way, to the other bucket or back.
func (w *rewriter) spreadSigns(ctx context.Context) error {
	now, err := w.Warm.Now(ctx)
	if err != nil {
		return err
	}
	at := map[string][]tiering.Copy{}
	for _, c := range bothCopies() {
		for _, prefix := range []string{MarkersPrefix, OrdersPrefix} {
			for info, err := range w.Archive.Bucket(c).List(ctx, prefix) {
				if err != nil {
					return tiering.Wrap(err, "list "+prefix+" in "+c.String(), tiering.Cold, tiering.Key{})
				}
				at[info.Name] = append(at[info.Name], c)
			}
		}
	}
	var failed error
	for name, in := range at {
		if len(in) == 1 {
			failed = errors.Join(failed, w.spreadSign(ctx, name, in[0], now))
		}
	}
	return failed
}

func (w *rewriter) spreadSign(ctx context.Context, name string, from tiering.Copy, now time.Time) error {
	data, err := w.Archive.Bucket(from).Read(ctx, name, 0, -1)
	switch {
	case errors.Is(err, cold.ErrNotExist):
		return nil // withdrawn meanwhile
	case err != nil:
		return tiering.Wrap(err, "read "+name+" from "+from.String(), tiering.Cold, tiering.Key{})
	case !soundSign(name, data):
		return nil // a verification tells, and so does whoever needs it
	}
	if o, err := DecodeOrder(data); err == nil && slices.Contains([]string{o.Name(), o.FinalName()}, name) && now.Sub(o.CreatedAt) < w.Grace {
		return nil
	}
	return w.Archive.Write(ctx, tiering.Backup-from, name, data)
}
