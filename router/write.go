package router

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// write takes one mutation through the tiers, with those that share its batch:
// pending in hot, committed in warm, set in hot. The commit is the moment it
// happens.
func (r *Router) write(ctx context.Context, op string, p *policy, m *mutation) (*tiering.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, end := r.Recorder.Commit(ctx, op, m.key)
	rc, err := r.commit(ctx, p, m)
	var version int64
	var from, to string
	if err == nil { // else the commit may still be under way
		version = rc.Version
		from, to = m.states(p)
	}
	end(version, from, to, err)
	return rc, err
}

func (r *Router) commit(ctx context.Context, p *policy, m *mutation) (*tiering.Receipt, error) {
	for tries := 0; ; tries++ {
		if err := r.once(ctx, p, m); err != nil {
			return nil, err
		}
		switch {
		case errors.Is(m.err, errBaseInCold) && tries < 10:
			cur, err := r.load(ctx, m.key, p, 0)
			if err != nil {
				return nil, err
			}
			m.hint = cur.base()
		case m.err != nil:
			return nil, tiering.Wrap(m.err, "", tiering.Warm, m.key)
		case m.result.Status == warm.NoNamespace && tries < 3:
			r.policies.forget(policyKey(m.key.Tenant, m.key.Namespace))
			if err := r.reviveNamespace(ctx, m.key.Namespace, p); err != nil {
				return nil, err
			}
		default:
			return r.receipt(ctx, p, m, m.hotOK)
		}
		m.over, m.doubt = nil, nil
	}
}

// reviveNamespace makes the row of a namespace that warm does not know, though
// its policy may be there. It fails for one that is not any more what the writer took
// it for.
func (r *Router) reviveNamespace(ctx context.Context, ns string, as *policy) error {
	p, err := r.policyForWrite(ctx, ns)
	switch {
	case err != nil:
		return err
	case as.known && p.Kind != as.Kind:
		return wrongKind(ns, p.Kind, as.Kind)
	case as.known && p.Class != as.Class:
		return tiering.Errorf(tiering.CodeWrongKind, "namespace %q is %s by now, and was %s: try again", ns, p.Class, as.Class)
	}
	return r.fixClass(ctx, ns, p.Policy)
}

// once sends m through one commit. The caller may leave early, with the
// context's error or because warm went away: the commit goes on, and hot is
// settled behind it.
func (r *core) once(ctx context.Context, p *policy, m *mutation) error {
	if err := r.open(); err != nil {
		return err
	}
	if r.warmAway() {
		return errAway()
	}
	m.policy = p
	m.begin()
	if m.fence != nil {
		return r.onceFenced(ctx, p, m)
	}
	if err := r.queue.submit(m); err != nil {
		return err
	}
	select {
	case <-m.over:
		return m.doubt
	case <-ctx.Done():
		return ctx.Err()
	}
}

// onHot runs one call to hot under its own bound, whether or not the caller
// still waits: a mark that was made has to be settled.
func (r *core) onHot(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := r.hotBound(context.WithoutCancel(ctx))
	defer cancel()
	return call(ctx)
}

// hotBound is ctx for as long as a call to hot may take.
func (r *core) hotBound(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.HotTimeout < 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.HotTimeout)
}

// look asks hot, for as long as a call to hot may take.
func (r *core) look(ctx context.Context, key tiering.Key, lease bool) (hot.Lookup, error) {
	ctx, cancel := r.hotBound(ctx)
	defer cancel()
	return r.Hot.Get(ctx, key, lease)
}

// hotLife is how long hot may serve a document read at now on warm's clock.
func hotLife(p *policy, h warm.Head, now time.Time) time.Duration {
	life := p.HotTTL.Std()
	if !h.ExpiresAt.IsZero() && !h.Pinned {
		life = min(life, h.ExpiresAt.Sub(now))
	}
	return life
}

// states are what stood under the policy's status pointer before and after.
func (m *mutation) states(p *policy) (from, to string) {
	if p.StatusPointer == "" || m.row.Op != tiering.OpPut {
		return "", ""
	}
	state := func(doc []byte) string {
		v, err := jsondoc.Lookup(doc, p.StatusPointer)
		if err != nil {
			return ""
		}
		return string(v)
	}
	if m.before != nil {
		from = state(m.before)
	}
	return from, state(m.row.Body)
}

// receipt turns the outcome of a commit into the caller's answer.
func (r *Router) receipt(ctx context.Context, p *policy, m *mutation, hotOK bool) (*tiering.Receipt, error) {
	res := m.result
	switch res.Status {
	case warm.Done, warm.NoChange, warm.Replayed:
		rc := &tiering.Receipt{Meta: res.Head.Meta(), Hot: hotOK, Created: res.Created, Replayed: res.Status == warm.Replayed}
		rc.Namespace, rc.ID = m.key.Namespace, m.key.ID
		if rc.Replayed && res.Head.Key.ID != "" {
			rc.ID = res.Head.Key.ID // the first try may have found it another id
		}
		if m.row.Op == tiering.OpPut && res.Status == warm.Done {
			warned := p.known && rc.Size >= p.WarnSize()
			if warned {
				rc.Warnings = append(rc.Warnings, "size")
			}
			r.Recorder.StateSize(rc.Size, warned)
		}
		return rc, nil
	case warm.Conflict:
		return nil, r.conflict(ctx, m)
	case warm.UserFixed:
		return nil, r.foreign()
	case warm.Mismatch:
		return nil, tiering.Errorf(tiering.CodeIdempotencyMismatch, "this Idempotency-Key came with another request before")
	case warm.NoNamespace:
		return nil, tiering.Errorf(tiering.CodeNotFound, "namespace %q does not exist", m.key.Namespace)
	case warm.Refused:
		return nil, &tiering.Error{Code: tiering.CodeInvalid, Unprocessable: true, Tier: tiering.Warm, Err: res.Err, Detail: "the database refused the document"}
	}
	return nil, tiering.Errorf(tiering.CodeUnavailable, "the write was not settled: try again")
}

func (r *Router) conflict(ctx context.Context, m *mutation) error {
	none := tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
	if m.cond.Unconditional() {
		return none
	}
	now, err := r.Warm.Now(ctx)
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, m.key)
	}
	e := &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: m.result.Head.Standing(now)}
	if m.foreign(e.CurrentVersion, m.result.Head.User) {
		return errForeign()
	}
	switch {
	case !m.row.Op.Versioned() && e.CurrentVersion == 0 && m.cond.Absent(): // a touch of nothing
		return none
	case m.cond.Absent():
		e.Detail = "the key exists"
	case e.CurrentVersion == 0:
		e.Detail = "nothing stands under the key"
	default:
		e.Detail = "another version stands: read it and try again"
	}
	return e
}

// nameRequest gives m its idempotency key, over everything that makes the
// request what it is.
func (r *Router) nameRequest(m *mutation, key, op string, parts ...[]byte) {
	if key == "" {
		return
	}
	m.idem = idemName{r.who.Tenant, key}
	m.row.Idempotency = &warm.Idempotency{Tenant: r.who.Tenant, Key: key, Hash: requestHash(op, m, parts)}
}

func requestHash(op string, m *mutation, parts [][]byte) tiering.Digest {
	h := sha256.New()
	add := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	add([]byte(op))
	add([]byte(m.key.Namespace))
	add([]byte(m.key.ID))
	add([]byte(m.cond.String()))
	add([]byte(m.row.User))
	if m.row.Expiry.TTL != nil {
		add([]byte(m.row.Expiry.TTL.String()))
	}
	for _, p := range parts {
		add(p)
	}
	return tiering.Digest(h.Sum(nil))
}

func orZero[T any](o *T) T {
	if o == nil {
		var zero T
		return zero
	}
	return *o
}
