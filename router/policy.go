package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// policy is a namespace's policy with its schema compiled. known is false for
// a namespace that nobody created yet: it acts like the default.
type policy struct {
	tiering.Policy
	version int64
	known   bool
	schema  *jsonschema.Schema
	// fixed: warm knows that there are keys of this kind and class, though hot alone
	// holds them. It never becomes false.
	fixed *atomic.Bool
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
	e.Faults = faults("", broken, message.NewPrinter(language.English), nil)
	if len(e.Faults) > 0 {
		e.Pointer = e.Faults[0].Pointer
		e.Detail += ": " + e.Faults[0].Detail
	}
	return e
}

// change is a change of a key of the policy's namespace: it is refused where the
// namespace has become one of another kind or class since, and has no key yet.
func (p *policy) change(k tiering.Key, cond tiering.Condition, rows []warm.Row) warm.Change {
	c := warm.Change{Key: k, If: cond, Rows: rows}
	if p != nil && p.known {
		c.Kind, c.Class = p.Kind, p.Class
	}
	return c
}

// maxFaults bounds how many faults of one document are told.
const maxFaults = 50

// faults collects the leaves of a validation error: the places to mend, below
// the pointer under.
func faults(under string, e *jsonschema.ValidationError, words *message.Printer, out []tiering.Fault) []tiering.Fault {
	if len(e.Causes) == 0 && len(out) < maxFaults {
		return append(out, tiering.Fault{Pointer: under + pointer(e.InstanceLocation), Detail: neutral(e.ErrorKind.LocalizedString(words))})
	}
	for _, c := range e.Causes {
		out = faults(under, c, words, out)
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

// schemaURL is what a schema without an $id is called. It is absolute, because
// the compiler would put the daemon's working directory before any other.
const schemaURL = "tierd:///schema"

// neutral takes schemaURL out of a text.
func neutral(text string) string {
	for _, name := range []string{` in schema "` + schemaURL + `"`, ` in "` + schemaURL + `"`, schemaURL, "tierd:///"} {
		text = strings.ReplaceAll(text, name, "")
	}
	return text
}

// compileSchema compiles a JSON Schema 2020-12; nil for none.
func compileSchema(schema []byte) (*jsonschema.Schema, error) {
	if len(schema) == 0 || string(schema) == "null" {
		return nil, nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, badSchema(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noRemote{})
	if err := c.AddResource(schemaURL, v); err != nil {
		return nil, badSchema(err)
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, badSchema(err)
	}
	return s, nil
}

// badSchema says what is wrong with a schema, and where.
func badSchema(err error) error {
	const what = "not a JSON Schema 2020-12: "
	var elsewhere *jsonschema.LoadURLError
	if errors.As(err, &elsewhere) {
		return tiering.Unprocessablef("/schema", what+"it refers to %q: a schema may refer to itself only", neutral(elsewhere.URL))
	}
	e := tiering.Unprocessablef("/schema", what+"%s", neutral(err.Error()))
	var invalid *jsonschema.SchemaValidationError
	var broken *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &broken) {
		e.Faults = faults("/schema", broken, message.NewPrinter(language.English), nil)
	}
	if len(e.Faults) > 0 {
		e.Pointer, e.Detail = e.Faults[0].Pointer, what+e.Faults[0].Detail
	}
	return e
}

// policyCache keeps policies of namespaces in use, for at most PolicyTTL.
type policyCache struct {
	mu  sync.RWMutex
	m   map[tiering.Key]cachedPolicy
	gen uint64 // counts what was forgotten: what was read before is not kept
}

type cachedPolicy struct {
	*policy
	read    time.Time
	renewed *atomic.Bool // somebody has set out to read it again
}

// serves reports whether p may be used at now. At half of its age the one who asks
// first is to read it again: were it old to all at once, every writer would.
func (p cachedPolicy) serves(now time.Time, ttl time.Duration) bool {
	age := now.Sub(p.read)
	return age < ttl/2 || age < ttl && !p.renewed.CompareAndSwap(false, true)
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
	c.m[k] = cachedPolicy{p, now, new(atomic.Bool)}
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
	return &policy{Policy: tiering.Policy{Query: &no}.WithDefaults(), known: true, fixed: new(atomic.Bool)}
}

// policyOf returns the policy in force, at most PolicyTTL old. While warm is
// down, the last one known stays in force.
func (r *core) policyOf(ctx context.Context, tenant, ns string) (*policy, error) {
	if strings.HasPrefix(ns, "_") {
		return reservedPolicy(), nil
	}
	k := policyKey(tenant, ns)
	cached, ok, gen := r.policies.get(k)
	if ok && cached.serves(r.Clock(), r.PolicyTTL) {
		return cached.policy, nil
	}
	p, err := r.loadPolicy(ctx, k)
	if err != nil {
		if ok {
			return cached.policy, nil
		}
		return nil, err
	}
	if ok && cached.fixed.Load() && p.Kind == cached.Kind && p.Class == cached.Class {
		p.fixed.Store(true)
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
		return &policy{Policy: tiering.Policy{}.WithDefaults(), fixed: new(atomic.Bool)}, nil
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
		return &policy{Policy: tiering.Policy{Kind: p.Kind, Class: p.Class, Deleted: true}.WithDefaults(), version: version, fixed: new(atomic.Bool)}, nil
	}
	s, err := compileSchema(p.Schema)
	if err != nil {
		return nil, err
	}
	return &policy{Policy: p.WithDefaults(), version: version, known: true, schema: s, fixed: new(atomic.Bool)}, nil
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
