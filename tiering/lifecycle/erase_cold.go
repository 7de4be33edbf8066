package lifecycle

import (
	"context"
	"errors"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// cleanCold makes both buckets free of the subject. Warm lists the segments
// that held a key of it. Beside those there may be some that warm cannot know
// of: what a merge wrote that read a segment before it was rewritten here, and
// versions of a user under a key that has another owner now. So it looks
// through the tenant's segments until a pass finds nothing to do.
//
// An object is never just deleted: its name is occupied, so that no upload of
// it that is still on its way lands afterwards.
func (x *eraser) cleanCold(ctx context.Context) error {
	for {
		worked, err := x.pass(ctx)
		if err != nil || !worked {
			return err
		}
	}
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
		if _, err := x.Warm.DropIntent(ctx, s.Name); err != nil {
			return err
		}
		return x.remove(ctx, s.Name)
	}
	src, err := x.openEither(ctx, s.Name)
	lost := errors.Is(err, tiering.ErrGone) || errors.Is(err, tiering.ErrNotFound) || errors.Is(err, tiering.ErrCorrupt)
	if s.State == tiering.SegmentDeleting && lost {
		return x.remove(ctx, s.Name) // whatever is left of it, nobody needs it
	}
	if err != nil {
		return err
	}
	kept, found, err := x.without(src)
	switch {
	case err != nil:
		return err
	case !found:
		x.state.clean[s.Name] = true
		return nil
	case s.State == tiering.SegmentFinished:
		if err := x.rewrite(ctx, s, src, kept); err != nil {
			return err
		}
	}
	return x.remove(ctx, s.Name)
}

// openEither opens a segment from the first copy that is sound. The error is
// unavailable when a copy that could not be asked may be.
func (x *eraser) openEither(ctx context.Context, name string) (*cold.Segment, error) {
	var worst error
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		src, err := x.Archive.OpenObject(ctx, c, name)
		if err == nil {
			for _, recErr := range src.Records() {
				err = recErr
			}
			if err == nil {
				return src, nil
			}
			err = tiering.Wrap(err, "read "+name+" from "+c.String(), tiering.Cold, tiering.Key{})
		}
		if worst == nil || errors.Is(err, tiering.ErrUnavailable) {
			worst = err
		}
	}
	return nil, worst
}

// without returns the records that the order leaves, and whether it takes any.
func (x *eraser) without(src *cold.Segment) (kept []cold.Record, found bool, err error) {
	for r, err := range src.Records() {
		switch {
		case err != nil:
			return nil, false, err
		case x.order.Takes(&Lineage{}, src.Epoch(), r):
			found = true
		default:
			kept = append(kept, r)
		}
	}
	return kept, found, nil
}

// rewrite puts a segment of the kept records in the place of s. Nothing may be
// left of them; the positions are covered all the same.
func (x *eraser) rewrite(ctx context.Context, s tiering.SegmentInfo, src *cold.Segment, kept []cold.Record) error {
	enc, err := cold.Encode(s.Tenant, src.Ranges(), kept, &cold.EncodeOptions{Epoch: src.Epoch()})
	if err != nil {
		return err
	}
	now, err := x.Warm.Now(ctx)
	if err != nil {
		return err
	}
	to := tiering.SegmentInfo{
		Name: x.Archive.Name(now, x.lease.Token), Tenant: s.Tenant, State: tiering.SegmentStarted, Owner: eraseLease, Token: x.lease.Token, Started: now,
	}
	if err := x.Warm.StartSegment(ctx, to); err != nil {
		return err
	}
	errs := x.Archive.WriteBoth(ctx, to.Name, enc.Data)
	if err := errors.Join(errs[0], errs[1]); err != nil {
		return err // the next pass removes the intent and what landed of it
	}
	to.State, to.Size, to.RawSize, to.SHA256, to.Count = tiering.SegmentFinished, int64(len(enc.Data)), enc.RawSize, enc.SHA256, enc.Count
	// It covers what s did: the positions in an object of an earlier life of the
	// store are not of this one, and the archiver would skip them.
	to.MinTime, to.MaxTime, to.Ranges = enc.MinTime, enc.MaxTime, s.Ranges
	to.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
	if err := x.Warm.ReplaceSegments(ctx, to, enc.LocationsFor(to.Name), []string{s.Name}); err != nil {
		return err
	}
	x.state.clean[to.Name] = true
	return nil
}

// remove makes the objects of a segment that is deleting disappear without
// grace, and forgets it.
func (x *eraser) remove(ctx context.Context, name string) error {
	if err := x.occupy(ctx, name); err != nil {
		return err
	}
	x.Archive.Forget(name)
	return x.Warm.ForgetSegment(ctx, name)
}

func (x *eraser) occupy(ctx context.Context, name string) error {
	errs := x.Archive.OccupyBoth(ctx, name)
	return errors.Join(errs[0], errs[1])
}

// renew keeps the lease while there is work.
func (x *eraser) renew(ctx context.Context) error {
	l, ok, err := x.Warm.Acquire(ctx, eraseLease, x.Holder, x.LeaseTTL)
	if err != nil {
		return err
	}
	if !ok || l.Token != x.lease.Token {
		return tiering.Errorf(tiering.CodeFenced, "daemon %s goes on with it", l.Holder)
	}
	return nil
}
