package lifecycle

import (
	"context"
	"errors"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// cleanCold makes both buckets free of the subject. Warm lists the segments
// that held a key of it. Beside those there may be some that warm cannot know
// of: what a merge wrote that read a segment before it was rewritten here,
// versions of a user under a key that has another owner now, and objects that
// the catalog does not know, left in a bucket by an earlier life of the store.
// So it looks through the tenant's segments, and through the lists of both
// buckets, until a pass finds nothing to do.
//
// What others had under a user's keys goes first: see passPast.
func (x *eraser) cleanCold(ctx context.Context) error {
	if err := x.finishMarked(ctx, x.er.Selector.Tenant); err != nil {
		return err
	}
	for {
		worked := false
		for _, pass := range []func(context.Context) (bool, error){x.passWaiting, x.passPast, x.passStrangersPast, x.pass, x.passStrangers} {
			var err error
			if worked, err = pass(ctx); err != nil {
				return err
			}
			if worked {
				break
			}
		}
		if !worked {
			return nil
		}
	}
}

// passWaiting removes the segments of a user's tenant that wait for their end: what
// others had under a key that went whole may be in them, and a rebuild reads an
// object as long as it is there. What replaced them is searched.
func (x *eraser) passWaiting(ctx context.Context) (worked bool, err error) {
	if x.er.Selector.User == "" {
		return false, nil
	}
	var waiting []tiering.SegmentInfo
	err = x.eachSegment(ctx, x.er.Selector.Tenant, "", func(s tiering.SegmentInfo) error {
		if s.State == tiering.SegmentDeleting {
			waiting = append(waiting, s)
		}
		return nil
	})
	for _, s := range waiting {
		if err := errors.Join(err, x.renew(ctx)); err != nil {
			return false, err
		}
		if err := x.remove(ctx, s.Name); err != nil {
			return false, err
		}
	}
	return len(waiting) > 0, err
}

// pass goes through the tenant's segments once.
func (x *eraser) pass(ctx context.Context) (worked bool, err error) {
	listed := map[string]bool{}
	for _, name := range x.er.Segments {
		listed[name] = true
	}
	var suspects []tiering.SegmentInfo
	err = x.eachSegment(ctx, x.er.Selector.Tenant, "", func(s tiering.SegmentInfo) error {
		if listed[s.Name] || x.suspect(s) {
			suspects = append(suspects, s)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, s := range suspects {
		if err := x.renew(ctx); err != nil {
			return false, err
		}
		if err := x.cleanSegment(ctx, s); err != nil {
			return false, err
		}
		if !listed[s.Name] {
			continue
		}
		if err := x.Warm.CleanSegment(ctx, x.er.ID, s.Name); err != nil {
			return false, err
		}
		delete(listed, s.Name)
	}
	for name := range listed { // the catalog forgot it meanwhile; its object may not have gone
		if err := x.occupy(ctx, name); err != nil {
			return false, err
		}
		if err := x.Warm.CleanSegment(ctx, x.er.ID, name); err != nil {
			return false, err
		}
	}
	worked = len(suspects) > 0 || len(listed) > 0
	x.er.Segments = nil
	return worked, nil
}

// suspect reports whether a segment that warm did not list may hold something
// of the subject.
func (x *eraser) suspect(s tiering.SegmentInfo) bool {
	if x.state.clean[s.Name] {
		return false
	}
	switch s.State {
	case tiering.SegmentStarted:
		// The archiver's that warm did not list began to read after the subject
		// was gone. Others read segments, which may hold it.
		return s.Owner != ArchiveReader
	case tiering.SegmentDeleting:
		return true
	}
	fromSegments := s.Owner != ArchiveReader && !s.Started.Before(x.er.Started)
	return fromSegments || x.er.Selector.User != ""
}

// cleanSegment makes sure that one segment holds nothing of the subject.
func (x *eraser) cleanSegment(ctx context.Context, s tiering.SegmentInfo) error {
	if s.State == tiering.SegmentStarted {
		dropped, err := x.Warm.DropIntent(ctx, s.Name)
		if err != nil {
			return err
		}
		if dropped {
			return x.remove(ctx, s.Name)
		}
		// Whoever started it was faster: what it holds may be all that there is.
		var ok bool
		if s, ok, err = x.Warm.Segment(ctx, s.Name); err != nil || !ok {
			return err
		}
	}
	src, err := x.openEither(ctx, s.Name)
	lost := errors.Is(err, tiering.ErrGone) || errors.Is(err, tiering.ErrNotFound) || errors.Is(err, tiering.ErrCorrupt)
	if s.State == tiering.SegmentDeleting && lost {
		return x.remove(ctx, s.Name) // whatever is left of it, nobody needs it
	}
	if err != nil {
		return err
	}
	kept, found, err := split(src, x.mine(src))
	if err != nil {
		return err
	}
	if s.State == tiering.SegmentFinished && x.er.Selector.User != "" {
		listed, err := x.listed(ctx, s, src)
		if err != nil {
			return err
		}
		found = x.state.past.note(kept, listed) || found
	}
	switch {
	case !found:
		x.state.clean[s.Name] = true
		return nil
	case s.State == tiering.SegmentDeleting:
		return x.remove(ctx, s.Name)
	}
	name, err := x.replace(ctx, s, src, kept)
	if err == nil {
		x.state.clean[name] = true
	}
	return err
}

// mine returns which records of a segment the order takes.
func (x *eraser) mine(src *cold.Segment) func(cold.Record) bool {
	return func(r cold.Record) bool { return x.order.Takes(&Lineage{}, src.Epoch(), r) }
}

// passStrangers goes through the objects in both buckets that the catalog does
// not know.
func (x *eraser) passStrangers(ctx context.Context) (worked bool, err error) {
	before := formerOwners{rewriter: &x.rewriter}
	byUser := x.er.Selector.User != ""
	return x.eachStranger(ctx, func(src *cold.Segment, r cold.Record) bool {
		return x.mine(src)(r) || byUser && before.takes(ctx, r)
	}, &before.err, "")
}

// eachStranger takes records out of the tenant's objects that the catalog does not
// know, unless asking about them failed. An object is looked at once for each what.
func (x *eraser) eachStranger(ctx context.Context, taken func(*cold.Segment, cold.Record) bool, failed *error, what string) (worked bool, err error) {
	objects, err := x.looseObjects(ctx)
	if err != nil {
		return false, err
	}
	for _, o := range objects {
		if o.state != "" || x.state.clean[what+o.name] {
			continue
		}
		if err := x.renew(ctx); err != nil {
			return false, err
		}
		found, err := x.cleanStranger(ctx, o, x.er.Selector.Tenant, taken)
		if err = errors.Join(err, *failed); err != nil {
			return false, err
		}
		worked = worked || found
		x.state.clean[what+o.name] = true
	}
	return worked, nil
}
