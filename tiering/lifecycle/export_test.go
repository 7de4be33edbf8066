package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// IndexReader is the index worker among the readers of the feed.
const IndexReader = indexReader

// MergeOnce is one step of the worker that merges and collects.
func (e *Engine) MergeOnce(ctx context.Context) (time.Duration, error) {
	return e.underLease(ctx, MergeLease, e.merge)
}

// ReplicateOnce is one step of the worker that makes missing copies.
func (e *Engine) ReplicateOnce(ctx context.Context) (time.Duration, error) {
	return e.underLease(ctx, "replicate", e.replicate)
}

// TrimOnce is one step of the worker that trims the feed.
func (e *Engine) TrimOnce(ctx context.Context) (time.Duration, error) {
	return e.underLease(ctx, "trim", e.trim)
}

// Mergeable picks runs of small segments below a size, as a merge does.
func Mergeable(segments []tiering.SegmentInfo, count int, below int64) [][]tiering.SegmentInfo {
	return mergeable(segments, count,
		func(s tiering.SegmentInfo) bool { return s.Size < below && s.Verified() == 2 },
		func(a, b tiering.SegmentInfo) bool { return true })
}

// SweepInSteps returns a pass of its own, whose steps end as soon as they have lasted
// a while; a call is a step, and tells whether the pass is over.
func (e *Engine) SweepInSteps(t testing.TB, lasts time.Duration) func(context.Context) bool {
	p := &pass{lasts: max(lasts, 1)}
	return func(ctx context.Context) (over bool) {
		if _, err := e.underLease(ctx, "sweep", func(ctx context.Context, _ warm.Lease) (pause time.Duration, err error) {
			over, err = e.step(ctx, p)
			return 0, err
		}); err != nil {
			t.Fatal(err)
		}
		return over
	}
}

// Paced is a step of a pass that does no work of its own.
type Paced struct{ s *sweeper }

// NewPaced begins a step.
func NewPaced() Paced {
	p := &pass{}
	p.begin()
	return Paced{&sweeper{pass: p}}
}

// Work works for d, and rests if it is time.
func (p Paced) Work(ctx context.Context, d time.Duration) {
	began := time.Now()
	time.Sleep(d)
	p.s.pace(ctx, began)
}

// Tired reports whether the step has lasted long enough.
func (p Paced) Tired() bool { return p.s.pass.tired() }

// End ends the pass, and returns how long it is until the next.
func (p Paced) End() time.Duration {
	p.s.pass.end()
	return time.Until(p.s.pass.next)
}

// NextPage is how many transactions of the feed are read next.
func NextPage(entries, changes int) int { return nextPage(entries, changes) }

// ProvenTwice proves a version, and again by the same proof once that is old. between
// is called in between.
func (e *Engine) ProvenTwice(ctx context.Context, key tiering.Key, version int64, digest tiering.Digest, between func()) (first, second error) {
	p, err := e.newProof(ctx, []tiering.Key{key})
	if err != nil {
		return err, err
	}
	first = p.of(ctx, key, version, digest)
	between()
	p.read = p.read.Add(-2 * proofLasts)
	return first, p.of(ctx, key, version, digest)
}
