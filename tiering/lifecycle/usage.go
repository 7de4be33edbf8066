package lifecycle

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tierd/tierd/tiering"
)

// usageSample is of how many segments the index is read at most.
const usageSample = 64

const usageDay = 24 * time.Hour

// Usage tells what warm and cold hold, and the pace of the last days: 0 is 30. It
// changes nothing. HotBytes is -1 unless the engine has a hot tier that answers.
func (e *Engine) Usage(ctx context.Context, days int) (*tiering.Usage, error) {
	if days <= 0 {
		days = 30
	}
	now, err := e.Warm.Now(ctx)
	if err != nil {
		return nil, err
	}
	held, err := e.Warm.Stats(ctx)
	if err != nil {
		return nil, err
	}
	s := &usage{sweeper: e.newSweeper(now), u: &tiering.Usage{
		Now: now, HotBytes: -1, WarmBytes: held.DiskBytes, WarmBodies: held.BodyBytes,
	}, spaces: map[tiering.Key]*tiering.NamespaceUsage{}}
	if err := s.readCatalog(ctx); err != nil {
		return nil, err
	}
	s.from = now.Add(-time.Duration(days) * usageDay)
	if err := s.walk(ctx); err != nil {
		return nil, err
	}
	s.window()
	s.pace()
	if err := s.share(ctx); err != nil {
		return nil, err
	}
	if e.Hot != nil {
		if st, err := e.Hot.Stats(ctx); err == nil { // hot may be away
			s.u.HotBytes = st.Bytes
		}
	}
	s.finish()
	return s.u, nil
}

// usage is one look at a store.
type usage struct {
	*sweeper
	u        *tiering.Usage
	segments []tiering.SegmentInfo                   // the finished ones
	from     time.Time                               // the pace is of what came behind it
	spaces   map[tiering.Key]*tiering.NamespaceUsage // by tenant and namespace
	living   map[tiering.Key]lives
	tenants  map[string]*tiering.TenantUsage
}

// lives sums up documents that have an end.
type lives struct {
	bytes   float64
	seconds float64 // of life, each byte's
}

func (s *usage) readCatalog(ctx context.Context) error {
	return s.eachSegment(ctx, "", "", func(g tiering.SegmentInfo) error {
		if g.State == tiering.SegmentStarted {
			return nil
		}
		for c, state := range g.Copies {
			if state == tiering.CopyVerified {
				s.u.ColdBytes[c] += g.Size
			}
		}
		if g.State != tiering.SegmentFinished {
			return nil
		}
		s.u.Segments++
		s.u.SegmentBytes += g.Size
		s.u.RawBytes += g.RawSize
		if g.Count > 0 {
			s.segments = append(s.segments, g)
			s.since(g.MinTime)
		}
		return nil
	})
}

func (s *usage) since(t time.Time) {
	if !t.IsZero() && (s.u.Since.IsZero() || t.Before(s.u.Since)) {
		s.u.Since = t
	}
}

// window makes the time that the pace is taken from no longer than the store is
// old, and one of a day at least: what a younger store has is a day's work.
func (s *usage) window() {
	age := usageDay
	if !s.u.Since.IsZero() {
		age = max(age, s.now.Sub(s.u.Since))
	}
	if from := s.now.Add(-age); from.After(s.from) {
		s.from = from
	}
	s.u.Days = s.now.Sub(s.from).Hours() / 24
}

// walk looks at every head. A namespace of which only the policy is there has no
// heads, but a policy document.
func (s *usage) walk(ctx context.Context) error {
	s.living = map[tiering.Key]lives{}
	after := tiering.Key{}
	for {
		page, err := s.Warm.Walk(ctx, after, walkPage)
		if err != nil {
			return err
		}
		for _, cur := range page {
			h := cur.Head
			after = h.Key
			if !h.Live(s.now) {
				continue
			}
			if h.Key.Namespace == tiering.PolicyNamespace {
				if _, err := s.space(ctx, tiering.Key{Tenant: h.Key.Tenant, Namespace: h.Key.ID}); err != nil {
					return err
				}
			}
			if h.Key.Reserved() {
				continue
			}
			n, err := s.space(ctx, h.Key)
			if err != nil {
				return err
			}
			s.since(h.CreatedAt)
			n.Documents++
			n.Bytes += h.Size
			if h.InWarm {
				n.WarmBytes += h.Size
			}
			if idle := h.UpdatedAt; h.Pinned || latest(idle, h.AccessedAt).Add(n.Policy.DemoteAfter.Std()).After(s.now) {
				n.ActiveBytes += h.Size
			}
			if h.CreatedAt.After(s.from) {
				n.NewBytes += h.Size
			}
			if !h.ExpiresAt.IsZero() {
				at := tiering.Key{Tenant: n.Tenant, Namespace: n.Namespace}
				l := s.living[at]
				l.bytes += float64(h.Size)
				l.seconds += float64(h.Size) * h.ExpiresAt.Sub(h.UpdatedAt).Seconds()
				s.living[at] = l
			}
		}
		if len(page) < walkPage {
			return nil
		}
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// space is the entry of a key's namespace.
func (s *usage) space(ctx context.Context, of tiering.Key) (*tiering.NamespaceUsage, error) {
	at := tiering.Key{Tenant: of.Tenant, Namespace: of.Namespace}
	if n := s.spaces[at]; n != nil {
		return n, nil
	}
	p, ok, err := s.policy(ctx, of)
	if err != nil {
		return nil, err
	}
	if !ok { // it cannot be read: nothing moves
		p = tiering.Policy{}.WithDefaults()
	}
	n := &tiering.NamespaceUsage{Tenant: of.Tenant, Namespace: of.Namespace, Policy: p}
	s.spaces[at] = n
	return n, nil
}

// within is the part of a segment's records that came behind from, as if they
// had come evenly.
func (s *usage) within(g tiering.SegmentInfo) float64 {
	long := g.MaxTime.Sub(g.MinTime)
	switch {
	case !g.MinTime.Before(s.from):
		return 1
	case !g.MaxTime.After(s.from) || long <= 0:
		return 0
	}
	return float64(g.MaxTime.Sub(s.from)) / float64(long)
}

// pace sums up what each tenant wrote.
func (s *usage) pace() {
	s.tenants = map[string]*tiering.TenantUsage{}
	for _, g := range s.segments {
		t := s.tenants[g.Tenant]
		if t == nil {
			t = &tiering.TenantUsage{Tenant: g.Tenant}
			s.tenants[g.Tenant] = t
		}
		part := s.within(g)
		t.Versions += part * float64(g.Count)
		t.RawBytes += part * float64(g.RawSize)
	}
}

// share shares each tenant's pace out to its namespaces, as the indexes of some
// segments say, spread over the window.
func (s *usage) share(ctx context.Context) error {
	recent := slices.DeleteFunc(slices.Clone(s.segments), func(g tiering.SegmentInfo) bool { return s.within(g) == 0 })
	type part struct{ versions, raw float64 }
	found := map[tiering.Key]part{}
	whole := map[string]part{}
	step := max(1, (len(recent)+usageSample-1)/usageSample)
	for i := 0; i < len(recent); i += step {
		index, err := s.openIndex(ctx, recent[i].Name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // a bucket that is away, or a segment that was merged meanwhile
		}
		s.u.Sampled++
		for entry := range index.Index() {
			if entry.At.Before(s.from) {
				continue
			}
			at := tiering.Key{Tenant: entry.Key.Tenant, Namespace: entry.Key.Namespace}
			p, w := found[at], whole[at.Tenant]
			found[at] = part{p.versions + 1, p.raw + float64(entry.Size)}
			whole[at.Tenant] = part{w.versions + 1, w.raw + float64(entry.Size)}
		}
	}
	read := maps.Clone(whole)
	for at, n := range s.spaces { // of a tenant none of whose segments was read, by what they hold
		if read[at.Tenant].versions > 0 {
			continue
		}
		w := whole[at.Tenant]
		found[at] = part{float64(n.Documents), float64(n.Bytes)}
		whole[at.Tenant] = part{w.versions + float64(n.Documents), w.raw + float64(n.Bytes)}
	}
	for at, p := range found {
		t, w := s.tenants[at.Tenant], whole[at.Tenant]
		if at.Reserved() || t == nil {
			continue
		}
		n, err := s.space(ctx, at) // all its documents may be deleted
		if err != nil {
			return err
		}
		if w.versions > 0 {
			n.Versions = p.versions / w.versions * t.Versions
		}
		if w.raw > 0 {
			n.RawBytes = p.raw / w.raw * t.RawBytes
		}
	}
	return nil
}

// finish puts what was found in order.
func (s *usage) finish() {
	for at, n := range s.spaces {
		n.Life = n.Policy.TTL
		if n.Policy.Kind == tiering.KindSession { // a session's parts live as its log does
			at.Namespace = tiering.SessionEventsNamespace
		}
		of := int64(0)
		if log := s.spaces[at]; log != nil {
			of = log.Bytes
		}
		if l := s.living[at]; n.Life == 0 && of > 0 && l.bytes > float64(of)/2 {
			n.Life = tiering.Duration(time.Duration(l.seconds / l.bytes * float64(time.Second)).Round(time.Second))
		}
	}
	for _, t := range s.tenants {
		s.u.Tenants = append(s.u.Tenants, *t)
	}
	slices.SortFunc(s.u.Tenants, func(a, b tiering.TenantUsage) int { return cmp.Compare(a.Tenant, b.Tenant) })
	for _, at := range slices.SortedFunc(maps.Keys(s.spaces), tiering.Key.Compare) {
		s.u.Namespaces = append(s.u.Namespaces, *s.spaces[at])
	}
}
