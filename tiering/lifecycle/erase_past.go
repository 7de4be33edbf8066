package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
)

// past is what owners before left in cold of a key that went whole with its
// user: the highest version, and the highest deletion.
type past struct{ top, deleted int64 }

// lives reports whether a rebuild would take it for a document that stands.
func (p past) lives() bool { return p.top > p.deleted }

// look notes what a finished segment keeps of keys that the catalog lists no
// version of. unlisted says that it lists not even the key: written anew the
// segment is listed for it, with no version, so that a later erase finds it and
// retention knows what it judges.
//
// Only a user's erase leaves records of a key that it took.
func (x *eraser) look(ctx context.Context, s tiering.SegmentInfo, src *cold.Segment, kept []cold.Record) (unlisted bool, err error) {
	if x.er.Selector.User == "" {
		return false, nil
	}
	listed, err := x.lists(ctx, s, src, kept)
	if err != nil {
		return false, err
	}
	for _, r := range kept {
		have, ok := listed[r.Key]
		unlisted = unlisted || !ok
		if have.to > 0 || !r.Op.Versioned() || r.Key.Reserved() {
			continue
		}
		p := x.state.past[r.Key]
		if p.top = max(p.top, r.Version); r.Op.Deleting() {
			p.deleted = max(p.deleted, r.Version)
		}
		x.state.past[r.Key] = p
	}
	return unlisted, nil
}

// passPast takes what owners before had under a key that went whole, if its
// deletion is not in cold. It expired or somebody deleted it, or the user had not
// got the key; but nobody recorded that it expired, or the archive had not come so
// far, and the feed holds no mention of the key any more: a rebuild would bring it
// back.
func (x *eraser) passPast(ctx context.Context) (worked bool, err error) {
	orphans := map[tiering.Key]int64{}
	for k, p := range x.state.past {
		if p.lives() {
			orphans[k] = p.deleted
		}
	}
	if len(orphans) == 0 {
		return false, nil
	}
	var all []tiering.SegmentInfo
	err = x.eachSegment(ctx, x.er.Selector.Tenant, tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		all = append(all, s)
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, s := range all {
		if err := x.takePast(ctx, s, orphans); err != nil {
			return false, err
		}
	}
	clear(x.state.past)
	return true, nil
}

// takePast rewrites one segment without the orphans in it, each above its last
// deletion.
func (x *eraser) takePast(ctx context.Context, s tiering.SegmentInfo, orphans map[tiering.Key]int64) error {
	if err := x.renew(ctx); err != nil {
		return err
	}
	src, err := x.openEither(ctx, s.Name)
	if err != nil {
		return err
	}
	listed, err := x.listed(ctx, s, src)
	if err != nil {
		return err
	}
	kept, found, err := split(src, func(r cold.Record) bool {
		deleted, orphan := orphans[r.Key]
		return orphan && listed[r.Key].to == 0 && r.Version > deleted
	})
	if err != nil || !found {
		return err
	}
	_, err = x.replace(ctx, s, src, kept)
	return err
}

// formerOwners tells which records of an object that the catalog does not know a
// user's erase takes beside the user's own: what others had under a key of which
// neither warm nor the catalog has anything. Its deletion may lie anywhere, or
// nowhere.
type formerOwners struct {
	*eraser
	key     tiering.Key // that was asked for last
	listed  bool
	created time.Time // of what stands there now; zero for nothing
	err     error
}

func (f *formerOwners) takes(ctx context.Context, r cold.Record) bool {
	if f.er.Selector.User == "" || r.Key.Reserved() || f.err != nil {
		return false
	}
	if r.Key != f.key {
		f.err = f.ask(ctx, r.Key)
	}
	return f.err == nil && !f.listed && (f.created.IsZero() || r.At.Before(f.created))
}

func (f *formerOwners) ask(ctx context.Context, k tiering.Key) error {
	locs, err := f.Warm.Locations(ctx, k)
	if err != nil {
		return err
	}
	cur, err := f.Warm.Head(ctx, k)
	if err != nil {
		return err
	}
	f.key, f.created = k, cur.Head.CreatedAt
	f.listed = slices.ContainsFunc(locs, func(l tiering.Location) bool { return l.MaxVersion > 0 })
	return nil
}
