package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/tierd/tierd/cold"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// eraseLease is the name of the eraser's lease, and of its intents.
const eraseLease = "erase"

// How erasures are tried again.
const (
	eraseWithin = 20 * time.Second // how long a caller waits for one to be done
	eraseEvery  = 2 * time.Second  // how often the worker looks for one
	erasePause  = 5 * time.Second  // the longest pause between two tries
)

// erasures is what an engine remembers of the erasures under way. What has to
// outlive the process is in warm and in the buckets.
type erasures struct {
	running sync.Mutex // one erasure at a time in this process

	mu sync.Mutex
	m  map[string]*erasing
}

// erasing is one erasure under way, as this process knows it.
type erasing struct {
	// Guarded by erasures.mu:
	blocked  string // why it is not done
	attempts int
	again    time.Time // not before

	// Of the holder of erasures.running:
	fillsEnd time.Time       // from then on no fill of hot is under way that began before the erase
	clean    map[string]bool // segments that were searched in vain
	past     pasts
}

// Erase makes a subject of the tenant disappear from every tier, or counts
// what it would take. It is unavailable, and nothing was done, when one of the
// buckets does not take the order. The receipt says done only when all of it
// is done; else the worker goes on with it.
func (e *Engine) Erase(ctx context.Context, tenant string, r tiering.EraseRequest) (*tiering.EraseReceipt, error) {
	sel, err := selectorOf(tenant, r)
	if err != nil {
		return nil, err
	}
	if r.DryRun == nil || *r.DryRun {
		return e.countErase(ctx, sel)
	}
	id, err := e.orderErase(ctx, sel)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeoutCause(ctx, eraseWithin, errEraseTakesLong)
	defer cancel()
	e.tryErase(within, id)
	return e.Erasure(ctx, tenant, id)
}

// selectorOf reads a request: exactly one subject.
func selectorOf(tenant string, r tiering.EraseRequest) (warm.Selector, error) {
	s := warm.Selector{Tenant: tenant, Namespace: r.Namespace, ID: r.ID, Prefix: r.Prefix, User: r.User}
	given := 0
	for _, part := range []string{r.ID, r.Prefix, r.User} {
		if part != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return s, tiering.Unprocessablef("", "nothing is selected: give namespace and id, namespace and prefix, or user")
	case given > 1:
		return s, tiering.Unprocessablef("", "more than one subject is selected: give one of id, prefix and user")
	case r.User != "" && r.Namespace != "":
		return s, tiering.Unprocessablef("/namespace", "a user is erased from all namespaces: leave namespace out")
	}
	if r.User != "" {
		return s, at("/user", tiering.ValidateOwner("user", r.User))
	}
	if err := tiering.ValidateNamespace(r.Namespace); err != nil {
		return s, at("/namespace", err)
	}
	if r.ID != "" {
		return s, at("/id", tiering.ValidateID(r.ID))
	}
	if len(r.Prefix) > tiering.MaxIDLength || !utf8.ValidString(r.Prefix) {
		return s, tiering.Unprocessablef("/prefix", "prefix is %d bytes long: use 1 to %d bytes of UTF-8", len(r.Prefix), tiering.MaxIDLength)
	}
	return s, nil
}

// at makes what is wrong with a name an unprocessable field.
func at(pointer string, err error) error {
	var e *tiering.Error
	if !errors.As(err, &e) {
		return err
	}
	return tiering.Unprocessablef(pointer, "%s", e.Detail)
}

func (e *Engine) countErase(ctx context.Context, sel warm.Selector) (*tiering.EraseReceipt, error) {
	n, err := e.Warm.CountErase(ctx, sel)
	if err != nil {
		return nil, tiering.Wrap(err, "count", tiering.Warm, tiering.Key{})
	}
	return &tiering.EraseReceipt{
		DryRun: true, State: "planned", Selector: kindOf(sel),
		Keys: n.Keys, Versions: n.Versions, Bytes: n.Bytes, Segments: int64(len(n.Segments)),
	}, nil
}

func kindOf(s warm.Selector) string {
	switch {
	case s.User != "":
		return orderByUser
	case s.ID != "":
		return orderByID
	case s.Prefix != "":
		return orderByPrefix
	}
	return "" // of one that is done warm does not know it any more
}

// orderErase writes the order to both buckets, then to warm: a rebuild from
// either bucket honours it from then on. When a bucket does not take it the
// order is withdrawn, and nothing else was done.
func (e *Engine) orderErase(ctx context.Context, sel warm.Selector) (id string, err error) {
	now, err := e.Warm.Now(ctx)
	if err != nil {
		return "", tiering.Wrap(err, "order", tiering.Warm, tiering.Key{})
	}
	epoch, err := e.Warm.Epoch(ctx)
	if err != nil {
		return "", tiering.Wrap(err, "order", tiering.Warm, tiering.Key{})
	}
	_, pos, err := e.Warm.FeedBounds(ctx)
	if err != nil {
		return "", tiering.Wrap(err, "order", tiering.Warm, tiering.Key{})
	}
	id = strings.ToLower(newULID(now).String())
	order := NewOrder(id, sel, epoch, pos, now)
	errs := e.Archive.WriteBoth(ctx, order.Name(), order.Encode())
	if err := errors.Join(errs[0], errs[1]); err != nil {
		e.withdraw(ctx, order)
		return "", &tiering.Error{Code: tiering.CodeUnavailable, Tier: tiering.Cold, Detail: "a bucket does not take the order: nothing was erased", Err: err}
	}
	if err := e.Warm.StartErase(ctx, warm.Erasure{ID: id, Selector: sel, Started: now}); err != nil {
		// An order that warm may know of stays.
		if _, known, lookErr := e.Warm.Erasure(context.WithoutCancel(ctx), id); lookErr == nil && !known {
			e.withdraw(ctx, order)
		}
		return "", tiering.Wrap(err, "order", tiering.Warm, tiering.Key{})
	}
	return id, nil
}

// newULID makes an id that sorts by t.
func newULID(t time.Time) ulid.ULID {
	id := ulid.Make() // its random part
	_ = id.SetTime(uint64(min(max(t.UnixMilli(), 0), int64(ulid.MaxTime()))))
	return id
}

// withdraw takes back an order that was not begun.
func (e *Engine) withdraw(ctx context.Context, o Order) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eraseWithin)
	defer cancel()
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		if err := e.Archive.Bucket(c).Delete(ctx, o.Name()); err != nil {
			e.Logger.Error("an erase order could not be withdrawn: a rebuild from this bucket would honour it", "order", o.ID, "copy", c, "err", err)
		}
	}
}

// Erasure returns the receipt of an erasure of the tenant.
func (e *Engine) Erasure(ctx context.Context, tenant, id string) (*tiering.EraseReceipt, error) {
	if err := tiering.ValidateID(id); err != nil {
		return nil, err
	}
	er, ok, err := e.Warm.Erasure(ctx, id)
	if err != nil {
		return nil, tiering.Wrap(err, "erase status", tiering.Warm, tiering.Key{})
	}
	if !ok || er.Selector.Tenant != tenant {
		return nil, tiering.Errorf(tiering.CodeNotFound, "there is no such receipt")
	}
	r := &tiering.EraseReceipt{
		ID: id, State: "running", Selector: kindOf(er.Selector), Keys: er.Keys, Versions: er.Versions, Bytes: er.Bytes,
		Segments: int64(len(er.Segments)), Started: er.Started, Finished: er.Done,
	}
	// The digest is the order's own. Where no bucket answers it is left out:
	// the rest of the receipt must not wait for them.
	if order, ok, err := e.readOrder(ctx, id); err == nil && ok {
		r.Selector, r.Digest = order.Kind, fmt.Sprintf("hmac-sha256:%x", order.Subject)
	}
	if !er.Done.IsZero() {
		r.State = "done"
		return r, nil
	}
	r.Blocked = e.blockedBy(id)
	return r, nil
}

// readOrder returns the order as it was first written, from either bucket; ok
// is false when both answered and neither has it.
func (e *Engine) readOrder(ctx context.Context, id string) (o Order, ok bool, err error) {
	var failed error
	for _, c := range []tiering.Copy{tiering.Primary, tiering.Backup} {
		data, err := e.Archive.Bucket(c).Read(ctx, Order{ID: id}.Name(), 0, -1)
		if errors.Is(err, cold.ErrNotExist) {
			continue
		}
		if err == nil {
			if o, err = DecodeOrder(data); err == nil {
				return o, true, nil
			}
		}
		failed = errors.Join(failed, tiering.Wrap(err, "read the erase order in "+c.String(), tiering.Cold, tiering.Key{}))
	}
	return Order{}, false, failed
}

// state returns what this process knows of an erasure under way.
func (e *Engine) state(id string) *erasing {
	e.erasures.mu.Lock()
	defer e.erasures.mu.Unlock()
	if e.erasures.m == nil {
		e.erasures.m = map[string]*erasing{}
	}
	s := e.erasures.m[id]
	if s == nil {
		s = &erasing{clean: map[string]bool{}, past: pasts{}}
		e.erasures.m[id] = s
	}
	return s
}

func (e *Engine) notBefore(s *erasing) time.Time {
	e.erasures.mu.Lock()
	defer e.erasures.mu.Unlock()
	return s.again
}

func (e *Engine) blockedBy(id string) string {
	e.erasures.mu.Lock()
	defer e.erasures.mu.Unlock()
	if s := e.erasures.m[id]; s != nil {
		return s.blocked
	}
	return ""
}

// settleErase notes how a try ended.
func (e *Engine) settleErase(id string, s *erasing, err error) {
	e.erasures.mu.Lock()
	defer e.erasures.mu.Unlock()
	if err == nil {
		delete(e.erasures.m, id)
		e.unpark(eraseLease, id)
		return
	}
	s.blocked = reason(err)
	s.attempts++
	s.again = time.Now().Add(min(firstBackoff<<min(s.attempts-1, 16), erasePause))
	e.park(eraseLease, id, s.attempts, err)
}

// reason says what an erasure waits for without naming anybody: details of
// damage name keys.
func reason(err error) string {
	var e *tiering.Error
	if errors.As(err, &e) && e.Code == tiering.CodeCorrupt {
		return strings.TrimPrefix(e.Op+": "+string(e.Code), ": ")
	}
	return tiering.Told(err)
}

// tryErase goes on with an erasure now, if this daemon is the one that may.
// How far it came is in the receipt.
func (e *Engine) tryErase(ctx context.Context, id string) {
	s := e.state(id)
	l, ok, err := e.Warm.Acquire(ctx, eraseLease, e.Holder, e.LeaseTTL)
	switch {
	case err != nil:
		e.settleErase(id, s, tiering.Wrap(err, "erase", tiering.Warm, tiering.Key{}))
		return
	case !ok:
		e.settleErase(id, s, tiering.Errorf(tiering.CodeLeaseHeld, "daemon %s goes on with it", l.Holder))
		return
	}
	if lockWithin(ctx, &e.erasures.running) != nil {
		e.settleErase(id, s, tiering.Errorf(tiering.CodeUnavailable, "another erasure comes first"))
		return
	}
	defer e.erasures.running.Unlock()
	err = e.runErase(warm.Under(ctx, l), l, id, s)
	if err != nil && errors.Is(context.Cause(ctx), errEraseTakesLong) {
		err = errEraseTakesLong
	}
	e.settleErase(id, s, err)
}

// errEraseTakesLong is an erasure that is not done while its caller may wait.
var errEraseTakesLong = tiering.Errorf(tiering.CodeUnavailable, "it takes longer than a caller may wait, and goes on")

// lockWithin locks m, unless ctx ends first.
func lockWithin(ctx context.Context, m *sync.Mutex) error {
	for !m.TryLock() {
		if !sleep(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// erase is the worker's step: it goes on with what is not done yet. An erasure
// that is blocked does not stop the others.
func (e *Engine) erase(ctx context.Context, l warm.Lease) (time.Duration, error) {
	all, err := e.Warm.Erasures(ctx)
	if err != nil {
		return 0, err
	}
	for _, er := range all {
		if err := lockWithin(ctx, &e.erasures.running); err != nil {
			return 0, err
		}
		s := e.state(er.ID)
		if !time.Now().Before(e.notBefore(s)) {
			e.settleErase(er.ID, s, e.runErase(ctx, l, er.ID, s))
		}
		e.erasures.running.Unlock()
	}
	if len(all) > 0 {
		return firstBackoff, nil
	}
	return eraseEvery, nil
}
