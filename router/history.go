package router

import (
	"cmp"
	"context"
	"slices"

	"github.com/tierd/tierd/tiering"
)

// History returns versions, newest first.
func (r *Router) History(ctx context.Context, ns, id string, o *tiering.HistoryOptions) (*tiering.History, error) {
	h, err := r.history(ctx, ns, id, orZero(o))
	return h, tiering.Wrap(err, "versions", "", r.key(ns, id))
}

func (r *Router) history(ctx context.Context, ns, id string, o tiering.HistoryOptions) (*tiering.History, error) {
	key, err := r.readable(ctx, ns, id)
	if err != nil {
		return nil, err
	}
	limit, err := pageLimit(o.Limit)
	if err != nil {
		return nil, err
	}
	before, err := decodeVersionCursor(o.Cursor)
	if err != nil {
		return nil, err
	}
	// One more than asked for tells whether there is a next page.
	all, err := r.newest(ctx, key, before, limit+1)
	if err != nil {
		return nil, err
	}
	h := &tiering.History{}
	if len(all) > limit {
		h.NextCursor = encodeVersionCursor(all[limit-1].Version)
		all = all[:limit]
	}
	h.Versions, err = r.ownVersions(ctx, key, all)
	return h, err
}

// ownVersions leaves out what a principal limited to a user may not see: the
// key may have had another owner before it was deleted and made again.
func (r *Router) ownVersions(ctx context.Context, key tiering.Key, all []found) ([]tiering.VersionInfo, error) {
	out := make([]tiering.VersionInfo, 0, len(all))
	for _, v := range all {
		if r.who.Scope.User != "" && v.owner == nil { // an index does not say it
			s, err := r.version(ctx, key, v.Version)
			if err != nil {
				return nil, err
			}
			v.owner = &s.user
		}
		if v.owner == nil || r.mayRead(*v.owner) {
			out = append(out, v.VersionInfo)
		}
	}
	return out, nil
}

// found is a version of a history, and its owner where that is known.
type found struct {
	tiering.VersionInfo
	owner *string
}

// newest returns the n newest versions of a key below before (0: from the
// top), newest first, from warm and from the indexes of segments.
func (r *core) newest(ctx context.Context, key tiering.Key, before int64, n int) ([]found, error) {
	rows, err := r.Warm.Versions(ctx, key, before, n)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, key)
	}
	warm := make([]found, 0, len(rows))
	for _, v := range rows {
		warm = append(warm, found{tiering.VersionInfo{Version: v.Version, Op: v.Op, Size: v.Size, Digest: v.Digest, CreatedAt: v.At, Tier: tiering.Warm}, &v.User})
	}
	out := warm
	err = r.archived(ctx, key, nil, func(locs []tiering.Location) (err error) {
		out, err = r.withArchived(ctx, locs, warm, before, n)
		return err
	})
	return out, err
}

// withArchived adds the versions that segments alone hold to those of warm. It
// reads no segment that cannot change the n newest: one that lies below them,
// or whose versions are all in warm.
func (r *core) withArchived(ctx context.Context, locs []tiering.Location, warm []found, before int64, n int) ([]found, error) {
	out := slices.Clone(warm)
	for _, l := range locs {
		if l.MaxVersion == 0 || before > 0 && l.MinVersion >= before {
			continue
		}
		if len(out) >= n && out[n-1].Version > l.MaxVersion || covers(warm, l) {
			continue
		}
		entries, _, err := r.Archive.Versions(ctx, l)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.Op.Versioned() || before > 0 && e.Version >= before {
				continue
			}
			i, have := slices.BinarySearchFunc(out, e.Version, func(v found, target int64) int { return cmp.Compare(target, v.Version) })
			if !have {
				out = slices.Insert(out, i, found{VersionInfo: tiering.VersionInfo{
					Version: e.Version, Op: e.Op, Size: e.Size, Digest: e.Digest, CreatedAt: e.At, Tier: tiering.Cold,
				}})
			}
		}
		out = out[:min(n, len(out))]
	}
	return out, nil
}

// covers reports whether warm holds every version that the location may.
func covers(warm []found, l tiering.Location) bool {
	held := int64(0)
	for _, v := range warm {
		if v.Version >= l.MinVersion && v.Version <= l.MaxVersion {
			held++
		}
	}
	return held == l.MaxVersion-l.MinVersion+1
}
