package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tierd/tierd/tiering"
)

// policy is a namespace's policy with its schema compiled. known is false for
// a namespace that nobody created yet: it acts like the default.
type policy struct {
	tiering.Policy
	version int64
	known   bool
	schema  *jsonschema.Schema
}

// check refuses a document that the policy does not allow.
func (p *policy) check(doc []byte) error {
	if int64(len(doc)) > p.MaxSize {
		return tiering.Errorf(tiering.CodeTooLarge, "the document is %d bytes long, the namespace allows %d", len(doc), p.MaxSize)
	}
	if p.schema == nil {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return tiering.Invalidf("the document cannot be read for its schema: %v", err)
	}
	var broken *jsonschema.ValidationError
	switch err := p.schema.Validate(v); {
	case err == nil:
		return nil
	case !errors.As(err, &broken):
		return tiering.Invalidf("the document cannot be checked against its schema: %v", err)
	}
	e := tiering.Unprocessablef("", "the document breaks the namespace's schema")
	e.Faults = faults(broken, nil)
	if len(e.Faults) > 0 {
		e.Pointer = e.Faults[0].Pointer
		e.Detail += ": " + e.Faults[0].Detail
	}
	return e
}

// maxFaults bounds how many faults of one document are told.
const maxFaults = 50

// faults collects the leaves of a validation error: the places to mend.
func faults(e *jsonschema.ValidationError, out []tiering.Fault) []tiering.Fault {
	if len(e.Causes) == 0 && len(out) < maxFaults {
		text := e.Error()
		if i := strings.LastIndex(text, "': "); i >= 0 {
			text = text[i+3:]
		}
		return append(out, tiering.Fault{Pointer: pointer(e.InstanceLocation), Detail: text})
	}
	for _, c := range e.Causes {
		out = faults(c, out)
	}
	return out
}

func pointer(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	return b.String()
}

// noRemote refuses schemas that refer to anything outside themselves.
type noRemote struct{}

func (noRemote) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema may refer to itself only", url)
}

// compileSchema compiles a JSON Schema 2020-12; nil for none.
func compileSchema(schema []byte) (*jsonschema.Schema, error) {
	if len(schema) == 0 || string(schema) == "null" {
		return nil, nil
	}
	bad := func(err error) error {
		return tiering.Unprocessablef("/schema", "not a JSON Schema 2020-12: %v", err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, bad(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noRemote{})
	const name = "policy-schema.json"
	if err := c.AddResource(name, v); err != nil {
		return nil, bad(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		return nil, bad(err)
	}
	return s, nil
}

// policyCache keeps policies of namespaces in use, for at most PolicyTTL.
type policyCache struct {
	mu  sync.RWMutex
	m   map[tiering.Key]cachedPolicy
	gen uint64 // counts what was forgotten: what was read before is not kept
}

type cachedPolicy struct {
	*policy
	read time.Time
}

// maxPolicies bounds the cache; over it, it starts anew.
const maxPolicies = 10_000

// get returns what is cached, and the generation to put what is read next.
func (c *policyCache) get(k tiering.Key) (p cachedPolicy, ok bool, gen uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p, ok = c.m[k]
	return p, ok, c.gen
}

func (c *policyCache) put(k tiering.Key, p *policy, now time.Time, gen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gen != c.gen {
		return // a policy was written since the read began: this may be the one before
	}
	if c.m == nil || len(c.m) >= maxPolicies {
		c.m = map[tiering.Key]cachedPolicy{}
	}
	c.m[k] = cachedPolicy{p, now}
}

func (c *policyCache) forget(k tiering.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, k)
	c.gen++
}

// forgetUnknown forgets that a namespace was not known.
func (c *policyCache) forgetUnknown(k tiering.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.m[k]; ok && !p.known {
		delete(c.m, k)
		c.gen++
	}
}

func policyKey(tenant, ns string) tiering.Key {
	return tiering.Key{Tenant: tenant, Namespace: tiering.PolicyNamespace, ID: ns}
}

// reservedPolicy is how tierd keeps its own documents.
func reservedPolicy() *policy {
	no := false
	return &policy{Policy: tiering.Policy{Query: &no}.WithDefaults(), known: true}
}

// policyOf returns the policy in force, at most PolicyTTL old. While warm is
// down, the last one known stays in force.
func (r *core) policyOf(ctx context.Context, tenant, ns string) (*policy, error) {
	if strings.HasPrefix(ns, "_") {
		return reservedPolicy(), nil
	}
	k := policyKey(tenant, ns)
	cached, ok, gen := r.policies.get(k)
	if ok && r.Clock().Sub(cached.read) < r.PolicyTTL {
		return cached.policy, nil
	}
	p, err := r.loadPolicy(ctx, k)
	if err != nil {
		if ok {
			return cached.policy, nil
		}
		return nil, err
	}
	r.policies.put(k, p, r.Clock(), gen)
	return p, nil
}

func (r *core) loadPolicy(ctx context.Context, k tiering.Key) (*policy, error) {
	got, err := r.load(ctx, k, reservedPolicy(), 0)
	if err != nil {
		return nil, err
	}
	if got.head.Version == 0 || got.head.Op.Deleting() {
		return &policy{Policy: tiering.Policy{}.WithDefaults()}, nil
	}
	return parsePolicy(got.body, got.head.Version)
}

// parsePolicy reads a stored policy. A deleted namespace's is not known, but
// keeps its kind and class.
func parsePolicy(body []byte, version int64) (*policy, error) {
	var p tiering.Policy
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Err: err, Detail: "a stored policy cannot be read"}
	}
	if p.Deleted {
		return &policy{Policy: tiering.Policy{Kind: p.Kind, Class: p.Class, Deleted: true}.WithDefaults(), version: version}, nil
	}
	s, err := compileSchema(p.Schema)
	if err != nil {
		return nil, err
	}
	return &policy{Policy: p.WithDefaults(), version: version, known: true, schema: s}, nil
}

// policyForWrite is policyOf, and makes the namespace if nobody did.
func (r *Router) policyForWrite(ctx context.Context, ns string) (*policy, error) {
	p, err := r.policyOf(ctx, r.who.Tenant, ns)
	if err != nil || p.known {
		return p, err
	}
	if r.NoAutoCreate {
		return nil, tiering.Errorf(tiering.CodeNotFound, "namespace %q does not exist: create it with PUT /v1/namespaces/%s", ns, ns)
	}
	if err := r.makeNamespace(ctx, ns, tiering.Policy{Kind: p.Kind, Class: p.Class}, p.version); err != nil {
		return nil, err
	}
	return r.policyOf(ctx, r.who.Tenant, ns)
}
