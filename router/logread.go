package router

import (
	"cmp"
	"context"
	"slices"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Entries returns entries of a log.
func (r *Router) Entries(ctx context.Context, ns, id string, o *tiering.EntriesOptions) (*tiering.EntryPage, error) {
	page, err := r.entries(ctx, ns, id, orZero(o))
	return page, tiering.Wrap(err, "entries", "", r.key(ns, id))
}

func (r *Router) entries(ctx context.Context, ns, id string, o tiering.EntriesOptions) (*tiering.EntryPage, error) {
	key, err := r.admit(tiering.VerbRead, ns, id)
	if err != nil {
		return nil, err
	}
	p, err := r.policyOf(ctx, key.Tenant, ns)
	if err != nil {
		return nil, err
	}
	if p.known && p.Kind != tiering.KindLog {
		return nil, wrongKind(ns, p.Kind, tiering.KindLog)
	}
	cur, err := r.Warm.Head(ctx, key)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, key)
	}
	if !cur.Head.Live(cur.Now) || !r.mayRead(cur.Head.User) {
		return nil, tiering.Errorf(tiering.CodeNotFound, "there is no log under the key")
	}
	return r.entriesOf(ctx, cur.Head, o)
}

// entriesOf reads a log whose head stands.
func (r *core) entriesOf(ctx context.Context, h warm.Head, o tiering.EntriesOptions) (*tiering.EntryPage, error) {
	if o.After < 0 || o.Before < 0 {
		return nil, tiering.Invalidf("a sequence number is positive")
	}
	limit, err := pageLimit(o.Limit)
	if err != nil {
		return nil, err
	}
	l := &logRead{core: r, EntryRange: warm.EntryRange{
		Key: h.Key, After: o.After, Before: h.Version + 1, Since: h.CreatedAt, Until: o.Until, Descending: o.Descending,
		Limit: limit + 1, MaxBytes: tiering.MaxBody,
	}}
	if o.Before > 0 {
		l.Before = min(o.Before, l.Before)
	}
	if o.Since.After(l.Since) { // what is from before is an earlier life's
		l.Since = o.Since
	}
	found, err := l.read(ctx)
	if err != nil {
		return nil, err
	}
	page := &tiering.EntryPage{Entries: make([]tiering.Entry, 0, min(len(found), limit)), LastSeq: h.Version}
	var bytes int
	for _, s := range found {
		if len(page.Entries) == limit || len(page.Entries) > 0 && bytes >= tiering.MaxBody {
			page.More = true
			break
		}
		bytes += len(s.body)
		page.Entries = append(page.Entries, tiering.Entry{Seq: s.version, Time: s.at, Data: s.body, Tier: s.tier})
	}
	page.More = page.More || len(found) > 0 && l.cut
	return page, nil
}

// logRead reads one run of a log from wherever it lies.
type logRead struct {
	*core
	warm.EntryRange
	cut bool // something was left out for its bytes
}

// read returns the entries of the range in the order asked for, from warm and,
// where warm has gaps, from cold.
func (l *logRead) read(ctx context.Context) ([]stored, error) {
	rows, err := l.Warm.Entries(ctx, l.EntryRange)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, l.Key)
	}
	out := make([]stored, len(rows))
	var bytes int64
	for i, v := range rows {
		out[i] = fromRow(v)
		if tiering.DigestOf(v.Body) != v.Digest {
			if out[i], err = l.version(ctx, l.Key, v.Version); err != nil { // counts it, and mends it
				return nil, err
			}
		}
		bytes += v.Size
	}
	l.cut = len(out) < l.Limit && bytes >= l.MaxBytes
	if l.whole(out) {
		return out, nil
	}
	warmOnes := out
	err = l.archived(ctx, l.Key, nil, func(locs []tiering.Location) (err error) {
		out, err = l.withCold(ctx, warmOnes, locs)
		return err
	})
	return out, err
}

// whole reports whether no entry can be missing from found: it has every number
// up to where the page ends.
func (l *logRead) whole(found []stored) bool {
	low, high := l.After+1, l.Before-1
	if low > high {
		return true
	}
	n := int64(len(found))
	full := len(found) >= l.Limit || l.cut
	switch {
	case n == 0:
		return false
	case l.Descending && full:
		return found[0].version == high && found[n-1].version == high-n+1
	case l.Descending:
		return n == high-low+1
	case full:
		return found[0].version == low && found[n-1].version == low+n-1
	}
	return n == high-low+1
}

// withCold adds what lies in locs to what warm holds, segment by segment from
// the end that is read first, until the page is full.
func (l *logRead) withCold(ctx context.Context, warmOnes []stored, locs []tiering.Location) ([]stored, error) {
	out := slices.Clone(warmOnes)
	locs = slices.DeleteFunc(slices.Clone(locs), func(loc tiering.Location) bool {
		return loc.MaxVersion <= l.After || loc.MinVersion >= l.Before || loc.MaxTime.Before(l.Since) ||
			!l.Until.IsZero() && !loc.MinTime.Before(l.Until)
	})
	slices.SortFunc(locs, func(a, b tiering.Location) int {
		if l.Descending {
			a, b = b, a
			return cmp.Compare(a.MaxVersion, b.MaxVersion)
		}
		return cmp.Compare(a.MinVersion, b.MinVersion)
	})
	for _, loc := range locs {
		from, to := max(loc.MinVersion, l.After+1), min(loc.MaxVersion, l.Before-1)
		if l.past(out, from, to) || holds(out, from, to) {
			continue
		}
		recs, err := l.Archive.ReadRun(ctx, loc, cold.RunOptions{
			From: from, To: to, Descending: l.Descending, Limit: l.Limit, MaxBytes: l.MaxBytes,
			Keep: func(rec cold.Record) bool { return l.Holds(rec.Version, rec.At) },
		})
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			at, have := slices.BinarySearchFunc(out, rec.Version, l.order)
			if !have {
				out = slices.Insert(out, at, fromRecord(rec))
			}
		}
		out = l.page(out)
	}
	return out, nil
}

// order places a version in a page.
func (l *logRead) order(s stored, version int64) int {
	if l.Descending {
		return cmp.Compare(version, s.version)
	}
	return cmp.Compare(s.version, version)
}

// page cuts what is behind the limits.
func (l *logRead) page(out []stored) []stored {
	var bytes int64
	for i, s := range out {
		if i == l.Limit || i > 0 && bytes >= l.MaxBytes {
			l.cut = l.cut || i < l.Limit
			return out[:i]
		}
		bytes += int64(len(s.body))
	}
	return out
}

// past reports whether a page that is full ends before any of from..to.
func (l *logRead) past(out []stored, from, to int64) bool {
	if len(out) < l.Limit && !l.cut || len(out) == 0 {
		return false
	}
	last := out[len(out)-1].version
	if l.Descending {
		return to < last
	}
	return from > last
}

// holds reports whether out has each of from..to.
func holds(out []stored, from, to int64) bool {
	n := int64(0)
	for _, s := range out {
		if s.version >= from && s.version <= to {
			n++
		}
	}
	return n == to-from+1
}

func fromRecord(rec cold.Record) stored {
	return stored{
		version: rec.Version, op: rec.Op, at: rec.At, created: rec.CreatedAt, expiresAt: rec.ExpiresAt, user: rec.User,
		digest: rec.Digest, body: rec.Body, tier: tiering.Cold,
	}
}
