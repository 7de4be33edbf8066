package router

import (
	"context"
	"encoding/json"

	"github.com/tierd/tierd/internal/failpoint"
	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Put stores body as the next version of the key.
func (r *Router) Put(ctx context.Context, ns, id string, body []byte, o *tiering.PutOptions) (*tiering.Receipt, error) {
	rc, err := r.put(ctx, ns, id, body, orZero(o))
	return rc, tiering.Wrap(err, "put", "", r.key(ns, id))
}

func (r *Router) put(ctx context.Context, ns, id string, body []byte, o tiering.PutOptions) (*tiering.Receipt, error) {
	return r.putAsked(ctx, ns, id, body, o, putRequest{id: id})
}

// putRequest is what a put's idempotency key stands for besides the document: the id that
// the caller asked for, "" where it left that to the node.
type putRequest struct {
	id string
	// only asks for the result of an earlier try, and puts nothing: errNoTry where
	// there was none.
	only bool
}

func errNoTry() error {
	return tiering.Errorf(tiering.CodeVersionConflict, "no request came with this Idempotency-Key before")
}

func (r *Router) putAsked(ctx context.Context, ns, id string, body []byte, o tiering.PutOptions, asked putRequest) (*tiering.Receipt, error) {
	doc, err := jsondoc.Compact(body)
	if err != nil {
		return nil, err
	}
	p, m, err := r.mutation(ctx, tiering.VerbWrite, ns, id, o.WriteOptions, o.User)
	if err != nil {
		return nil, err
	}
	if err := r.setBody(ctx, p, &m.row, doc); err != nil {
		return nil, err
	}
	if !p.Durable() {
		return r.swap(ctx, p, m, func(base) ([]byte, error) { return doc, nil })
	}
	m.key.ID = asked.id
	r.nameRequest(m, o.IdempotencyKey, "put", doc)
	m.key.ID = id
	if asked.only {
		m.probe, m.probeErr = true, errNoTry()
	}
	return r.write(ctx, "put", p, m)
}

// mutation makes what all writes of one key share: the checks, the condition,
// the owner and the expiry. also are kinds that the
// namespace may hold, besides documents and memories.
func (r *Router) mutation(ctx context.Context, verb tiering.Verb, ns, id string, o tiering.WriteOptions, user string, also ...tiering.Kind) (*policy, *mutation, error) {
	key, err := r.admit(verb, ns, id)
	if err != nil {
		return nil, nil, err
	}
	owner, err := r.ownerOf(user)
	if err != nil {
		return nil, nil, err
	}
	if err := checkIdempotencyKey(o.IdempotencyKey); err != nil {
		return nil, nil, err
	}
	p, err := r.policyForWrite(ctx, ns)
	if err != nil {
		return nil, nil, err
	}
	if err := p.mustHold(ns, also); err != nil {
		return nil, nil, err
	}
	if p.RequireVersion && o.If.Unconditional() {
		return nil, nil, tiering.Errorf(tiering.CodePreconditionRequired, "namespace %q asks for If-Match or If-None-Match on every write", ns)
	}
	if !p.Durable() && (owner != "" || o.IdempotencyKey != "" || o.Fence != nil) {
		return nil, nil, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: user, Idempotency-Key and Tierd-Fence need a durable class", ns)
	}
	if err := checkFence(o.Fence); err != nil {
		return nil, nil, err
	}
	m := &mutation{key: key, cond: o.If, fence: o.Fence, blind: r.blind(ns), limit: r.who.Scope.User, row: warm.Row{
		Op: tiering.OpPut, User: owner, Query: *p.Query,
		Expiry: warm.Expiry{TTL: o.TTL, New: p.TTL.Std(), Slide: p.Sliding()},
	}}
	if failpoint.Skips(failpoint.VersionCheck) {
		m.cond = tiering.Condition{}
	}
	return p, m, nil
}

// setBody puts doc into row, if the policy allows it, with what the index knows
// of a memory. It computes only.
func (r *core) setBody(ctx context.Context, p *policy, row *warm.Row, doc []byte) error {
	if err := p.check(doc); err != nil {
		return err
	}
	row.Body, row.Digest = doc, tiering.DigestOf(doc)
	if p.Kind != tiering.KindMemory {
		return nil
	}
	if r.Memories.Entries == nil {
		return tiering.Errorf(tiering.CodeUnsupported, "this node keeps no memories")
	}
	var err error
	row.Memory, err = r.Memories.Entries.Make(ctx, doc)
	return err
}

func checkIdempotencyKey(k string) error {
	if len(k) > 255 {
		return tiering.Invalidf("Idempotency-Key is %d bytes long: use 1 to 255", len(k))
	}
	for i := range len(k) {
		if k[i] < 0x21 || k[i] > 0x7e {
			return tiering.Invalidf("Idempotency-Key: byte %d is not a printable ASCII character", i)
		}
	}
	return nil
}

// Delete leaves a tombstone. Deleting what is not there succeeds, unless a
// condition asks for something to stand.
func (r *Router) Delete(ctx context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	rc, err := r.delete(ctx, ns, id, orZero(o))
	return rc, tiering.Wrap(err, "delete", "", r.key(ns, id))
}

func (r *Router) delete(ctx context.Context, ns, id string, o tiering.WriteOptions) (*tiering.Receipt, error) {
	if _, err := r.admit(tiering.VerbDelete, ns, id); err != nil {
		return nil, err
	}
	known, err := r.namespaceKnown(ctx, ns)
	switch {
	case err != nil:
		return nil, err
	case !known && o.If.Holds(0):
		return &tiering.Receipt{Meta: tiering.Meta{Namespace: ns, ID: id}}, nil
	case !known:
		return nil, &tiering.Error{Code: tiering.CodeVersionConflict, Detail: "nothing stands under the key"}
	}
	p, m, err := r.mutation(ctx, tiering.VerbDelete, ns, id, o, "", tiering.KindLog)
	if err != nil {
		return nil, err
	}
	if !p.Durable() {
		return r.swap(ctx, p, m, func(base) ([]byte, error) { return nil, nil })
	}
	m.row.Op, m.row.Expiry = tiering.OpDelete, warm.Expiry{}
	r.nameRequest(m, o.IdempotencyKey, "delete")
	return r.write(ctx, "delete", p, m)
}

// namespaceKnown keeps a delete from creating a namespace. That one is not
// known has to be true now: a delete that finds nothing to do is acknowledged.
func (r *Router) namespaceKnown(ctx context.Context, ns string) (bool, error) {
	p, err := r.policyOf(ctx, r.who.Tenant, ns)
	if err == nil && !p.known {
		p, err = r.loadPolicy(ctx, policyKey(r.who.Tenant, ns))
	}
	if err != nil {
		return false, err
	}
	if p.known {
		r.policies.forgetUnknown(policyKey(r.who.Tenant, ns))
	}
	return p.known, nil
}

// Patch applies a merge patch or a JSON patch, under compare-and-set.
func (r *Router) Patch(ctx context.Context, ns, id string, kind tiering.PatchKind, patch []byte, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	rc, err := r.patch(ctx, ns, id, kind, patch, orZero(o))
	return rc, tiering.Wrap(err, "patch", "", r.key(ns, id))
}

func (r *Router) patch(ctx context.Context, ns, id string, kind tiering.PatchKind, patch []byte, o tiering.WriteOptions) (*tiering.Receipt, error) {
	apply, err := patcher(kind, patch)
	if err != nil {
		return nil, err
	}
	if err := r.sightless(ns, kind, patch); err != nil {
		return nil, err
	}
	p, m, err := r.mutation(ctx, tiering.VerbWrite, ns, id, o, "")
	if err != nil {
		return nil, err
	}
	r.nameRequest(m, o.IdempotencyKey, "patch", []byte(kind), patch)
	return r.compute(ctx, "patch", p, m, apply)
}

// patcher returns the function that applies patch to what stands; an absent
// document is nil.
func patcher(kind tiering.PatchKind, patch []byte) (func(base) ([]byte, error), error) {
	patch, err := jsondoc.Compact(patch)
	if err != nil {
		return nil, err
	}
	switch kind {
	case tiering.MergePatch:
		return func(b base) ([]byte, error) { return jsondoc.MergeCompact(b.body, patch) }, nil
	case tiering.JSONPatch:
		return func(b base) ([]byte, error) {
			if b.version == 0 {
				return nil, tiering.Errorf(tiering.CodeNotFound, "a JSON patch needs a document to apply to")
			}
			return jsondoc.JSONPatch(b.body, patch)
		}, nil
	}
	return nil, tiering.Invalidf("patch type %q: use %s or %s", kind, tiering.MergePatch, tiering.JSONPatch)
}

// Apply runs edit operations, creating what is missing, and answers the new
// values.
func (r *Router) Apply(ctx context.Context, ns, id string, ops []tiering.EditOp, o *tiering.WriteOptions) (*tiering.Edited, error) {
	e, err := r.apply(ctx, ns, id, ops, orZero(o))
	return e, tiering.Wrap(err, "edit", "", r.key(ns, id))
}

func (r *Router) apply(ctx context.Context, ns, id string, ops []tiering.EditOp, o tiering.WriteOptions) (*tiering.Edited, error) {
	if err := jsondoc.ValidateEdit(ops); err != nil {
		return nil, err
	}
	p, m, err := r.mutation(ctx, tiering.VerbWrite, ns, id, o, "")
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(ops)
	if err != nil {
		return nil, tiering.Invalidf("the operations cannot be read: %v", err)
	}
	r.nameRequest(m, o.IdempotencyKey, "edit", asked)
	out := &tiering.Edited{}
	rc, err := r.compute(ctx, "edit", p, m, func(b base) ([]byte, error) {
		next, values, err := jsondoc.Edit(b.body, ops)
		out.Values = values
		if err == nil && m.row.Idempotency != nil {
			m.row.Idempotency.Answer, err = json.Marshal(values)
		}
		return next, err
	})
	if err != nil {
		return nil, err
	}
	out.Receipt = *rc
	if rc.Replayed {
		if err := json.Unmarshal(m.result.Answer, &out.Values); err != nil {
			return nil, &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Err: err, Detail: "the stored answer cannot be read"}
		}
	}
	if m.blind {
		out.Values = nil
	}
	return out, nil
}

// compute writes what next makes of the document that stands.
func (r *Router) compute(ctx context.Context, op string, p *policy, m *mutation, next func(base) ([]byte, error)) (*tiering.Receipt, error) {
	if !p.Durable() {
		return r.swap(ctx, p, m, next)
	}
	m.hint = r.peek(ctx, m.key)
	m.eval = func(b base) (warm.Row, error) {
		if b.version != 0 && m.row.User != "" && m.row.User != b.user {
			return warm.Row{}, r.foreign() // and what next would say of it is not theirs to know
		}
		doc, err := next(b)
		row := m.row
		if err == nil {
			err = r.setBody(ctx, p, &row, doc)
		}
		return row, m.told(err)
	}
	return r.write(ctx, op, p, m)
}

// peek looks for a base in hot. A wrong guess costs one more round, nothing else.
func (r *core) peek(ctx context.Context, key tiering.Key) *base {
	l, err := r.lookDurable(ctx, key, false)
	if err != nil || !r.sound(l) {
		return nil
	}
	return &base{version: l.Entry.Meta.Version, body: l.Entry.Body, user: l.Entry.Meta.User}
}

// Touch moves the expiry of a standing document.
func (r *Router) Touch(ctx context.Context, ns, id string, o *tiering.TouchOptions) (*tiering.Receipt, error) {
	opt := orZero(o)
	rc, err := r.mark(ctx, ns, id, "touch", opt.WriteOptions, func(row *warm.Row) {
		row.Op, row.Exact = tiering.OpTouch, opt.Exact
	})
	return rc, tiering.Wrap(err, "touch", "", r.key(ns, id))
}

// Pin keeps a document from being demoted, expired or collected; pinned false
// lifts it.
func (r *Router) Pin(ctx context.Context, ns, id string, pinned bool, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	op := tiering.OpUnpin
	if pinned {
		op = tiering.OpPin
	}
	opt := orZero(o)
	opt.TTL = nil
	rc, err := r.mark(ctx, ns, id, op.String(), opt, func(row *warm.Row) { row.Op = op })
	return rc, tiering.Wrap(err, op.String(), "", r.key(ns, id))
}

// mark changes a head without making a version.
func (r *Router) mark(ctx context.Context, ns, id, op string, o tiering.WriteOptions, shape func(*warm.Row)) (*tiering.Receipt, error) {
	if _, err := r.admit(tiering.VerbWrite, ns, id); err != nil {
		return nil, err
	}
	if known, err := r.namespaceKnown(ctx, ns); err != nil || !known {
		return nil, orNotFound(err)
	}
	required := o
	if o.If.Unconditional() {
		required.If = tiering.IfExists() // a touch or pin changes no content: require_version does not bind it
	}
	p, m, err := r.mutation(ctx, tiering.VerbWrite, ns, id, required, "", tiering.KindLog)
	if err != nil {
		return nil, err
	}
	if !p.Durable() {
		return nil, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it has no %s", ns, op)
	}
	m.cond = o.If
	shape(&m.row)
	exact := []byte{0}
	if m.row.Exact {
		exact[0] = 1
	}
	r.nameRequest(m, o.IdempotencyKey, op, exact)
	return r.write(ctx, op, p, m)
}

func orNotFound(err error) error {
	if err != nil {
		return err
	}
	return tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
}

// Rollback makes a new version with the content of an old one. Undelete is
// allowed.
func (r *Router) Rollback(ctx context.Context, ns, id string, version int64, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	rc, err := r.rollback(ctx, ns, id, version, orZero(o))
	return rc, tiering.Wrap(err, "rollback", "", r.key(ns, id))
}

func (r *Router) rollback(ctx context.Context, ns, id string, version int64, o tiering.WriteOptions) (*tiering.Receipt, error) {
	key, err := r.admit(tiering.VerbWrite, ns, id)
	if err != nil {
		return nil, err
	}
	if version <= 0 {
		return nil, tiering.Unprocessablef("/version", "version %d: use a version of the document", version)
	}
	if known, err := r.namespaceKnown(ctx, ns); err != nil || !known {
		return nil, orNotFound(err)
	}
	p, m, err := r.mutation(ctx, tiering.VerbWrite, ns, id, o, "")
	if err != nil {
		return nil, err
	}
	if !p.Durable() {
		return nil, tiering.Errorf(tiering.CodeUnsupported, "namespace %q is ephemeral: it has no history", ns)
	}
	v, err := r.ownVersion(ctx, key, version)
	if err != nil {
		return nil, err
	}
	if v.op.Deleting() {
		return nil, tiering.Unprocessablef("/version", "version %d is a deletion: delete the document instead", version)
	}
	if err := r.setBody(ctx, p, &m.row, v.body); err != nil {
		return nil, err
	}
	// Named before the owner is looked up: a retry finds the document standing.
	r.nameRequest(m, o.IdempotencyKey, "rollback", []byte(tiering.IfVersion(version).String()))
	// Under the owner that the version had: another one's standing document is
	// not given it.
	if m.row.User == "" {
		m.row.User = v.user
	}
	return r.write(ctx, "rollback", p, m)
}
