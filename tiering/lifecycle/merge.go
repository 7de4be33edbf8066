package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// MergeLease is the lease under which segments are merged and collected.
const MergeLease = "merge"

// The bounds of one merge. It holds its records in memory, several times what their
// bodies take, and changes the catalog in one transaction: what is larger would make
// a daemon grow with its store, and its statements outlive their timeout.
const (
	mergeRaw     = 16 << 20 // bytes of the bodies
	mergeRecords = 25_000
	mergeSources = 256
)

// When a segment is rewritten because retention no longer keeps all of it: at
// once when a fifth of its bytes may go, else when something could have gone a
// week ago, so that nothing is rewritten every day for a little.
const (
	dropShare = 5
	dropLate  = 7 * 24 * time.Hour
)

// lookAgain is how long a segment that retention looked into is left alone at
// most: keys are deleted and policies change.
const lookAgain = 24 * time.Hour

// How a merge that fails on its own waits.
const (
	firstRetry = time.Minute
	lastRetry  = 6 * time.Hour
)

// moveMerge is a merge in the engine's measurements. Plan decides no merges.
const moveMerge tiering.Move = "merge"

// merges is what is known of segments between two runs. It is lost with the
// process, and found again by looking.
type merges struct {
	running sync.Mutex // one run at a time in this process

	mu     sync.Mutex
	look   map[string]time.Time // when retention has to look at a segment again
	epochs map[string]string    // of segments that turned out to be of different lives
	failed map[string]failure   // by the first source
	listed time.Time            // when the buckets were last looked through for strangers
}

// remember makes the maps. running is held.
func (m *merges) remember() {
	if m.look == nil {
		m.look, m.epochs, m.failed = map[string]time.Time{}, map[string]string{}, map[string]failure{}
	}
}

// failure is a merge that keeps failing.
type failure struct {
	times int
	until time.Time
}

// job is one rewrite: some segments of one tenant become one.
type job struct {
	tenant  string
	sources []tiering.SegmentInfo
}

func (j job) names() []string {
	out := make([]string, len(j.sources))
	for i, s := range j.sources {
		out[i] = s.Name
	}
	return out
}

// merge rewrites segments that are small, or of which retention keeps too
// little, and then collects what no reader can be reading any more.
func (e *Engine) merge(ctx context.Context, l warm.Lease) (time.Duration, error) {
	e.merges.running.Lock()
	defer e.merges.running.Unlock()
	now, ok, err := e.trustedNow(ctx)
	if err != nil || !ok {
		return e.MergeEvery, err
	}
	more, err := e.newCollection(now, &GCReport{}).run(ctx, l)
	if err != nil || more {
		return 0, err
	}
	return e.MergeEvery, nil
}

// jobs finds what is to be rewritten, for each tenant: runs of small segments,
// then single ones that hold what retention lets go.
func (g *collection) jobs(ctx context.Context) ([]job, error) {
	byTenant, err := g.finished(ctx)
	if err != nil {
		return nil, err
	}
	// What an erasure takes must not be written again meanwhile.
	erasures, err := g.Warm.Erasures(ctx)
	if err != nil {
		return nil, err
	}
	for _, er := range erasures {
		delete(byTenant, er.Selector.Tenant)
	}
	var out []job
	for _, tenant := range slices.Sorted(maps.Keys(byTenant)) {
		taken := map[string]bool{}
		for _, run := range mergeable(byTenant[tenant], g.MergeCount, g.mayMerge, g.sameEpoch) {
			out = append(out, job{tenant, run})
			for _, s := range run {
				taken[s.Name] = true
			}
		}
		shortest, err := g.shortestKeep(ctx, tenant)
		if err != nil {
			return nil, err
		}
		for _, s := range byTenant[tenant] {
			if taken[s.Name] || s.Count == 0 || s.MinTime.Add(shortest).After(g.now.Add(g.ahead)) || !g.dueLook(s) {
				continue
			}
			worth, err := g.worthwhile(ctx, s)
			if err != nil {
				return nil, err
			}
			if worth {
				out = append(out, job{tenant, []tiering.SegmentInfo{s}})
			}
		}
	}
	return out, nil
}

// finished returns the finished segments of each tenant, in name order, but for
// those that an erase order has to be carried out in first, and forgets what is
// remembered of others.
func (g *collection) finished(ctx context.Context) (map[string][]tiering.SegmentInfo, error) {
	byTenant := map[string][]tiering.SegmentInfo{}
	there := map[string]bool{}
	err := g.eachSegment(ctx, "", tiering.SegmentFinished, func(s tiering.SegmentInfo) error {
		if s.Owner != unfinishedErase {
			byTenant[s.Tenant] = append(byTenant[s.Tenant], s)
		}
		there[s.Name] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	maps.DeleteFunc(g.merges.look, func(name string, _ time.Time) bool { return !there[name] })
	maps.DeleteFunc(g.merges.epochs, func(name, _ string) bool { return !there[name] })
	maps.DeleteFunc(g.merges.failed, func(name string, _ failure) bool {
		if !there[name] {
			g.unpark(MergeLease, name)
		}
		return !there[name]
	})
	return byTenant, nil
}

// mergeable picks runs of at least count segments that lie side by side and
// may be merged, within the bounds of a merge. The largest of a run is at most
// two thirds of it, so that a segment grows by half at least each time its
// bytes are written again.
func mergeable(segments []tiering.SegmentInfo, count int, may func(tiering.SegmentInfo) bool, same func(a, b tiering.SegmentInfo) bool) [][]tiering.SegmentInfo {
	var out [][]tiering.SegmentInfo
	for i := 0; i < len(segments); {
		var size, raw, records, largest int64
		end := i
		for ; end < len(segments) && end-i < mergeSources; end++ {
			s := segments[end]
			if !may(s) || end > i && !same(segments[end-1], s) || raw+s.RawSize > mergeRaw || records+s.Count > mergeRecords {
				break
			}
			size, raw, records, largest = size+s.Size, raw+s.RawSize, records+s.Count, max(largest, s.Size)
		}
		if n := end - i; n >= max(count, 2) && 3*largest <= 2*size {
			out = append(out, segments[i:end])
			i = end
			continue
		}
		i++
	}
	return out
}

// mayMerge: both copies are there, so that nobody else is at work on it, it is
// small, and it does not wait after a failure.
func (g *collection) mayMerge(s tiering.SegmentInfo) bool {
	return s.Verified() == 2 && s.Size < g.MergeBelow && !g.waits(s.Name)
}

// sameEpoch is false for segments that are known to be of two lives of the
// store: their positions are not of one feed.
func (g *collection) sameEpoch(a, b tiering.SegmentInfo) bool {
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	x, known := g.merges.epochs[a.Name]
	y, too := g.merges.epochs[b.Name]
	return !known || !too || x == y
}

// waits reports whether a job that begins with the segment failed lately.
func (g *collection) waits(name string) bool {
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	return !g.all && g.now.Before(g.merges.failed[name].until)
}

// dueLook: retention has to look at the segment now.
func (g *collection) dueLook(s tiering.SegmentInfo) bool {
	if s.Verified() < 2 || g.waits(s.Name) {
		return false
	}
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	return g.all || !g.now.Before(g.merges.look[s.Name])
}

// worthwhile looks at the index of one segment, and decides whether enough of
// it may go. A segment that cannot be judged is left alone, and shows as parked
// when that lasts.
func (g *collection) worthwhile(ctx context.Context, s tiering.SegmentInfo) (bool, error) {
	v, entries, err := g.inspect(ctx, job{s.Tenant, []tiering.SegmentInfo{s}})
	if err != nil {
		return false, g.fails(ctx, s.Name, err)
	}
	if len(v.dropped) > 0 && (g.all || len(v.dropped)*dropShare >= len(entries) || v.bytes*dropShare >= max(v.all, 1) || g.now.Sub(v.since) >= dropLate) {
		return true, nil
	}
	g.report.NextVersions += v.next
	again := g.now.Add(lookAgain)
	if !v.again.IsZero() && v.again.Before(again) {
		again = v.again
	}
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	g.merges.look[s.Name] = again
	return false, nil
}

// inspect judges the segments of a job by their indexes.
func (g *collection) inspect(ctx context.Context, j job) (verdict, []cold.Entry, error) {
	var entries []cold.Entry
	for _, s := range j.sources {
		seg, err := g.openIndex(ctx, s.Name)
		if err != nil {
			return verdict{}, nil, err
		}
		entries = slices.AppendSeq(entries, seg.Index())
	}
	slices.SortFunc(entries, compareEntries)
	r := g.judging()
	defer r.close()
	v, err := r.judge(ctx, j.names(), entries)
	return v, entries, err
}

func compareEntries(a, b cold.Entry) int {
	return cold.Record{Key: a.Key, Version: a.Version, Revision: a.Revision}.Compare(cold.Record{Key: b.Key, Version: b.Version, Revision: b.Revision})
}

// shortestKeep is the shortest time that any namespace of the tenant keeps
// history for.
func (g *collection) shortestKeep(ctx context.Context, tenant string) (time.Duration, error) {
	shortest := tiering.Policy{}.WithDefaults().KeepFor.Std()
	for after := ""; ; {
		page, err := g.Warm.List(ctx, warm.List{Tenant: tenant, Namespace: tiering.PolicyNamespace, After: after, Limit: walkPage})
		if err != nil {
			return 0, err
		}
		for _, cur := range page {
			after = cur.Head.Key.ID
			p, ok, err := g.policy(ctx, tiering.Key{Tenant: tenant, Namespace: after})
			if err != nil {
				return 0, err
			}
			if ok {
				shortest = min(shortest, p.KeepFor.Std())
			}
		}
		if len(page) < walkPage {
			return shortest, nil
		}
	}
}

// fails notes that a job failed. What may succeed later without any change ends
// the run, and the worker waits; anything else is this job's own, which waits
// alone so that the others go on.
func (g *collection) fails(ctx context.Context, first string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errMixed), errors.Is(err, errJudgedAnew):
		return nil // the next run knows their epochs, and what is to be kept
	case ctx.Err() != nil || tiering.Retryable(err) || tiering.CodeOf(err) == "":
		g.Recorder.Moved(moveMerge, false, err)
		return err
	}
	if of, ok := errors.AsType[*sourceError](err); ok {
		first = of.name
	}
	g.merges.mu.Lock()
	f := g.merges.failed[first]
	f.times++
	f.until = g.now.Add(min(firstRetry<<min(f.times-1, 16), lastRetry))
	g.merges.failed[first] = f
	g.merges.mu.Unlock()
	g.report.Left = append(g.report.Left, Left{Segment: first, Why: err.Error()})
	g.Recorder.Moved(moveMerge, false, err)
	g.park(MergeLease, first, f.times, err)
	g.Logger.Warn("segments were not merged", "segment", first, "failures", f.times, "retry_at", f.until, "err", err)
	return nil
}

// succeeded forgets that a job failed.
func (g *collection) succeeded(j job) {
	g.merges.mu.Lock()
	defer g.merges.mu.Unlock()
	for _, s := range j.sources {
		if _, ok := g.merges.failed[s.Name]; ok {
			delete(g.merges.failed, s.Name)
			g.unpark(MergeLease, s.Name)
		}
	}
}

// errMixed is a job whose segments turned out to be of different lives of the
// store.
var errMixed = errors.New("the segments are of different epochs")
