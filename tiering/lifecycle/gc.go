package lifecycle

import (
	"context"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// reportAhead is how far ahead a report says what retention drops next.
const reportAhead = 7 * 24 * time.Hour

// GCReport says what a run of merge and collect did, or would do.
type GCReport struct {
	DryRun bool `json:"dry_run"`
	// Rewritten are the segments that became one, or lost records.
	Rewritten []Rewritten `json:"rewritten"`
	// Dropped counts the records that retention let go, by reason: history,
	// deleted, tombstone, touch. Their bytes are freed with the objects that
	// held them, after the grace period.
	Dropped map[string]int64 `json:"dropped"`
	// Objects and Bytes are what was deleted from the buckets.
	Objects int64 `json:"objects_deleted"`
	Bytes   int64 `json:"bytes_freed"`
	// Waiting counts replaced segments within their grace period, and the
	// bytes of both copies of them.
	Waiting      int64 `json:"segments_in_grace"`
	WaitingBytes int64 `json:"bytes_in_grace"`
	// Strangers are objects that the catalog does not know.
	Strangers []Leftover `json:"strangers"`
	// NextVersions is how many versions come due within the next seven days.
	NextVersions int64 `json:"versions_due_in_7d"`
	// Left are segments that could not be rewritten.
	Left []Left `json:"left"`
	// Blocked says why nothing was done at all, "" otherwise.
	Blocked string `json:"blocked,omitempty"`
}

// Rewritten is one rewrite: Sources became Into.
type Rewritten struct {
	Tenant  string   `json:"tenant"`
	Sources []string `json:"sources"`
	Into    string   `json:"into,omitempty"` // "" in a dry run
	Records int64    `json:"records"`        // before
	Dropped int64    `json:"dropped"`
	Before  int64    `json:"bytes_before"`          // of one copy
	After   int64    `json:"bytes_after,omitempty"` // of one copy; 0 in a dry run
}

// Leftover is an object that the catalog does not know.
type Leftover struct {
	Name   string   `json:"name"`
	Copies []string `json:"copies"` // primary, backup or both
	Size   int64    `json:"size"`   // bytes, in all copies
	// Kept says why it stays, "" when it is deleted.
	Kept string `json:"kept,omitempty"`
}

// Left is a segment that was left as it is.
type Left struct {
	Segment string `json:"segment"`
	Why     string `json:"why"`
}

// GC runs merge and collect once, everything that is due, and says what was
// done; dry says only what would be. It is lease_held while another daemon is
// at it. An error comes with the report of what was done before it.
func (e *Engine) GC(ctx context.Context, dry bool) (GCReport, error) {
	e.merges.running.Lock()
	defer e.merges.running.Unlock()
	report := GCReport{DryRun: dry, Rewritten: []Rewritten{}, Dropped: map[string]int64{}, Strangers: []Leftover{}, Left: []Left{}}
	now, ok, err := e.trustedNow(ctx)
	if err != nil {
		return report, err
	}
	if !ok {
		report.Blocked = "the clock jumped: confirm it first"
		return report, nil
	}
	g := e.newCollection(now, &report)
	g.all, g.dry, g.ahead = true, dry, reportAhead
	l := warm.Lease{Name: MergeLease}
	if !dry {
		if l, ok, err = e.Warm.Acquire(ctx, MergeLease, e.Holder, e.LeaseTTL); err != nil {
			return report, err
		}
		if !ok {
			return report, tiering.Errorf(tiering.CodeLeaseHeld, "daemon %s merges until %s", l.Holder, l.Expires.Format(time.RFC3339))
		}
		ctx = warm.Under(ctx, l)
	}
	_, err = g.run(ctx, l)
	return report, err
}

// rewritten notes a rewrite that was done.
func (r *GCReport) rewritten(j job, into tiering.SegmentInfo, drops map[string]int64) {
	w := Rewritten{Tenant: j.tenant, Sources: j.names(), Into: into.Name, After: into.Size}
	for _, s := range j.sources {
		w.Records += s.Count
		w.Before += s.Size
	}
	r.drop(drops, &w)
}

// planned notes a rewrite that would be done.
func (r *GCReport) planned(j job, v verdict, records int) {
	w := Rewritten{Tenant: j.tenant, Sources: j.names(), Records: int64(records)}
	for _, s := range j.sources {
		w.Before += s.Size
	}
	drops := map[string]int64{}
	for _, why := range v.dropped {
		drops[why]++
	}
	r.drop(drops, &w)
}

func (r *GCReport) drop(drops map[string]int64, w *Rewritten) {
	if r.Dropped == nil {
		r.Dropped = map[string]int64{}
	}
	for why, n := range drops {
		r.Dropped[why] += n
		w.Dropped += n
	}
	r.Rewritten = append(r.Rewritten, *w)
}

// deleted notes objects that are gone.
func (r *GCReport) deleted(objects, bytes int64) {
	r.Objects += objects
	r.Bytes += bytes
}
