package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// The bounds of one transaction that restores keys.
const (
	restoreKeys  = 1000
	restoreBytes = 4 << 20
)

// restoreAhead is how many transactions are made ready or taken at once: warm
// compresses bodies before it waits for its turn to write.
const restoreAhead = 2

// progressCount counts bytes read, from many goroutines.
type progressCount struct{ n atomic.Int64 }

func (r *rebuild) progress(n int64) {
	done := r.done.n.Add(n)
	if r.Progress != nil {
		r.Progress(done, r.total)
	}
}

// restore writes what was found of a tenant into warm.
func (r *rebuild) restore(ctx context.Context, tenant string, c coverage, heads *tenantHeads) error {
	part, shifts := r.settle(tenant, c)
	r.report.Gaps = append(r.report.Gaps, c.gaps...)
	r.report.Versions += heads.versions
	r.report.Erased += heads.erased
	// The next transaction is made ready while warm takes the one before.
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(restoreAhead)
	w := &tenantWriter{rebuild: r, tenant: tenant, heads: heads, shifts: shifts, missing: map[*object]bool{}, group: group}
	err := w.all(gctx, c)
	if failed := group.Wait(); failed != nil {
		return failed // what made the others end
	}
	part.Documents = w.documentCount
	r.report.Tenants = append(r.report.Tenants, part)
	return err
}

// all writes everything of the tenant, or hands it to the group.
func (w *tenantWriter) all(ctx context.Context, c coverage) error {
	if err := w.namespaces(ctx); err != nil {
		return err
	}
	if err := w.documents(ctx); err != nil {
		return err
	}
	for _, st := range c.stretches {
		for _, o := range st.objects {
			if !o.starts(st.to) {
				if !o.damaged {
					w.report.Left++
				}
				continue
			}
			if err := w.segment(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle notes in the marker what counts of a tenant, and returns by how much
// the sliding expiries of each life move: the store stood still from the moment
// that it is restored to until now.
func (r *rebuild) settle(tenant string, c coverage) (part TenantPart, shifts map[string]time.Duration) {
	part = TenantPart{Tenant: tenant}
	at := time.Time{}
	for _, st := range c.stretches {
		if st.to == 0 {
			continue
		}
		part.Epoch, part.Pos = st.span.Epoch, st.to
		for _, o := range st.counting() {
			if o.lastAt.After(at) {
				at = o.lastAt
			}
		}
	}
	part.Time = at
	for _, st := range c.stretches {
		if len(c.gaps) == 0 && !st.span.skip && st.span.born.After(at) {
			at = st.span.born // that life began, and may have read without writing
		}
	}
	if c.timed && r.AsOf.After(at) {
		at = r.AsOf
	}
	still := time.Duration(0)
	if !at.IsZero() && at.Before(r.now) {
		still = r.now.Sub(at)
	}
	shifts = map[string]time.Duration{}
	for i, st := range c.stretches {
		if st.to == 0 {
			continue
		}
		shifts[st.span.Epoch] = time.Duration(st.span.Shifts[tenant]) + still
		r.marker.Before[i].Cuts[tenant] = st.to
		r.marker.Before[i].Shifts[tenant] = int64(shifts[st.span.Epoch])
	}
	// What lies beyond a cut may be collected, and a revocation must not be.
	for id := range r.revoked[tenant] {
		r.marker.Revoked[tenant] = append(r.marker.Revoked[tenant], id)
	}
	slices.Sort(r.marker.Revoked[tenant])
	return part, shifts
}

// tenantWriter writes one tenant into warm.
type tenantWriter struct {
	*rebuild
	tenant        string
	heads         *tenantHeads
	shifts        map[string]time.Duration // by epoch
	policies      map[string]tiering.Policy
	missing       map[*object]bool // segments to read again for bodies
	group         *errgroup.Group  // of what is handed to warm
	batch         []warm.Restored
	bytes         int
	documentCount int64
}

// namespaces makes the rows of namespaces as their policies say.
func (w *tenantWriter) namespaces(ctx context.Context) error {
	w.policies = map[string]tiering.Policy{}
	for key, f := range w.heads.keys {
		if f.gone() {
			continue
		}
		if !key.Reserved() {
			if _, ok := w.policies[key.Namespace]; !ok {
				w.policies[key.Namespace] = tiering.Policy{}.WithDefaults()
			}
			continue
		}
		if key.Namespace != tiering.PolicyNamespace || f.made.Op.Deleting() {
			continue
		}
		var p tiering.Policy
		if err := json.Unmarshal(f.body, &p); err != nil {
			// The documents must not wait for it: they come back under the default.
			w.report.Damaged = append(w.report.Damaged, Damage{f.from.name, fmt.Sprintf("the policy of namespace %s cannot be read: %v", key.ID, err)})
		}
		w.policies[key.ID] = p.WithDefaults()
	}
	for _, name := range slices.Sorted(maps.Keys(w.policies)) {
		p := w.policies[name]
		n := warm.Namespace{Tenant: w.tenant, Name: name, Kind: p.Kind, Class: p.Class, Floor: w.marker.Floor, Deleted: p.Deleted}
		if err := w.Warm.RestoreNamespace(ctx, n); err != nil {
			return tiering.Wrap(err, "restore namespace", tiering.Warm, tiering.Key{Namespace: name})
		}
	}
	return nil
}

// documents writes the heads whose bytes are in memory, in key order. The rest
// is written when their segments are read again.
func (w *tenantWriter) documents(ctx context.Context) error {
	for _, key := range slices.SortedFunc(maps.Keys(w.heads.keys), tiering.Key.Compare) {
		f := w.heads.keys[key]
		if f.gone() {
			continue
		}
		if f.incomplete() {
			w.report.Incomplete++
		}
		if f.made.Op == tiering.OpPut && f.body == nil {
			w.missing[f.from] = true
			continue
		}
		w.write(ctx, f)
	}
	w.flush(ctx)
	return ctx.Err()
}

// write adds one key to the transaction that is gathered.
func (w *tenantWriter) write(ctx context.Context, f *found) {
	k := warm.Restored{Head: w.moved(f), Body: f.body, Query: f.last.Query}
	f.body, f.written = nil, true
	if k.Head.Op.Deleting() {
		k.Body, k.Query = nil, false
		w.report.Tombstones++
	} else {
		w.report.Documents++
		w.documentCount++
		w.report.Bytes += k.Head.Size
	}
	w.batch = append(w.batch, k)
	if w.bytes += len(k.Body); len(w.batch) >= restoreKeys || w.bytes >= restoreBytes {
		w.flush(ctx)
	}
}

// flush hands the transaction that is gathered to warm.
func (w *tenantWriter) flush(ctx context.Context) {
	if len(w.batch) == 0 {
		return
	}
	batch := w.batch
	w.batch, w.bytes = nil, 0
	w.group.Go(func() error {
		return tiering.Wrap(w.Warm.RestoreKeys(ctx, batch), "restore keys", tiering.Warm, tiering.Key{})
	})
}

// moved returns the head as it stands in the new life: the expiry of a session
// moves forward by the time that the store stood still, and an API key that was
// revoked at any time stays so.
func (w *tenantWriter) moved(f *found) warm.Head {
	h := f.head()
	if h.TTL > 0 && !h.ExpiresAt.IsZero() && w.policies[h.Key.Namespace].Sliding() && !h.Key.Reserved() {
		h.ExpiresAt = h.ExpiresAt.Add(w.shifts[f.from.epoch])
	}
	if k, ok := w.revoked[w.tenant][h.Key.ID]; ok && h.Key.Namespace == tiering.APIKeyNamespace && !h.Op.Deleting() {
		w.report.Revoked++
		return warm.Head{
			Key: h.Key, Op: tiering.OpDelete, Version: max(k.version, h.Version+1), CreatedAt: h.CreatedAt, UpdatedAt: k.at, AccessedAt: k.at, User: h.User,
		}
	}
	return h
}

// segment puts a segment into the catalog, and writes the heads whose bytes lie
// in it and did not fit into memory.
func (w *tenantWriter) segment(ctx context.Context, o *object) error {
	s, err := cold.Survey(ctx, w.bucket, o.name, o.size)
	if err != nil {
		return tiering.Wrap(err, "read "+o.name, tiering.Cold, tiering.Key{})
	}
	info := tiering.SegmentInfo{
		Name: o.name, Tenant: o.tenant, State: tiering.SegmentFinished, Size: o.size, RawSize: o.raw, SHA256: o.sha, Count: o.count,
		MinTime: o.minTime, MaxTime: o.maxTime, Started: startOf(o),
		// Positions of another life mean nothing in this one. The segment
		// itself keeps its ranges.
		Ranges: nil,
		Copies: [2]tiering.CopyState{tiering.CopyMissing, tiering.CopyMissing},
	}
	info.Copies[w.From] = tiering.CopyVerified
	if o.taken {
		info.Owner = unfinishedErase
	}
	locations := w.locations(s, o)
	w.group.Go(func() error {
		return tiering.Wrap(w.Warm.RestoreSegment(ctx, info, locations), "restore "+o.name, tiering.Warm, tiering.Key{})
	})
	w.report.Segments++
	w.report.RawSize += o.raw
	if o.taken {
		w.report.Rewrite = append(w.report.Rewrite, o.name)
	}
	return w.missingBodies(ctx, o)
}

// locations are those of the segment without what lies beyond the cut, and
// without what an erase order takes. Of a key that others have beside the
// subject, a segment that holds something of the subject lists only what is
// above it, because a location is one run of versions; what is below is listed
// again once the segment is written anew without the subject.
func (w *tenantWriter) locations(s *cold.Segment, o *object) []tiering.Location {
	locs := s.Locations(o.name)
	if o.limits == nil && w.heads.erased == 0 {
		return locs
	}
	out := make([]tiering.Location, 0, len(locs))
	trim := map[tiering.Key]*trimmed{}
	for _, l := range locs {
		t := trimmed{above: 0, upTo: l.MaxVersion}
		if f := w.heads.keys[l.Key]; f != nil && f.gone() {
			t.above = f.erased
		} else {
			t.above = o.erased[l.Key]
		}
		if limit, ok := o.limits[l.Key]; ok {
			t.upTo = min(t.upTo, limit)
		}
		if t.above < l.MinVersion && t.upTo == l.MaxVersion {
			continue
		}
		trim[l.Key] = &t
	}
	if len(trim) > 0 {
		for e := range s.Index() {
			if t := trim[e.Key]; t != nil && e.Op.Versioned() {
				t.note(e)
			}
		}
	}
	for _, l := range locs {
		if t := trim[l.Key]; t != nil {
			l = t.apply(l)
		}
		out = append(out, l)
	}
	return out
}

// trimmed is the part of a location that counts: versions above one and up to
// another.
type trimmed struct {
	above, upTo int64
	first, last cold.Entry
	minTime     time.Time
	maxTime     time.Time
}

func (t *trimmed) note(e cold.Entry) {
	if e.Version <= t.above || e.Version > t.upTo {
		return
	}
	if t.first.Version == 0 {
		t.first, t.minTime, t.maxTime = e, e.At, e.At
	}
	t.last = e
	if e.At.Before(t.minTime) {
		t.minTime = e.At
	}
	if e.At.After(t.maxTime) {
		t.maxTime = e.At
	}
}

// apply trims a location. One of which nothing counts stays as one of no
// version: an erase has to find the segment, a look-up must not.
func (t *trimmed) apply(l tiering.Location) tiering.Location {
	if t.first.Version == 0 {
		return tiering.Location{Key: l.Key, Segment: l.Segment, MinTime: l.MinTime, MaxTime: l.MaxTime}
	}
	blocks := l.Blocks
	l.MinVersion, l.MaxVersion, l.MinTime, l.MaxTime, l.Blocks = t.first.Version, t.last.Version, t.minTime, t.maxTime, nil
	for i, b := range blocks {
		ends := i+1 == len(blocks) || blocks[i+1].FirstVersion > l.MinVersion
		if ends && b.FirstVersion <= l.MaxVersion {
			l.Blocks = append(l.Blocks, b)
		}
	}
	return l
}

// missingBodies reads a segment for the bodies of heads that did not fit into
// memory.
func (w *tenantWriter) missingBodies(ctx context.Context, o *object) error {
	if !w.missing[o] {
		return nil
	}
	s, _, err := openWhole(ctx, w.bucket, o)
	if err != nil {
		return err
	}
	for rec, err := range s.Records() {
		if err != nil {
			return &damagedError{o, err}
		}
		f := w.heads.keys[rec.Key]
		if f == nil || f.from != o || f.written || f.gone() || rec.Op != tiering.OpPut || rec.Version != f.made.Version {
			continue
		}
		f.body = rec.Body
		w.write(ctx, f)
	}
	w.flush(ctx)
	return ctx.Err()
}

// startOf reads the time at which a segment was begun from its name.
func startOf(o *object) time.Time {
	name := strings.TrimPrefix(o.name, cold.SegmentPrefix)
	if len(name) < ulid.EncodedSize {
		return o.maxTime
	}
	id, err := ulid.ParseStrict(strings.ToUpper(name[:ulid.EncodedSize]))
	if err != nil {
		return o.maxTime
	}
	return ulid.Time(id.Time()).UTC()
}
