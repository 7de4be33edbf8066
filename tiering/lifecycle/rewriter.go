package lifecycle

import (
	"cmp"
	"context"
	"errors"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// rewriter puts segments of fewer records, or of another name, in the place of
// segments, under the eraser's lease and without grace: what it replaces may
// hold what was erased. One that still holds it afterwards is written under the
// lease that is named as the mark of such segments is: so it stays marked.
//
// An object is never just deleted: its name is occupied, so that no upload of
// it that is still on its way lands afterwards.
type rewriter struct {
	*Engine
	lease warm.Lease
}

// openEither opens a segment from the first copy that is sound. The error is
// unavailable when a copy that could not be asked may be.
func (w *rewriter) openEither(ctx context.Context, name string) (*cold.Segment, error) {
	var worst error
	for _, c := range bothCopies() {
		src, err := w.openCopy(ctx, c, name)
		if err == nil {
			return src, nil
		}
		if worst == nil || errors.Is(err, tiering.ErrUnavailable) {
			worst = err
		}
	}
	return nil, worst
}

// openCopy opens one copy, and checks every record of it.
func (w *rewriter) openCopy(ctx context.Context, c tiering.Copy, name string) (*cold.Segment, error) {
	src, err := w.Archive.OpenObject(ctx, c, name)
	if err != nil {
		return nil, err
	}
	for _, recErr := range src.Records() {
		err = recErr
	}
	return src, tiering.Wrap(err, "read "+name+" from "+c.String(), tiering.Cold, tiering.Key{})
}

// split returns the records that are not taken, and whether any is.
func split(src *cold.Segment, taken func(cold.Record) bool) (kept []cold.Record, found bool, err error) {
	for r, err := range src.Records() {
		switch {
		case err != nil:
			return nil, false, err
		case taken(r):
			found = true
		default:
			kept = append(kept, r)
		}
	}
	return kept, found, nil
}

// replace puts a segment of the kept records in the place of s, and removes s.
// Nothing may be left of them; the positions are covered all the same.
func (w *rewriter) replace(ctx context.Context, s tiering.SegmentInfo, src *cold.Segment, kept []cold.Record) (name string, err error) {
	listed, err := w.lists(ctx, s, src, kept)
	if err != nil {
		return "", err
	}
	enc, err := cold.Encode(s.Tenant, src.Ranges(), kept, &cold.EncodeOptions{Epoch: src.Epoch()})
	if err != nil {
		return "", err
	}
	now, err := w.Warm.Now(ctx)
	if err != nil {
		return "", err
	}
	to := tiering.SegmentInfo{
		Name: w.Archive.Name(now, w.lease.Token), Tenant: s.Tenant, State: tiering.SegmentStarted, Owner: w.lease.Name, Token: w.lease.Token, Started: now,
	}
	if err := w.Warm.StartSegment(ctx, to); err != nil {
		return "", err
	}
	// The records were read before the intent stood, and the lease above may be another
	// than the eraser's. While s is there nobody has erased anything of it, and whoever
	// does from now on finds the intent.
	if now, ok, err := w.Warm.Segment(ctx, s.Name); err != nil || !ok || now.State != tiering.SegmentFinished {
		gone := tiering.Errorf(tiering.CodeFenced, "segment %s was rewritten since it was read", s.Name)
		return "", w.abandon(ctx, to.Name, cmp.Or(err, error(gone)))
	}
	errs := w.Archive.WriteBoth(ctx, to.Name, enc.Data)
	if err := errors.Join(errs[0], errs[1]); err != nil {
		return "", w.giveUp(ctx, to.Name, err)
	}
	to.State, to.Size, to.RawSize, to.SHA256, to.Count = tiering.SegmentFinished, int64(len(enc.Data)), enc.RawSize, enc.SHA256, enc.Count
	// It covers what s did: the positions in an object of an earlier life of the
	// store are not of this one, and the archiver would skip them.
	to.MinTime, to.MaxTime, to.Ranges = enc.MinTime, enc.MaxTime, s.Ranges
	to.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
	if err := w.Warm.ReplaceSegments(ctx, to, within(enc.LocationsFor(to.Name), kept, listed), []string{s.Name}); err != nil {
		return "", err
	}
	return to.Name, w.remove(ctx, s.Name)
}

// remove makes the objects of a segment that is deleting disappear without
// grace, and forgets it.
func (w *rewriter) remove(ctx context.Context, name string) error {
	if err := w.occupy(ctx, name); err != nil {
		return err
	}
	w.Archive.Forget(name)
	return w.Warm.ForgetSegment(ctx, name)
}

func (w *rewriter) occupy(ctx context.Context, name string) error {
	errs := w.Archive.OccupyBoth(ctx, name)
	return errors.Join(errs[0], errs[1])
}

// renew keeps the lease while there is work.
func (w *rewriter) renew(ctx context.Context) error {
	l, ok, err := w.Warm.Acquire(ctx, w.lease.Name, w.Holder, w.LeaseTTL)
	if err != nil {
		return err
	}
	if !ok || l.Token != w.lease.Token {
		return tiering.Errorf(tiering.CodeFenced, "daemon %s goes on with it", l.Holder)
	}
	return nil
}

// cleanStranger takes out of an object that the catalog does not know what is
// taken. The rest stays a stranger, under a new name: nobody can be certain that
// it lies anywhere else. An object of another tenant than the one asked for ("":
// any) is left alone.
func (w *rewriter) cleanStranger(ctx context.Context, o looseObject, tenant string, taken func(*cold.Segment, cold.Record) bool) (found bool, err error) {
	src, err := w.openStranger(ctx, o)
	if err != nil || src == nil || tenant != "" && src.Tenant() != tenant {
		return false, err
	}
	kept, found, err := split(src, func(r cold.Record) bool { return taken(src, r) })
	if err != nil || !found {
		return false, err
	}
	if len(kept) > 0 {
		now, err := w.Warm.Now(ctx)
		if err != nil {
			return false, err
		}
		enc, err := cold.Encode(src.Tenant(), src.Ranges(), kept, &cold.EncodeOptions{Epoch: src.Epoch()})
		if err != nil {
			return false, err
		}
		name := w.Archive.Name(now, w.lease.Token)
		for _, c := range bothCopies() {
			if !o.at[c] || w.occupied(ctx, c, o) {
				continue
			}
			if err := w.Archive.Write(ctx, c, name, enc.Data); err != nil {
				return false, err
			}
		}
	}
	return true, w.occupy(ctx, o.name)
}

// openStranger opens an object that the catalog does not know from either copy:
// a name is only ever of one content. It is nil for one that holds no records
// any more, and for one that tierd did not make and cannot read.
func (w *rewriter) openStranger(ctx context.Context, o looseObject) (*cold.Segment, error) {
	var worst error
	for _, c := range bothCopies() {
		if !o.at[c] {
			continue
		}
		src, err := w.openCopy(ctx, c, o.name)
		switch {
		case err == nil:
			return src, nil
		case errors.Is(err, tiering.ErrGone), errors.Is(err, tiering.ErrNotFound):
		case worst == nil || errors.Is(err, tiering.ErrUnavailable):
			worst = err
		}
	}
	if _, ours := o.named(); !ours && !errors.Is(worst, tiering.ErrUnavailable) {
		return nil, nil //nolint:nilnil // nothing of tierd's is there, and nothing is wrong
	}
	return nil, worst
}
