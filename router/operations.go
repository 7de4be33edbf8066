package router

import (
	"context"
	"errors"
	"time"

	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Background is what the router passes on to the engine behind it.
type Background interface {
	// Flush archives everything that is in the feed now.
	Flush(ctx context.Context) error
	// Erase makes a subject of the tenant disappear, or counts it.
	Erase(ctx context.Context, tenant string, r tiering.EraseRequest) (*tiering.EraseReceipt, error)
	// Erasure returns the receipt of an erase of the tenant.
	Erasure(ctx context.Context, tenant, receipt string) (*tiering.EraseReceipt, error)
	// ConfirmClock accepts a clock that jumped.
	ConfirmClock(ctx context.Context) error
	// Proven reads a version back from both cold copies.
	Proven(ctx context.Context, key tiering.Key, version int64, digest tiering.Digest) error
	// Parked lists the moves that keep failing.
	Parked(ctx context.Context) []tiering.ParkedMove
	// Forecast is how many moves fall due within a day.
	Forecast() map[tiering.Move]int64
	// Cold is how many bytes the verified copies take and how many segments
	// lack one, by copy.
	Cold(ctx context.Context) (bytes, missing [2]int64, err error)
}

// moveTries is how often a move by hand starts again because the document
// changed under it.
const moveTries = 5

// demotePatience is how long a move by hand waits for the buckets.
const demotePatience = 5 * time.Second

// demoteRetry is how long a caller should wait for two verified copies.
const demoteRetry = time.Second

// Demote drops the current bytes of a document from warm and hot.
func (r *Router) Demote(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	e, err := r.byHand(ctx, ns, id, r.demote)
	return e, tiering.Wrap(err, "demote", "", r.key(ns, id))
}

// Promote brings the bytes of a document back to warm.
func (r *Router) Promote(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	e, err := r.byHand(ctx, ns, id, r.bringBack)
	return e, tiering.Wrap(err, "promote", "", r.key(ns, id))
}

// byHand runs a move of one document until it was made, or until something
// other than a change of the document stands in its way.
func (r *Router) byHand(ctx context.Context, ns, id string, move func(context.Context, warm.Head, time.Time) (bool, error)) (*tiering.Explanation, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	key, err := r.admitOwn(tiering.VerbWrite, ns, id)
	if err != nil {
		return nil, err
	}
	p, err := r.policyOf(ctx, key.Tenant, ns)
	if err != nil {
		return nil, err
	}
	if !p.Durable() {
		return nil, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: its documents live in hot alone", ns)
	}
	for range moveTries {
		cur, err := r.Warm.Head(ctx, key)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Warm, key)
		}
		if !cur.Head.Live(cur.Now) || !r.mayRead(cur.Head.User) {
			return nil, tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
		}
		done, err := move(ctx, cur.Head, cur.Now)
		if err != nil {
			return nil, err
		}
		if done {
			return r.moved(ctx, key, p)
		}
	}
	return nil, &tiering.Error{Code: tiering.CodeUnavailable, RetryAfter: demoteRetry, Detail: "the document changes all the time: try again"}
}

// moved answers a move by hand: with all that explain says, or, where the
// principal may not read, with the document's metadata alone.
func (r *Router) moved(ctx context.Context, key tiering.Key, p *policy) (*tiering.Explanation, error) {
	e, err := r.explainKey(ctx, key, p)
	if err != nil || !r.blind(key.Namespace) {
		return e, err
	}
	return &tiering.Explanation{Meta: e.Meta, State: e.State}, nil
}

// demote is one try. The guards are warm's; what they ask for is told apart
// here, so that the caller learns what to do.
func (r *Router) demote(ctx context.Context, h warm.Head, now time.Time) (bool, error) {
	if h.Pinned {
		return false, tiering.Errorf(tiering.CodeWrongKind, "the document is pinned: lift the pin first")
	}
	if !h.InWarm { // before: whatever hot took since goes too
		r.clearHot(ctx, h.Key)
		return true, nil
	}
	// By hand it does not matter how idle the document is, only that nobody
	// used it since it was looked at. Its times may be ahead of the clock.
	for _, used := range []time.Time{h.UpdatedAt, h.AccessedAt} {
		if used.After(now) {
			now = used
		}
	}
	if err := r.behindCopies(ctx, h); err != nil {
		return false, err
	}
	if err := failpoint.Hit(failpoint.DemoteProven); err != nil {
		return false, err
	}
	done, err := r.Warm.Demote(ctx, h.Key, h.Version, now)
	if died := failpoint.Hit(failpoint.DemoteDone); died != nil {
		err = died
	}
	if err != nil || !done {
		return false, tiering.Wrap(err, "", tiering.Warm, h.Key)
	}
	r.clearHot(ctx, h.Key)
	return true, nil
}

// behindCopies makes sure of two verified copies, or is unavailable: also where
// a bucket does not answer, which must not hold the caller for long.
func (r *Router) behindCopies(ctx context.Context, h warm.Head) error {
	ctx, cancel := context.WithTimeout(ctx, demotePatience)
	defer cancel()
	if err := r.awaitCopies(ctx, h); err != nil {
		return err
	}
	return r.proven(ctx, h)
}

// proven reads the version back from both copies before its bytes leave warm.
func (r *Router) proven(ctx context.Context, h warm.Head) error {
	if r.Background == nil {
		return nil // warm checks what the catalog says
	}
	err := r.Background.Proven(ctx, h.Key, h.Version, h.Digest)
	var e *tiering.Error
	if errors.As(err, &e) && e.Code == tiering.CodeUnavailable {
		c := *e
		c.RetryAfter = demoteRetry
		return &c
	}
	return err
}

// awaitCopies makes the archive write now what it would write later. It is
// unavailable while the version has not two verified copies.
func (r *Router) awaitCopies(ctx context.Context, h warm.Head) error {
	verified, err := r.twice(ctx, h)
	if err != nil || verified {
		return err
	}
	waits := &tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Cold, RetryAfter: demoteRetry, Detail: "the document waits for two verified cold copies"}
	if r.Background == nil {
		return waits
	}
	if err := r.Background.Flush(ctx); err != nil {
		waits.Err = err
		return waits
	}
	if verified, err = r.twice(ctx, h); err != nil || verified {
		return err
	}
	return waits
}

// twice reports whether two verified copies hold the version.
func (r *Router) twice(ctx context.Context, h warm.Head) (bool, error) {
	segments, err := r.segmentsOf(ctx, h.Key, h.Version)
	for _, s := range segments {
		if s.State == tiering.SegmentFinished && s.Verified() == len(s.Copies) {
			return true, err
		}
	}
	return false, err
}

// clearHot drops the value of a key and the leases of those who are about to
// fill it: the mark of a write does both, and is lifted at once.
func (r *core) clearHot(ctx context.Context, key tiering.Key) {
	m := r.markHot(ctx, key)
	err := m.err
	if err == nil {
		err = r.unmark(m)
	}
	// A hot tier that is down keeps the value for its hot TTL at most, and it
	// is the right one: the move was made.
	if err != nil {
		r.Logger.Warn("a demoted document may still be in hot", "key", key, "err", err)
	}
}

// bringBack is one try to promote.
func (r *Router) bringBack(ctx context.Context, h warm.Head, _ time.Time) (bool, error) {
	if h.InWarm {
		return true, nil
	}
	body, err := r.fromCold(ctx, h)
	if errors.Is(err, errMoved) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	done, err := r.Warm.Promote(ctx, h.Key, h.Version, body)
	return done, tiering.Wrap(err, "", tiering.Warm, h.Key)
}

// Erase makes a subject of the tenant disappear from every tier.
func (r *Router) Erase(ctx context.Context, req tiering.EraseRequest) (*tiering.EraseReceipt, error) {
	receipt, err := administer(r, func(b Background) (*tiering.EraseReceipt, error) { return b.Erase(ctx, r.who.Tenant, req) })
	return receipt, tiering.Wrap(err, "erase", "", tiering.Key{})
}

// Erasure returns the receipt of an erase.
func (r *Router) Erasure(ctx context.Context, id string) (*tiering.EraseReceipt, error) {
	receipt, err := administer(r, func(b Background) (*tiering.EraseReceipt, error) { return b.Erasure(ctx, r.who.Tenant, id) })
	return receipt, tiering.Wrap(err, "erase status", "", tiering.Key{})
}

// ConfirmClock accepts warm's clock as it is, and lets the moves that a jump
// parked go on.
func (r *Router) ConfirmClock(ctx context.Context) error {
	_, err := administer(r, func(b Background) (struct{}, error) { return struct{}{}, b.ConfirmClock(ctx) })
	return tiering.Wrap(err, "confirm clock", "", tiering.Key{})
}

var errNoBackground = errors.New("this router has no background engine")

// administer runs an operation of the background for an administrator.
func administer[T any](r *Router, do func(Background) (T, error)) (T, error) {
	var none T
	if err := r.open(); err != nil {
		return none, err
	}
	if err := r.admin(); err != nil {
		return none, err
	}
	if r.Background == nil {
		return none, &tiering.Error{Code: tiering.CodeUnsupported, Detail: "this node runs no background work", Err: errNoBackground}
	}
	return do(r.Background)
}
