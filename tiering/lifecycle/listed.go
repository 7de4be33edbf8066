package lifecycle

import (
	"context"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// versions is a run of versions of one key, both ends included. The zero one
// is empty.
type versions struct{ from, to int64 }

// covers reports whether the run holds a version.
func (v versions) covers(version int64) bool { return v.from <= version && version <= v.to }

// join returns the shortest run that holds both.
func (v versions) join(w versions) versions {
	switch {
	case v.to == 0:
		return w
	case w.to == 0:
		return v
	}
	return versions{min(v.from, w.from), max(v.to, w.to)}
}

// listed returns what the catalog says that a finished segment holds of each
// key: less than its records are where a rebuild cut, or where an erase took a
// key whole and the records are of an owner before. What is not listed nobody
// reads, and whoever writes the records anew must not list it either, but for
// what lists tells.
func (e *Engine) listed(ctx context.Context, s tiering.SegmentInfo, src *cold.Segment) (map[tiering.Key]versions, error) {
	epoch, err := e.Warm.Epoch(ctx)
	if err != nil {
		return nil, err
	}
	whole := map[tiering.Key]versions{}
	for _, l := range src.Locations(s.Name) {
		whole[l.Key] = versions{l.MinVersion, l.MaxVersion}
	}
	// The archiver lists all that it writes: of a key something may be missing
	// only once its segment was written anew.
	fresh := s.Owner == ArchiveReader && src.Epoch() == epoch
	out := map[tiering.Key]versions{}
	for after := (tiering.Key{}); ; {
		page, err := e.Warm.KeysIn(ctx, s.Name, after, walkPage)
		if err != nil {
			return nil, err
		}
		var told map[tiering.Key][]tiering.Location
		if !fresh {
			if told, err = e.Warm.LocationsOf(ctx, page); err != nil {
				return nil, err
			}
		}
		for _, k := range page {
			after = k
			have, ok := whole[k]
			if !fresh {
				have = listedIn(s.Name, told[k])
			}
			if all := whole[k]; !ok || have.to > 0 && (have.from < all.from || have.to > all.to) {
				return nil, tiering.Errorf(tiering.CodeCorrupt, "the catalog says that %s holds of %s what it does not", s.Name, k)
			}
			out[k] = have
		}
		if len(page) < walkPage {
			return out, nil
		}
	}
}

// lists returns what the catalog is to list of the records that are kept of a
// finished segment: no more than it does. Only where a rebuild found an
// unfinished erase, what the subject hid is listed with the subject gone: what
// others had under a key that stands, up to the life's cut. While the subject is
// there it hides them.
func (w *rewriter) lists(ctx context.Context, s tiering.SegmentInfo, src *cold.Segment, kept []cold.Record) (map[tiering.Key]versions, error) {
	listed, err := w.listed(ctx, s, src)
	if err != nil || s.Owner != unfinishedErase || w.lease.Name == unfinishedErase {
		return listed, err
	}
	lineage, err := w.readLineage(ctx)
	if err != nil {
		return nil, err
	}
	cut := lineage.cut(src.Epoch(), s.Tenant)
	var head warm.Head // of the key that was asked for last
	for _, r := range kept {
		have, ok := listed[r.Key]
		if !ok || !r.Op.Versioned() || r.Pos > cut || have.covers(r.Version) {
			continue
		}
		if head.Key != r.Key {
			cur, err := w.Warm.Head(ctx, r.Key)
			if err != nil {
				return nil, err
			}
			head = cur.Head
			head.Key = r.Key
		}
		if head.Version > 0 {
			listed[r.Key] = have.join(versions{r.Version, r.Version})
		}
	}
	return listed, nil
}

// listedIn is listed for a key of these locations.
func listedIn(segment string, locs []tiering.Location) versions {
	for _, l := range locs {
		if l.Segment == segment {
			return versions{l.MinVersion, l.MaxVersion}
		}
	}
	return versions{}
}

// within cuts the locations of a new segment of records to what was listed. A
// key of which nothing was gets a location of no version: an erase has to find
// the segment, a look-up must not.
func within(locs []tiering.Location, records []cold.Record, listed map[tiering.Key]versions) []tiering.Location {
	cut := map[tiering.Key]*trimmed{}
	for _, l := range locs {
		if have := listed[l.Key]; l.MinVersion < have.from || l.MaxVersion > have.to {
			cut[l.Key] = &trimmed{above: max(have.from-1, 0), upTo: have.to}
		}
	}
	if len(cut) == 0 {
		return locs
	}
	for _, r := range records {
		if t := cut[r.Key]; t != nil && r.Op.Versioned() {
			t.note(cold.Entry{Key: r.Key, Op: r.Op, Version: r.Version, At: r.At})
		}
	}
	out := make([]tiering.Location, len(locs))
	for i, l := range locs {
		if t := cut[l.Key]; t != nil {
			l = t.apply(l)
		}
		out[i] = l
	}
	return out
}
