package router

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/json"
	"strings"
	"sync"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// An API key is tierd_<id>_<secret>_<tenant>: the id finds the stored hash, the
// secret (256 random bits) proves the caller, the tenant says where to look. A
// secret that random needs no slow hash: guessing it is hopeless, and SHA-256
// keeps a stolen database useless.
const keyPrefix = "tierd_"

// storedKey is an API key as it lies in its reserved namespace.
type storedKey struct {
	tiering.APIKey
	Hash tiering.Digest `json:"hash"` // of the secret
}

var keyEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// randomText returns n random bytes in lower-case base32.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: the runtime ends the process instead
	return strings.ToLower(keyEncoding.EncodeToString(b))
}

func apiKeyKey(tenant, id string) tiering.Key {
	return tiering.Key{Tenant: tenant, Namespace: tiering.APIKeyNamespace, ID: id}
}

// CreateKey makes an API key of the tenant. The secret is in the answer alone.
func (r *Router) CreateKey(ctx context.Context, k tiering.APIKey) (*tiering.APIKey, error) {
	out, err := r.createKey(ctx, k)
	return out, tiering.Wrap(err, "create key", "", tiering.Key{})
}

func (r *Router) createKey(ctx context.Context, k tiering.APIKey) (*tiering.APIKey, error) {
	if err := r.admin(); err != nil {
		return nil, err
	}
	if err := checkScope(k.Scope); err != nil {
		return nil, err
	}
	if len(k.Name) > 256 {
		return nil, tiering.Unprocessablef("/name", "name is %d bytes long: use at most 256", len(k.Name))
	}
	now, err := r.Warm.Now(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	if !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now) {
		return nil, tiering.Unprocessablef("/expires_at", "expires_at has passed")
	}
	secret := randomText(32)
	k.ID, k.Tenant, k.CreatedAt, k.Secret = randomText(10), r.who.Tenant, now.UTC(), ""
	body, err := json.Marshal(storedKey{APIKey: k, Hash: sha256.Sum256([]byte(secret))})
	if err != nil {
		return nil, tiering.Invalidf("the key cannot be written: %v", err)
	}
	if _, err := r.writeReserved(ctx, apiKeyKey(k.Tenant, k.ID), body, tiering.IfAbsent(), reservedRequest{}); err != nil {
		return nil, err
	}
	k.Secret = keyPrefix + k.ID + "_" + secret + "_" + k.Tenant
	return &k, nil
}

func checkScope(s tiering.Scope) error {
	// Who names no verb means none, and must not get them all.
	for _, l := range []struct {
		name  string
		empty bool
	}{
		{"verbs", s.Verbs != nil && len(s.Verbs) == 0}, {"namespaces", s.Namespaces != nil && len(s.Namespaces) == 0},
		{"prefixes", s.Prefixes != nil && len(s.Prefixes) == 0},
	} {
		if l.empty {
			return tiering.Unprocessablef("/scope/"+l.name, "%s is an empty list: name some, or leave it out for no limit", l.name)
		}
	}
	for _, v := range s.Verbs {
		switch v {
		case tiering.VerbRead, tiering.VerbWrite, tiering.VerbDelete, tiering.VerbAdmin, tiering.VerbMetrics:
		default:
			return tiering.Unprocessablef("/scope/verbs", "unknown verb %q: use read, write, delete, admin or metrics", v)
		}
	}
	for _, ns := range s.Namespaces {
		if err := tiering.ValidateNamespace(ns); err != nil {
			return tiering.Unprocessablef("/scope/namespaces", "%s", tiering.DetailOf(err))
		}
	}
	for _, p := range s.Prefixes {
		if p == "" || len(p) > tiering.MaxIDLength {
			return tiering.Unprocessablef("/scope/prefixes", "a prefix is 1 to %d bytes long", tiering.MaxIDLength)
		}
	}
	if s.User != "" {
		if err := tiering.ValidateOwner("user", s.User); err != nil {
			return tiering.Unprocessablef("/scope/user", "%s", tiering.DetailOf(err))
		}
	}
	return nil
}

// APIKeys lists the tenant's keys, without secrets.
func (r *Router) APIKeys(ctx context.Context) ([]tiering.APIKey, error) {
	out, err := r.listKeys(ctx)
	return out, tiering.Wrap(err, "list keys", "", tiering.Key{})
}

func (r *Router) listKeys(ctx context.Context) ([]tiering.APIKey, error) {
	if err := r.admin(); err != nil {
		return nil, err
	}
	out := []tiering.APIKey{}
	l := warm.List{Tenant: r.who.Tenant, Namespace: tiering.APIKeyNamespace, Limit: maxLimit, Bodies: true}
	for {
		page, err := r.Warm.List(ctx, l)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
		}
		for _, cur := range page {
			k, err := parseKey(cur.Body)
			if err != nil {
				return nil, err
			}
			out = append(out, k.APIKey)
			l.After = cur.Head.Key.ID
		}
		if len(page) < l.Limit {
			return out, nil
		}
	}
}

func parseKey(body []byte) (storedKey, error) {
	var k storedKey
	if err := json.Unmarshal(body, &k); err != nil {
		return k, &tiering.Error{Code: tiering.CodeCorrupt, Tier: tiering.Warm, Err: err, Detail: "a stored API key cannot be read"}
	}
	return k, nil
}

// RevokeKey ends a key at once.
func (r *Router) RevokeKey(ctx context.Context, id string) error {
	return tiering.Wrap(r.revokeKey(ctx, id), "revoke key", "", tiering.Key{})
}

func (r *Router) revokeKey(ctx context.Context, id string) error {
	if err := r.admin(); err != nil {
		return err
	}
	if err := tiering.ValidateID(id); err != nil {
		return err
	}
	m := &mutation{key: apiKeyKey(r.who.Tenant, id), cond: tiering.IfExists(), row: warm.Row{Op: tiering.OpDelete}}
	_, err := r.write(ctx, "delete", reservedPolicy(), m)
	if tiering.CodeOf(err) == tiering.CodeVersionConflict {
		return tiering.Errorf(tiering.CodeNotFound, "there is no API key %q", id)
	}
	return err
}

func errWrongKey() error {
	return tiering.Errorf(tiering.CodeUnauthenticated, "the API key is not valid")
}

// parsedKeys keeps API keys in use as they were parsed, by the digest of their
// documents: the document itself is looked up for every request, so that a key that was
// revoked or replaced is not found here.
type parsedKeys struct {
	mu sync.RWMutex
	m  map[tiering.Digest]storedKey
}

// maxParsedKeys bounds them; over it, they start anew.
const maxParsedKeys = 10_000

func (c *parsedKeys) parse(d *tiering.Document) (storedKey, error) {
	c.mu.RLock()
	k, ok := c.m[d.Digest]
	c.mu.RUnlock()
	if ok {
		return k, nil
	}
	k, err := parseKey(d.Body)
	if err != nil {
		return k, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxParsedKeys {
		c.m = map[tiering.Digest]storedKey{}
	}
	c.m[d.Digest] = k
	return k, nil
}

// Authenticate returns who holds secret. Every way of being wrong is the same
// unauthenticated error.
func (r *Router) Authenticate(ctx context.Context, secret string) (tiering.Principal, error) {
	rest, ok := strings.CutPrefix(secret, keyPrefix)
	id, rest, more := strings.Cut(rest, "_")
	text, tenant, whole := strings.Cut(rest, "_")
	if !ok || !more || !whole || tiering.ValidateTenant(tenant) != nil || tiering.ValidateID(id) != nil {
		return tiering.Principal{}, errWrongKey()
	}
	proof := sha256.Sum256([]byte(text))
	d, err := r.cached(ctx, apiKeyKey(tenant, id), r.keyPolicy, 0)
	if err != nil && tiering.CodeOf(err) != tiering.CodeNotFound {
		return tiering.Principal{}, tiering.Wrap(err, "authenticate", tiering.Warm, tiering.Key{})
	}
	var k storedKey
	if err == nil {
		if k, err = r.apiKeys.parse(d); err != nil {
			return tiering.Principal{}, err
		}
	}
	if subtle.ConstantTimeCompare(proof[:], k.Hash[:]) != 1 || d == nil {
		return tiering.Principal{}, errWrongKey()
	}
	switch over, err := r.over(ctx, k.ExpiresAt); {
	case err != nil:
		return tiering.Principal{}, tiering.Wrap(err, "authenticate", "", tiering.Key{})
	case over:
		return tiering.Principal{}, errWrongKey()
	}
	return tiering.Principal{Tenant: tenant, KeyID: id, Scope: k.Scope, ExpiresAt: k.ExpiresAt}, nil
}
