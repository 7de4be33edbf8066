package router

import (
	"context"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Explain says where each copy of a document is, what happens to it next, and
// what stands in the way.
func (r *Router) Explain(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	e, err := r.explain(ctx, ns, id)
	return e, tiering.Wrap(err, "explain", "", r.key(ns, id))
}

func (r *Router) explain(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	key, err := r.admit(tiering.VerbRead, ns, id)
	if err != nil {
		return nil, err
	}
	p, err := r.policyOf(ctx, key.Tenant, ns)
	if err != nil {
		return nil, err
	}
	if !p.Durable() {
		return nil, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: there is nothing to explain", ns)
	}
	return r.explainKey(ctx, key, p)
}

// explainKey explains a key that was admitted.
func (r *Router) explainKey(ctx context.Context, key tiering.Key, p *policy) (*tiering.Explanation, error) {
	cur, err := r.Warm.Head(ctx, key)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, key)
	}
	if !r.mayRead(cur.Head.User) {
		return nil, tiering.Errorf(tiering.CodeNotFound, "the key never was")
	}
	e := &tiering.Explanation{Meta: cur.Head.Meta(), State: stateOf(cur), Policy: p.Policy, Accessed: cur.Head.AccessedAt}
	e.Namespace, e.ID = key.Namespace, key.ID
	e.Copies = append(e.Copies, r.hotPlace(ctx, key), warmPlace(cur))
	segments, err := r.segmentsOf(ctx, key, cur.Head.Version)
	if err != nil {
		return nil, err
	}
	e.Copies = append(e.Copies, coldPlaces(segments, cur.Head.Version)...)
	e.Next = p.Plan(cur.Now, metaOf(cur, segments))
	return e, nil
}

func stateOf(cur warm.Current) string {
	switch {
	case cur.Head.Version == 0:
		return "absent"
	case cur.Head.Op.Deleting():
		return "deleted"
	case !cur.Head.Live(cur.Now):
		return "expired"
	}
	return "live"
}

// metaOf is the current version as Plan sees it.
func metaOf(cur warm.Current, segments []tiering.SegmentInfo) tiering.VersionMeta {
	h := cur.Head
	m := tiering.VersionMeta{
		Version: h.Version, Op: h.Op, Current: true, UpdatedAt: h.UpdatedAt, AccessedAt: h.AccessedAt, ExpiresAt: h.ExpiresAt,
		Pinned: h.Pinned, InWarm: h.InWarm, InCold: len(segments) > 0, KeyDeleted: h.Op.Deleting(),
	}
	for _, s := range segments {
		m.Copies = max(m.Copies, s.Verified())
	}
	return m
}

func (r *core) hotPlace(ctx context.Context, key tiering.Key) tiering.CopyPlace {
	c := tiering.CopyPlace{Tier: tiering.Hot, State: "absent"}
	l, err := r.look(ctx, key, false)
	switch {
	case err != nil:
		c.State = "unreachable"
	case l.State == hot.Present:
		c.State, c.Version = "present", l.Entry.Meta.Version
	case l.State == hot.Pending:
		c.State = "pending"
	}
	return c
}

func warmPlace(cur warm.Current) tiering.CopyPlace {
	c := tiering.CopyPlace{Tier: tiering.Warm, State: "absent"}
	if cur.Head.Version > 0 {
		c.Version = cur.Head.Version
		if cur.Head.InWarm || cur.Head.Op.Deleting() {
			c.State = "present"
		}
	}
	return c
}

// segmentsOf returns the finished segments that hold version.
func (r *core) segmentsOf(ctx context.Context, key tiering.Key, version int64) ([]tiering.SegmentInfo, error) {
	locs, err := r.Warm.Locations(ctx, key)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, key)
	}
	var out []tiering.SegmentInfo
	for _, l := range locs {
		if version < l.MinVersion || version > l.MaxVersion {
			continue
		}
		s, ok, err := r.Warm.Segment(ctx, l.Segment)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Warm, key)
		}
		if ok {
			out = append(out, s)
		}
	}
	return out, nil
}

func coldPlaces(segments []tiering.SegmentInfo, version int64) []tiering.CopyPlace {
	var out []tiering.CopyPlace
	for _, s := range segments {
		for i, state := range s.Copies {
			out = append(out, tiering.CopyPlace{
				Tier: tiering.Cold, Where: s.Name, Copy: tiering.Copy(i).String(), State: string(state), Version: version,
			})
		}
	}
	switch {
	case len(out) > 0:
	case version == 0:
		out = append(out, tiering.CopyPlace{Tier: tiering.Cold, State: "absent"})
	default:
		out = append(out, tiering.CopyPlace{Tier: tiering.Cold, State: "pending", Version: version})
	}
	return out
}
