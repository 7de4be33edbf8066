package lifecycle

import (
	"context"
	"errors"
	"slices"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
)

// rewrite carries a job out. The intent stands before a byte is read; both
// copies are written and read back before the catalog names them; the sources
// stay where they are until the grace period is over. Whatever step it dies
// at, the catalog names either the sources or the new segment, whole.
func (g *collection) rewrite(ctx context.Context, j job) error {
	now, err := g.Warm.Now(ctx)
	if err != nil {
		return err
	}
	s := tiering.SegmentInfo{
		Name: g.Archive.Name(now, g.lease.Token), Tenant: j.tenant, State: tiering.SegmentStarted,
		Owner: g.lease.Name, Token: g.lease.Token, Started: now,
	}
	if err := g.Warm.StartSegment(ctx, s); err != nil {
		return err
	}
	c, drops, err := g.prepare(ctx, j)
	if err != nil {
		return g.abandon(ctx, s.Name, err)
	}
	j.sources = c.sources
	if err := g.upload(ctx, &s, c); err != nil {
		return g.giveUp(ctx, s.Name, err)
	}
	g.succeeded(j)
	g.Recorder.Moved(moveMerge, true, nil)
	g.report.rewritten(j, s, drops)
	return nil
}

// prepare reads what becomes one segment: without the sources that are of
// another life of the store, and without what retention does not keep.
func (g *collection) prepare(ctx context.Context, j job) (composition, map[string]int64, error) {
	c, err := g.compose(ctx, j)
	if err != nil {
		return c, nil, err
	}
	drops, err := g.drop(ctx, &c)
	if err != nil {
		return c, nil, err
	}
	return c, drops, g.renew(ctx)
}

// upload writes the segment under the intent s, and changes the catalog.
func (g *collection) upload(ctx context.Context, s *tiering.SegmentInfo, c composition) error {
	enc, err := cold.Encode(s.Tenant, c.ranges, c.records, &cold.EncodeOptions{Epoch: c.epoch})
	if err != nil {
		return err
	}
	errs := g.Archive.WriteBoth(ctx, s.Name, enc.Data)
	if err := errors.Join(errs[0], errs[1]); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.MergeUploaded); err != nil {
		return err
	}
	if err := g.stands(ctx, c.judged); err != nil {
		return err
	}
	s.State, s.Size, s.RawSize, s.SHA256, s.Count = tiering.SegmentFinished, int64(len(enc.Data)), enc.RawSize, enc.SHA256, enc.Count
	s.MinTime, s.MaxTime, s.Ranges = enc.MinTime, enc.MaxTime, c.covered()
	s.Copies = [2]tiering.CopyState{tiering.CopyVerified, tiering.CopyVerified}
	return g.replace(ctx, *s, within(enc.LocationsFor(s.Name), c.records, c.listed), job{sources: c.sources}.names())
}

// replace changes the catalog. When it cannot tell whether it did, the catalog
// is asked, after the intent was dropped: from then on nothing changes it.
func (g *collection) replace(ctx context.Context, s tiering.SegmentInfo, locations []tiering.Location, old []string) error {
	err := g.Warm.ReplaceSegments(ctx, s, locations, old)
	if err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if _, dropErr := g.Warm.DropIntent(ctx, s.Name); dropErr != nil {
		return errors.Join(err, dropErr)
	}
	have, ok, askErr := g.Warm.Segment(ctx, s.Name)
	if askErr == nil && ok && have.State == tiering.SegmentFinished {
		return nil
	}
	return errors.Join(err, askErr)
}

// composition is what becomes one segment.
type composition struct {
	sources []tiering.SegmentInfo
	epoch   string
	records []cold.Record
	ranges  []tiering.Range
	listed  map[tiering.Key]versions // what the catalog knows of them
	judged  map[tiering.Key]covering // what decided of those that it lacks
}

// covered is what the new segment covers as far as the catalog goes: what its
// sources did.
func (c *composition) covered() []tiering.Range {
	var all []tiering.Range
	for _, s := range c.sources {
		all = append(all, s.Ranges...)
	}
	slices.SortFunc(all, func(a, b tiering.Range) int { return int(min(max(a.From-b.From, -1), 1)) })
	var out []tiering.Range
	for _, r := range all {
		if n := len(out); n > 0 && r.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// compose reads the sources of a job, every record checked, in order, up to
// the first that is of another life of the store.
func (g *collection) compose(ctx context.Context, j job) (composition, error) {
	c := composition{listed: map[tiering.Key]versions{}}
	var count int64
	for _, s := range j.sources {
		count += s.Count
	}
	c.records = make([]cold.Record, 0, count)
	for i, s := range j.sources {
		seg, records, err := g.readSegment(ctx, s)
		var listed map[tiering.Key]versions
		if err == nil {
			listed, err = g.listed(ctx, s, seg)
		}
		if err != nil {
			return c, &sourceError{s.Name, err}
		}
		if i > 0 && seg.Epoch() != c.epoch {
			g.noteEpoch(s.Name, seg.Epoch())
			g.noteEpoch(j.sources[i-1].Name, c.epoch)
			break
		}
		c.epoch = seg.Epoch()
		c.sources = append(c.sources, s)
		c.records = append(c.records, records...)
		c.ranges = append(c.ranges, seg.Ranges()...)
		for k, v := range listed {
			c.listed[k] = c.listed[k].join(v)
		}
		if err := g.renew(ctx); err != nil {
			return c, err
		}
	}
	if len(c.sources) == 1 && len(j.sources) > 1 {
		return c, errMixed
	}
	slices.SortFunc(c.records, cold.Record.Compare)
	return c, c.once()
}

// noteEpoch remembers of which life a segment is.
func (g *collection) noteEpoch(name, epoch string) {
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	g.merges.epochs[name] = epoch
}

// once drops records that two sources hold alike, as after a rebuild from
// buckets that held a merge and its sources.
func (c *composition) once() error {
	var twice error
	c.records = slices.CompactFunc(c.records, func(a, b cold.Record) bool {
		if a.Compare(b) != 0 {
			return false
		}
		if a.Op != b.Op || a.Digest != b.Digest || !a.At.Equal(b.At) {
			twice = tiering.Errorf(tiering.CodeCorrupt, "two segments hold different records of %s version %d", a.Key, a.Version)
		}
		return true
	})
	return twice
}

// sourceError is a job that fails because of one of its segments.
type sourceError struct {
	name string
	error
}

func (e *sourceError) Unwrap() error { return e.error }

// readSegment reads a segment whole from either copy.
func (g *collection) readSegment(ctx context.Context, s tiering.SegmentInfo) (*cold.Segment, []cold.Record, error) {
	var failed error
	for _, c := range bothCopies() {
		seg, records, err := g.readCopy(ctx, c, s)
		if err == nil {
			return seg, records, nil
		}
		if ctx.Err() != nil {
			return nil, nil, err
		}
		// One copy that could not be asked leaves hope.
		if failed == nil || !tiering.Retryable(failed) {
			failed = err
		}
	}
	return nil, nil, failed
}

func (g *collection) readCopy(ctx context.Context, c tiering.Copy, s tiering.SegmentInfo) (*cold.Segment, []cold.Record, error) {
	seg, err := g.Archive.OpenObject(ctx, c, s.Name)
	if err != nil {
		if errors.Is(err, tiering.ErrNotFound) {
			err = tiering.Errorf(tiering.CodeCorrupt, "the object %s is gone from %s", s.Name, c)
		}
		return nil, nil, err
	}
	if seg.Tenant() != s.Tenant || seg.Count() != s.Count {
		return nil, nil, tiering.Errorf(tiering.CodeCorrupt, "%s holds %d records of tenant %s, the catalog says %d of %s", s.Name, seg.Count(), seg.Tenant(), s.Count, s.Tenant)
	}
	records := make([]cold.Record, 0, seg.Count())
	for r, err := range seg.Records() {
		if err != nil {
			return nil, nil, err
		}
		records = append(records, r)
	}
	return seg, records, nil
}

// drop removes the records that retention does not keep, and counts them by
// reason.
func (g *collection) drop(ctx context.Context, c *composition) (map[string]int64, error) {
	entries := make([]cold.Entry, len(c.records))
	for i, r := range c.records {
		entries[i] = cold.Entry{Key: r.Key, Op: r.Op, Version: r.Version, Revision: r.Revision, At: r.At, Size: int64(len(r.Body)), Digest: r.Digest}
	}
	r := g.judging()
	r.sweeper = g.newSweeper(g.now) // by the policies of now: a run may take hours
	defer r.close()
	v, err := r.judge(ctx, job{sources: c.sources}.names(), entries)
	if err != nil {
		return nil, err
	}
	c.judged = v.judged
	g.report.NextVersions += v.next
	counts := map[string]int64{}
	kept := c.records[:0]
	for i, rec := range c.records {
		if why := v.dropped[i]; why != "" {
			counts[why]++
			continue
		}
		kept = append(kept, rec)
	}
	clear(c.records[len(kept):])
	c.records = kept
	return counts, nil
}
