package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// Namespaces lists the tenant's namespaces in name order.
func (r *Router) Namespaces(ctx context.Context) ([]tiering.NamespaceInfo, error) {
	out, err := r.listNamespaces(ctx)
	return out, tiering.Wrap(err, "list namespaces", "", tiering.Key{})
}

func (r *Router) listNamespaces(ctx context.Context) ([]tiering.NamespaceInfo, error) {
	if err := r.allow(tiering.VerbRead, ""); err != nil {
		return nil, err
	}
	out := []tiering.NamespaceInfo{}
	l := warm.List{Tenant: r.who.Tenant, Namespace: tiering.PolicyNamespace, Limit: 1000, Bodies: true}
	for {
		page, err := r.Warm.List(ctx, l)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
		}
		for _, cur := range page {
			l.After = cur.Head.Key.ID
			p, err := parsePolicy(cur.Body, cur.Head.Version)
			if err != nil {
				return nil, err
			}
			if p.known && r.allow(tiering.VerbRead, l.After) == nil {
				out = append(out, tiering.NamespaceInfo{Name: l.After, Version: p.version, Policy: p.Policy})
			}
		}
		if len(page) < l.Limit {
			return out, nil
		}
	}
}

// Namespace returns one namespace with its policy in force.
func (r *Router) Namespace(ctx context.Context, ns string) (*tiering.NamespaceInfo, error) {
	n, err := r.namespace(ctx, ns)
	return n, tiering.Wrap(err, "get namespace", "", tiering.Key{Namespace: ns})
}

func (r *Router) namespace(ctx context.Context, ns string) (*tiering.NamespaceInfo, error) {
	if err := r.admitNamespace(tiering.VerbRead, ns); err != nil {
		return nil, err
	}
	p, err := r.loadPolicy(ctx, policyKey(r.who.Tenant, ns))
	if err != nil {
		return nil, err
	}
	if !p.known {
		return nil, tiering.Errorf(tiering.CodeNotFound, "namespace %q does not exist", ns)
	}
	state, err := r.queryIndexState(ctx, ns, p.Policy)
	if err != nil {
		return nil, err
	}
	return &tiering.NamespaceInfo{Name: ns, Version: p.version, Policy: p.Policy, QueryIndexState: state}, nil
}

// SetNamespace creates or replaces a policy. A kind or class left out stays as
// it is; once keys exist neither can change.
func (r *Router) SetNamespace(ctx context.Context, ns string, p tiering.Policy, o *tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	n, err := r.putNamespace(ctx, ns, p, orZero(o))
	return n, tiering.Wrap(err, "set namespace", "", tiering.Key{Namespace: ns})
}

func (r *Router) putNamespace(ctx context.Context, ns string, p tiering.Policy, o tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	if err := r.admitPolicy(ns, o); err != nil {
		return nil, err
	}
	sent, err := encodePolicy(p)
	if err != nil {
		return nil, err
	}
	return r.setNamespace(ctx, ns, p, o, asked("put", o, sent))
}

// admitPolicy checks a change of a policy. No lease stands over one.
func (r *Router) admitPolicy(ns string, o tiering.WriteOptions) error {
	if err := tiering.ValidateNamespace(ns); err != nil {
		return err
	}
	if o.Fence != nil {
		return tiering.Errorf(tiering.CodeUnsupported, "a policy is not written under a lease, so nothing was done: guard it by its version")
	}
	return r.admin()
}

// setNamespace stores p for a request of an admin.
func (r *Router) setNamespace(ctx context.Context, ns string, p tiering.Policy, o tiering.WriteOptions, request reservedRequest) (*tiering.NamespaceInfo, error) {
	standing, err := r.loadPolicy(ctx, policyKey(r.who.Tenant, ns))
	if err != nil {
		return nil, err
	}
	if p.Kind == "" {
		p.Kind = standing.Kind
	}
	if p.Class == "" {
		p.Class = standing.Class
	}
	if p.Kind == tiering.KindSession && !strings.HasPrefix(ns, tiering.OwnNamespaces) {
		return nil, tiering.Unprocessablef("/kind", "kind %s is of namespaces that tierd keeps sessions in: use state, log or memory", p.Kind)
	}
	p.Deleted = false
	if err := checkPolicy(p); err != nil {
		return nil, err
	}
	if err := r.fixClass(ctx, ns, p); err != nil {
		return nil, err
	}
	body, err := encodePolicy(p)
	if err != nil {
		return nil, err
	}
	if o.If.Absent() && !standing.known {
		o.If = tiering.IfVersion(standing.version) // a deleted namespace counts as absent
	}
	// Documents that an index does not know may follow as soon as the policy
	// stands. A daemon may begin it anew by the policy of before meanwhile.
	if standing.Indexed() && !p.Indexed() {
		if err := r.stopQueryIndex(ctx, ns); err != nil {
			return nil, err
		}
	}
	rc, err := r.writeReserved(ctx, policyKey(r.who.Tenant, ns), body, o.If, request)
	if err == nil && standing.Indexed() && !p.Indexed() {
		err = r.stopQueryIndex(ctx, ns)
	}
	if settled := r.settleClass(ctx, ns, p); err == nil {
		err = settled
	}
	if err != nil {
		return nil, err
	}
	info := &tiering.NamespaceInfo{Name: ns, Version: rc.Version, Policy: p.WithDefaults()}
	// The policy stands, whatever is heard of its index.
	info.QueryIndexState, _ = r.queryIndexState(ctx, ns, info.Policy)
	return info, nil
}

// queryIndexState says how far the index is that a policy asks for.
func (r *Router) queryIndexState(ctx context.Context, ns string, p tiering.Policy) (tiering.QueryIndexState, error) {
	store, ok := warm.As[warm.QueryIndexer](r.Warm)
	if !ok || !p.Indexed() {
		return "", nil
	}
	ready, err := store.QueryIndexed(ctx, r.who.Tenant, ns)
	switch {
	case err != nil:
		return "", tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	case ready:
		return tiering.QueryIndexReady, nil
	}
	return tiering.QueryIndexBuilding, nil
}

// stopQueryIndex keeps queries from an index of ns, where there is one.
func (r *Router) stopQueryIndex(ctx context.Context, ns string) error {
	store, ok := warm.As[warm.QueryIndexer](r.Warm)
	if !ok {
		return nil
	}
	return tiering.Wrap(store.StopQueryIndex(ctx, r.who.Tenant, ns), "", tiering.Warm, tiering.Key{})
}

// PatchNamespace applies a merge patch (RFC 7396) to a stored policy.
func (r *Router) PatchNamespace(ctx context.Context, ns string, patch []byte, o *tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	n, err := r.patchNamespace(ctx, ns, patch, orZero(o))
	return n, tiering.Wrap(err, "patch namespace", "", tiering.Key{Namespace: ns})
}

func (r *Router) patchNamespace(ctx context.Context, ns string, patch []byte, o tiering.WriteOptions) (*tiering.NamespaceInfo, error) {
	if err := r.admitPolicy(ns, o); err != nil {
		return nil, err
	}
	request := asked("patch", o, patch)
	cur, err := r.Warm.Load(ctx, policyKey(r.who.Tenant, ns))
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	body := cur.Body
	if cur.Head.Version == 0 || cur.Head.Op.Deleting() {
		body = nil
	}
	next, err := jsondoc.MergePatch(body, patch)
	if err != nil {
		return nil, err
	}
	p, err := DecodePolicy(next)
	if err != nil {
		return nil, err
	}
	if o.If.Unconditional() {
		o.If = tiering.IfVersion(cur.Head.Version) // what was patched must still stand
	}
	return r.setNamespace(ctx, ns, p, o, request)
}

// DeleteNamespace removes a namespace without live documents. Its name, kind
// and class are kept, and its versions go on from where they were.
func (r *Router) DeleteNamespace(ctx context.Context, ns string, o *tiering.WriteOptions) error {
	return tiering.Wrap(r.deleteNamespace(ctx, ns, orZero(o)), "delete namespace", "", tiering.Key{Namespace: ns})
}

func (r *Router) deleteNamespace(ctx context.Context, ns string, o tiering.WriteOptions) error {
	if err := r.admitPolicy(ns, o); err != nil {
		return err
	}
	p, err := r.loadPolicy(ctx, policyKey(r.who.Tenant, ns))
	if err != nil {
		return err
	}
	request := asked("delete", o, nil)
	if !p.known {
		missing := tiering.Errorf(tiering.CodeNotFound, "namespace %q does not exist", ns)
		if o.IdempotencyKey == "" {
			return missing
		}
		// Unless this very request deleted it: a write that cannot happen asks for that.
		_, err := r.writeReserved(ctx, policyKey(r.who.Tenant, ns), []byte("{}"), tiering.IfVersion(math.MaxInt64), request)
		if tiering.CodeOf(err) == tiering.CodeVersionConflict {
			return missing
		}
		return err
	}
	if !o.If.Holds(p.version) {
		return &tiering.Error{Code: tiering.CodeVersionConflict, CurrentVersion: p.version, Detail: "the policy has another version"}
	}
	dropped, err := r.Warm.DropNamespace(ctx, r.who.Tenant, ns)
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	if !dropped {
		return tiering.Errorf(tiering.CodeWrongKind, "namespace %q is not empty: delete its documents first", ns)
	}
	body, err := encodePolicy(tiering.Policy{Kind: p.Kind, Class: p.Class, Deleted: true})
	if err != nil {
		return err
	}
	_, err = r.writeReserved(ctx, policyKey(r.who.Tenant, ns), body, o.If, request)
	return err
}

// makeNamespace creates ns for a first write. version is that of a deleted
// namespace's policy, 0 for none. Losing the race to another maker is success.
func (r *Router) makeNamespace(ctx context.Context, ns string, p tiering.Policy, version int64) error {
	if err := r.fixClass(ctx, ns, p); err != nil {
		return err
	}
	body, err := encodePolicy(p)
	if err != nil {
		return err
	}
	_, err = r.writeReserved(ctx, policyKey(r.who.Tenant, ns), body, tiering.IfVersion(version), reservedRequest{})
	if tiering.CodeOf(err) == tiering.CodeVersionConflict {
		return r.settleClass(ctx, ns, p)
	}
	return err
}

// fixClass makes the namespace's row, and refuses a kind or class that its
// keys do not have.
func (r *Router) fixClass(ctx context.Context, ns string, p tiering.Policy) error {
	p = p.WithDefaults()
	n, err := r.Warm.EnsureNamespace(ctx, warm.Namespace{Tenant: r.who.Tenant, Name: ns, Kind: p.Kind, Class: p.Class})
	if err != nil {
		return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	if n.Kind != p.Kind || n.Class != p.Class {
		return tiering.Errorf(tiering.CodeWrongKind, "namespace %q holds %s %s documents: kind and class are fixed once keys exist", ns, n.Class, n.Kind)
	}
	return nil
}

// settleClass makes the namespace's row say what the policy that stands does, where that
// is another than p: p lost to it, or its request came again later. The row was made
// for p before p could be refused.
func (r *Router) settleClass(ctx context.Context, ns string, p tiering.Policy) error {
	standing, err := r.loadPolicy(ctx, policyKey(r.who.Tenant, ns))
	if err != nil || !standing.known || standing.Kind == p.Kind && standing.Class == p.Class {
		return err
	}
	_, err = r.Warm.EnsureNamespace(ctx, warm.Namespace{Tenant: r.who.Tenant, Name: ns, Kind: standing.Kind, Class: standing.Class})
	return tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
}

// reservedRequest is what an idempotency key of a write of one of tierd's own
// documents stands for: what the caller sent, and not what was made of it on what
// stood, which the second time is something else.
type reservedRequest struct {
	key, op string
	cond    tiering.Condition
	sent    []byte
}

func asked(op string, o tiering.WriteOptions, sent []byte) reservedRequest {
	return reservedRequest{o.IdempotencyKey, op, o.If, sent}
}

// writeReserved writes one of tierd's own documents.
func (r *Router) writeReserved(ctx context.Context, key tiering.Key, body []byte, cond tiering.Condition, request reservedRequest) (*tiering.Receipt, error) {
	defer r.policies.forget(key)
	m := &mutation{key: key, cond: request.cond, row: warm.Row{Op: tiering.OpPut, Body: body, Digest: tiering.DigestOf(body)}}
	r.nameRequest(m, request.key, "reserved "+request.op, request.sent)
	m.cond = cond
	return r.write(ctx, "put", reservedPolicy(), m)
}

func checkPolicy(p tiering.Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	schema, err := compileSchema(p.Schema)
	if err != nil || len(p.Default) == 0 {
		return err
	}
	doc, err := jsondoc.Compact(p.Default)
	if err != nil {
		return tiering.Unprocessablef("/default", "not a JSON document that tierd can keep: %s", tiering.DetailOf(err))
	}
	// Readers take a default for a document: it keeps what documents keep.
	if err := (&policy{Policy: p.WithDefaults(), schema: schema}).check(doc); err != nil {
		return defaultFault(err)
	}
	return nil
}

// defaultFault is a fault of a policy's default, as one of the policy.
func defaultFault(err error) error {
	e := tiering.Unprocessablef("/default", "the default is no document of the namespace: %s", tiering.DetailOf(err))
	var own *tiering.Error
	if errors.As(err, &own) {
		for _, f := range own.Faults {
			e.Faults = append(e.Faults, tiering.Fault{Pointer: "/default" + f.Pointer, Detail: f.Detail})
		}
	}
	return e
}

// DecodePolicy reads a policy that a caller sent, refusing unknown fields.
func DecodePolicy(body []byte) (tiering.Policy, error) {
	var p tiering.Policy
	if _, err := jsondoc.Compact(body); err != nil {
		return p, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, tiering.BodyFault(err)
	}
	return p, nil
}

func encodePolicy(p tiering.Policy) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, tiering.Invalidf("the policy cannot be written: %v", err)
	}
	return b, nil
}
