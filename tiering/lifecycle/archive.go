package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// ArchiveReader is the name of the archiver's position in the feed.
const ArchiveReader = "archive"

// The bounds of one run of the feed. A transaction may hold a thousand changes: how
// many are read at a time follows from how many those before held.
const (
	feedPage   = 2000   // transactions read at a time, at most
	firstPage  = 50     // of them, while nothing is known
	maxChanges = 25_000 // changes in one run
)

// archiveWhenDue writes the next run of the feed to cold once it is large or
// old enough, and says when to look again.
func (e *Engine) archiveWhenDue(ctx context.Context, l warm.Lease) (time.Duration, error) {
	r, wait, err := e.archiveIfDue(ctx, l)
	if err == nil && len(r.entries) == 0 {
		return 0, e.awaitFeed(ctx, r.after)
	}
	return wait, err
}

func (e *Engine) archiveIfDue(ctx context.Context, l warm.Lease) (r run, wait time.Duration, err error) {
	if err := e.archiving.take(ctx); err != nil {
		return r, 0, err
	}
	defer e.archiving.give()
	if unsettled, ok := warm.As[warm.Settler](e.Warm); ok {
		n, err := unsettled.Unsettled(ctx)
		if err != nil {
			return r, 0, err
		}
		e.Recorder.FeedLag(n)
	}
	if r, err = e.nextRun(ctx); err != nil {
		return r, 0, err
	}
	if len(r.entries) == 0 {
		e.Recorder.ArchiveLag(0, 0)
		return r, 0, nil
	}
	now, err := e.Warm.Now(ctx)
	if err != nil {
		return r, 0, err
	}
	age := now.Sub(r.oldest())
	e.Recorder.ArchiveLag(int64(len(r.entries)), max(age, 0))
	wish, err := e.Warm.Position(ctx, flushWish)
	if err != nil {
		return r, 0, err
	}
	if !r.full && age < e.SegmentAge && wish <= r.after {
		return r, min(e.SegmentAge-age, wishPoll), nil
	}
	if err := e.archive(ctx, l, r); err != nil {
		return r, 0, err
	}
	if wish > 0 && wish < r.to() { // a wish that was met must not hold the feed back
		err = e.Warm.SetPosition(ctx, flushWish, r.to())
	}
	return r, 0, err
}

// flushWish is the position up to which a daemon that does not archive wishes
// the feed archived, whatever its age. wishPoll is how often the one that does
// looks.
const (
	flushWish = "archive.flush"
	wishPoll  = 500 * time.Millisecond
)

// awaitFeed waits for something to archive, for no longer than the lease.
func (e *Engine) awaitFeed(ctx context.Context, after int64) error {
	wctx, cancel := context.WithTimeout(ctx, e.LeaseTTL/3)
	defer cancel()
	if err := e.Warm.WaitFeed(wctx, after); err != nil && wctx.Err() == nil {
		return err
	}
	return nil
}

// Flush has everything archived that was committed before. Where another daemon
// holds the archive's lease it asks that one and waits, or takes over from it.
func (e *Engine) Flush(ctx context.Context) error {
	if err := e.settleFeed(ctx); err != nil {
		return err
	}
	_, last, err := e.Warm.FeedBounds(ctx)
	if err != nil {
		return err
	}
	for asked := false; ; asked = true {
		err := e.FlushIfFree(ctx)
		if tiering.CodeOf(err) != tiering.CodeLeaseHeld {
			return err
		}
		if !asked {
			if err := e.Warm.SetPosition(ctx, flushWish, last); err != nil {
				return err
			}
		}
		pos, err := e.Warm.Position(ctx, ArchiveReader)
		if err != nil || pos >= last {
			return err
		}
		if !sleep(ctx, flushPoll) {
			return ctx.Err()
		}
	}
}

// settleFeed has everything that was committed in the feed.
func (e *Engine) settleFeed(ctx context.Context) error {
	if s, ok := warm.As[warm.Settler](e.Warm); ok {
		return s.Settle(ctx)
	}
	return nil
}

// flushPoll is how often a flush looks whether another daemon has archived.
const flushPoll = 100 * time.Millisecond

// FlushIfFree is Flush that fails with lease_held at once where another daemon
// archives.
func (e *Engine) FlushIfFree(ctx context.Context) error {
	if err := e.settleFeed(ctx); err != nil {
		return err
	}
	if err := e.archiving.take(ctx); err != nil {
		return err
	}
	defer e.archiving.give()
	for {
		l, ok, err := e.Warm.Acquire(ctx, ArchiveReader, e.Holder, e.LeaseTTL)
		if err != nil {
			return err
		}
		if !ok {
			return tiering.Errorf(tiering.CodeLeaseHeld, "daemon %s archives until %s", l.Holder, l.Expires.Format(time.RFC3339))
		}
		e.took(l)
		r, err := e.nextRun(ctx)
		if err != nil || len(r.entries) == 0 {
			return err
		}
		if err := e.archive(warm.Under(ctx, l), l, r); err != nil {
			return err
		}
	}
}

// run is a piece of the feed that becomes segments, one a tenant.
type run struct {
	after   int64 // the position before it
	entries []warm.FeedEntry
	full    bool // it has reached a bound
}

func (r run) to() int64         { return r.entries[len(r.entries)-1].Pos }
func (r run) oldest() time.Time { return r.entries[0].Changes[0].At }

// nextRun reads the feed behind the archive, up to a segment's worth.
func (e *Engine) nextRun(ctx context.Context) (run, error) {
	pos, err := e.Warm.Position(ctx, ArchiveReader)
	if err != nil {
		return run{}, err
	}
	r := run{after: pos}
	var bytes int64
	changes, at := 0, pos
	for limit := firstPage; !r.full; limit = nextPage(len(r.entries), changes) {
		page, err := e.Warm.ReadFeed(ctx, at, limit)
		if err != nil {
			return run{}, err
		}
		for _, entry := range page {
			at = entry.Pos
			if len(entry.Changes) == 0 {
				continue
			}
			r.entries = append(r.entries, entry)
			changes += len(entry.Changes)
			for _, c := range entry.Changes {
				bytes += c.Size
			}
			if bytes >= e.SegmentBytes || changes >= maxChanges {
				r.full = true
				break
			}
		}
		if len(page) < limit {
			break
		}
	}
	if len(r.entries) == 0 && at > pos { // an erase left entries without changes
		r.after = at
		return r, e.Warm.SetPosition(ctx, ArchiveReader, at)
	}
	return r, nil
}

// nextPage is how many transactions make up a run at most, as those that were read
// so far go, and feedPage at most.
func nextPage(entries, changes int) int {
	each := max(changes, 1)/max(entries, 1) + 1
	return min(max(maxChanges/each, 1), feedPage)
}

// readRun reads the entries of a run once more.
func (e *Engine) readRun(ctx context.Context, of run) (run, error) {
	r := run{after: of.after}
	for at := of.after; at < of.to(); {
		// As many as it had: an erase may only have taken changes out of them.
		page, err := e.Warm.ReadFeed(ctx, at, max(len(of.entries)-len(r.entries), 1))
		if err != nil {
			return run{}, err
		}
		for _, entry := range page {
			if at = entry.Pos; at > of.to() {
				return r, nil
			}
			r.entries = append(r.entries, entry)
		}
		if len(page) == 0 {
			break
		}
	}
	return r, nil
}

// archive writes a run, a segment a tenant, and moves the archive's position.
// Done again after a crash it skips the tenants that were finished. e.archiving
// is held.
func (e *Engine) archive(ctx context.Context, l warm.Lease, r run) error {
	if err := e.checkSuccessor(ctx); err != nil {
		return err
	}
	if err := e.sweepIntents(ctx, l); err != nil {
		return err
	}
	tenants := slices.Sorted(maps.Keys(r.byTenant()))
	for group := range slices.Chunk(tenants, tenantsAtOnce) {
		if err := e.archiveGroup(ctx, l, group, r); err != nil {
			return err
		}
	}
	if err := failpoint.Hit(failpoint.ArchiveFinished); err != nil {
		return err
	}
	return e.Warm.SetPosition(ctx, ArchiveReader, r.to())
}

// tenantsAtOnce is how many intents stand while the feed is read once for all
// of them.
const tenantsAtOnce = 64

// positioned is a change with the position of its transaction.
type positioned struct {
	warm.FeedChange
	pos int64
}

func (r run) byTenant() map[string][]positioned {
	out := map[string][]positioned{}
	for _, entry := range r.entries {
		for _, c := range entry.Changes {
			out[c.Key.Tenant] = append(out[c.Key.Tenant], positioned{c, entry.Pos})
		}
	}
	return out
}

// intent is a segment that was started, with the positions that it will cover.
type intent struct {
	tiering.SegmentInfo
	covers tiering.Range
}

// archiveGroup writes a segment for each of some tenants. The intents stand
// before anything is read: an erase that finds none may be sure that nobody
// holds what it takes. What the run read before that, to see how far it goes,
// is read again.
func (e *Engine) archiveGroup(ctx context.Context, l warm.Lease, tenants []string, r run) error {
	var started []intent
	abandon := func(from int, cause error) error {
		for _, s := range started[from:] {
			cause = e.abandon(ctx, s.Name, cause)
		}
		return cause
	}
	for _, tenant := range tenants {
		s, due, err := e.startSegment(ctx, l, tenant, r)
		if err != nil {
			return abandon(0, err)
		}
		if due {
			started = append(started, s)
		}
	}
	if len(started) == 0 {
		return nil
	}
	if err := e.stillHeld(ctx, l); err != nil {
		return abandon(0, err)
	}
	if err := failpoint.Hit(failpoint.ArchiveStarted); err != nil {
		return abandon(0, err)
	}
	again, err := e.readRun(ctx, r)
	if err != nil {
		return abandon(0, err)
	}
	changes := again.byTenant()
	for i, s := range started {
		if err := e.archiveTenant(ctx, s, changes[s.Tenant], r); err != nil {
			return abandon(i+1, err)
		}
	}
	return nil
}

// startSegment commits the intent for one tenant's part of the run; due is
// false when it was archived before.
func (e *Engine) startSegment(ctx context.Context, l warm.Lease, tenant string, r run) (s intent, due bool, err error) {
	covered, err := e.coveredTo(ctx, tenant)
	if err != nil || covered >= r.to() {
		return s, false, err
	}
	now, err := e.Warm.Now(ctx)
	if err != nil {
		return s, false, err
	}
	s.covers = tiering.Range{From: covered + 1, To: r.to()}
	s.SegmentInfo = tiering.SegmentInfo{Name: e.Archive.Name(now, l.Token), Tenant: tenant, State: tiering.SegmentStarted, Owner: l.Name, Token: l.Token, Started: now}
	return s, true, e.Warm.StartSegment(ctx, s.SegmentInfo)
}

// archiveTenant writes one segment that was started: the bytes to both buckets,
// read back, then the catalog. A copy that fails is made later.
func (e *Engine) archiveTenant(ctx context.Context, s intent, changes []positioned, r run) error {
	changes = slices.DeleteFunc(changes, func(c positioned) bool { return c.pos < s.covers.From })
	if len(changes) == 0 { // an erase took them: the next segment covers their positions
		return e.abandon(ctx, s.Name, nil)
	}
	epoch, err := e.Warm.Epoch(ctx)
	if err != nil {
		return e.abandon(ctx, s.Name, err)
	}
	records, missing, err := e.records(ctx, changes)
	if err != nil {
		return e.abandon(ctx, s.Name, err)
	}
	enc, err := cold.Encode(s.Tenant, []tiering.Range{s.covers}, records, &cold.EncodeOptions{Epoch: epoch})
	if err != nil {
		return e.abandon(ctx, s.Name, err)
	}
	errs := e.writeCopies(ctx, s.Name, enc.Data)
	for c, err := range errs {
		s.Copies[c] = tiering.CopyVerified
		if err != nil {
			s.Copies[c] = tiering.CopyMissing
			e.Logger.Warn("a copy of a segment was not written; it is made later", "segment", s.Name, "copy", tiering.Copy(c), "err", err)
		}
	}
	if s.Verified() == 0 {
		return e.giveUp(ctx, s.Name, errors.Join(errNoProgress, errs[0], errs[1]))
	}
	if err := failpoint.Hit(failpoint.ArchiveUploaded); err != nil {
		return e.giveUp(ctx, s.Name, err)
	}
	s.State, s.Size, s.RawSize, s.SHA256, s.Count = tiering.SegmentFinished, int64(len(enc.Data)), enc.RawSize, enc.SHA256, enc.Count
	s.MinTime, s.MaxTime, s.Ranges = enc.MinTime, enc.MaxTime, enc.Ranges
	if err := e.Warm.FinishSegment(ctx, s.SegmentInfo, enc.LocationsFor(s.Name), ArchiveReader, r.after); err != nil {
		return err
	}
	// Not before: what an erase took meanwhile is missing too, and then the
	// segment does not finish.
	for _, c := range missing {
		e.parkDamaged(c.Key, c.Version)
		e.Logger.Error("a version is missing or damaged in warm and was not archived", "key", c.Key, "version", c.Version)
	}
	return nil
}

// writeCopies writes a segment to both buckets.
func (e *Engine) writeCopies(ctx context.Context, name string, data []byte) [2]error {
	if failpoint.Skips(failpoint.SecondCopy) {
		return [2]error{e.Archive.Write(ctx, tiering.Primary, name, data), nil}
	}
	return e.Archive.WriteBoth(ctx, name, data)
}

// coveredTo is the last feed position that the tenant's segments cover.
func (e *Engine) coveredTo(ctx context.Context, tenant string) (int64, error) {
	var to int64
	err := e.eachSegment(ctx, tenant, tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		for _, g := range s.Ranges {
			to = max(to, g.To)
		}
		return nil
	})
	return to, err
}

// eachSegment calls fn with every segment of a tenant ("": all) in a state.
func (e *Engine) eachSegment(ctx context.Context, tenant string, state tiering.SegmentState, fn func(tiering.SegmentInfo) error) error {
	after := ""
	for {
		page, err := e.Warm.Segments(ctx, tenant, state, after, segmentPage)
		if err != nil {
			return err
		}
		for _, s := range page {
			after = s.Name
			if err := fn(s); err != nil {
				return err
			}
		}
		if len(page) < segmentPage {
			return nil
		}
	}
}

const segmentPage = 500

// abandon forgets an intent after cause, before any byte of its object was sent.
func (e *Engine) abandon(ctx context.Context, name string, cause error) error {
	return errors.Join(cause, e.Warm.AbandonSegment(context.WithoutCancel(ctx), name))
}

// giveUp drops an intent after cause. What of its object reached a bucket, or
// still will, is collected after the grace period.
func (e *Engine) giveUp(ctx context.Context, name string, cause error) error {
	_, err := e.Warm.DropIntent(context.WithoutCancel(ctx), name)
	return errors.Join(cause, err)
}

// sweepIntents drops what a dead worker of the same lease began and did not
// finish. Only the holder of a newer lease may; the intents of other workers
// are theirs. The catalog comes first: once it has dropped an intent, a writer
// that was only paused cannot finish it, so its object may go.
func (e *Engine) sweepIntents(ctx context.Context, l warm.Lease) error {
	return e.eachSegment(ctx, "", tiering.SegmentStarted, func(s tiering.SegmentInfo) error {
		if s.Owner != l.Name {
			return nil
		}
		if s.Token > l.Token {
			return tiering.Errorf(tiering.CodeFenced, "segment %s was started under a newer lease", s.Name)
		}
		_, err := e.Warm.DropIntent(ctx, s.Name)
		return err
	})
}
