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

// pasts is what owners before left in cold, by key.
type pasts map[tiering.Key]past

// note adds what a finished segment keeps of keys that the catalog lists no
// version of. unlisted says that it lists not even the key: written anew the
// segment is listed for it, with no version, so that a later erase finds it and
// retention knows what it judges.
func (p pasts) note(kept []cold.Record, listed map[tiering.Key]versions) (unlisted bool) {
	for _, r := range kept {
		have, ok := listed[r.Key]
		unlisted = unlisted || !ok
		if have.to == 0 {
			p.add(r)
		}
	}
	return unlisted
}

func (p pasts) add(r cold.Record) {
	if !r.Op.Versioned() || r.Key.Reserved() {
		return
	}
	have := p[r.Key]
	if have.top = max(have.top, r.Version); r.Op.Deleting() {
		have.deleted = max(have.deleted, r.Version)
	}
	p[r.Key] = have
}

// orphans are the keys of which a rebuild would find a document that stands, each
// with its last deletion.
func (p pasts) orphans() map[tiering.Key]int64 {
	out := map[tiering.Key]int64{}
	for k, v := range p {
		if v.lives() {
			out[k] = v.deleted
		}
	}
	return out
}

// passPast takes what owners before had under a key that went whole, if its
// deletion is not in cold. It expired or somebody deleted it, or the user had not
// got the key; but nobody recorded that it expired, or the archive had not come so
// far, and the feed holds no mention of the key any more: a rebuild would bring it
// back.
//
// The user's own versions stay until that is done: should warm be lost halfway,
// they are all that tells a rebuild that nobody before has the key any more.
func (x *eraser) passPast(ctx context.Context) (worked bool, err error) {
	if x.er.Selector.User == "" {
		return false, nil // takes everybody's
	}
	var all []tiering.SegmentInfo
	err = x.eachSegment(ctx, x.er.Selector.Tenant, tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		all = append(all, s)
		return nil
	})
	if err != nil {
		return false, err
	}
	var clean []string
	for _, s := range all {
		if x.state.clean[s.Name] {
			continue
		}
		found, err := x.notePast(ctx, s)
		if err != nil {
			return false, err
		}
		if !found {
			clean = append(clean, s.Name)
		}
	}
	orphans := x.state.past.orphans()
	if len(orphans) == 0 {
		for _, name := range clean {
			x.state.clean[name] = true
		}
		return false, nil
	}
	for _, s := range all {
		if err := x.takePast(ctx, s, orphans); err != nil {
			return false, err
		}
	}
	for k, deleted := range orphans {
		x.state.past[k] = past{deleted, deleted}
	}
	return true, nil
}

// notePast notes what a segment keeps of owners before. found says that it has to
// be written anew, whatever they left.
func (x *eraser) notePast(ctx context.Context, s tiering.SegmentInfo) (found bool, err error) {
	if err := x.renew(ctx); err != nil {
		return false, err
	}
	src, err := x.openEither(ctx, s.Name)
	if err != nil {
		return false, err
	}
	kept, found, err := split(src, x.mine(src))
	if err != nil {
		return false, err
	}
	listed, err := x.listed(ctx, s, src)
	if err != nil {
		return false, err
	}
	unlisted := x.state.past.note(kept, listed)
	return found || unlisted, nil
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
	mine := x.mine(src)
	kept, found, err := split(src, func(r cold.Record) bool {
		deleted, orphan := orphans[r.Key]
		return orphan && listed[r.Key].to == 0 && r.Version > deleted && !mine(r)
	})
	if err != nil || !found {
		return err
	}
	_, err = x.replace(ctx, s, src, kept)
	return err
}

// passStrangersPast takes out of the objects that the catalog does not know what
// others had under a key of which nothing is known. Deletions stay until all of it
// is gone.
func (x *eraser) passStrangersPast(ctx context.Context) (worked bool, err error) {
	if x.er.Selector.User == "" {
		return false, nil
	}
	before := formerOwners{rewriter: &x.rewriter}
	return x.eachStranger(ctx, func(src *cold.Segment, r cold.Record) bool {
		return !r.Op.Deleting() && !x.mine(src)(r) && before.takes(ctx, r)
	}, &before.err, "past of ")
}

// formerOwners tells which records of an object that the catalog does not know go
// beside a user's own: what others had under a key of which neither warm nor the
// catalog has anything. Its deletion may lie anywhere, or nowhere.
type formerOwners struct {
	*rewriter
	key     tiering.Key // that was asked for last
	listed  bool
	created time.Time // of what stands there now; zero for nothing
	err     error
}

func (f *formerOwners) takes(ctx context.Context, r cold.Record) bool {
	if r.Key.Reserved() || f.err != nil {
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
