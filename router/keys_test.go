package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// A key is shown once, authenticates as its tenant within its scope, and ends
// when it is revoked or expires.
func TestAPIKeys(t *testing.T) {
	w := open(t, setup{})
	scope := tiering.Scope{Verbs: []tiering.Verb{tiering.VerbRead}, Namespaces: []string{space}, Prefixes: []string{"a/"}, User: "ann"}
	k, err := w.r.CreateKey(w.ctx, tiering.APIKey{Name: "reader", Scope: scope, ExpiresAt: w.clock.Now().Add(time.Hour)})
	w.no(err)
	other, err := w.r.CreateKey(w.ctx, tiering.APIKey{Name: "all"})
	w.no(err)
	if k.Secret == "" || k.Tenant != tiering.DefaultTenant || k.CreatedAt.IsZero() || k.ID == other.ID {
		t.Fatalf("the key is %+v", k)
	}
	p, err := w.r.Authenticate(w.ctx, k.Secret)
	w.no(err)
	if p.Tenant != tiering.DefaultTenant || p.KeyID != k.ID || fmt.Sprint(p.Scope) != fmt.Sprint(scope) {
		t.Errorf("it authenticates as %+v", p)
	}
	list, err := w.r.APIKeys(w.ctx)
	w.no(err)
	if len(list) != 2 || !slices.ContainsFunc(list, func(l tiering.APIKey) bool { return l.ID == k.ID && l.Name == "reader" && l.Secret == "" }) {
		t.Errorf("the list is %+v", list)
	}
	if slices.ContainsFunc(list, func(l tiering.APIKey) bool { return l.Secret != "" }) {
		t.Error("the list shows a secret")
	}

	w.no(w.r.RevokeKey(w.ctx, other.ID))
	if _, err := w.r.Authenticate(w.ctx, other.Secret); tiering.CodeOf(err) != tiering.CodeUnauthenticated {
		t.Errorf("a revoked key answers %v", err)
	}
	if err := w.r.RevokeKey(w.ctx, other.ID); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("revoking it again answers %v", err)
	}
	if list, err := w.r.APIKeys(w.ctx); err != nil || len(list) != 1 {
		t.Errorf("the list is %v, %v", list, err)
	}

	w.clock.advance(time.Hour - time.Second)
	_, err = w.r.Authenticate(w.ctx, k.Secret)
	w.no(err)
	w.clock.advance(time.Second)
	if _, err := w.r.Authenticate(w.ctx, k.Secret); tiering.CodeOf(err) != tiering.CodeUnauthenticated {
		t.Errorf("an expired key answers %v", err)
	}
}

// Every secret that is not exactly a key's is answered alike.
func TestAuthenticateRefuses(t *testing.T) {
	w := open(t, setup{})
	k, err := w.r.CreateKey(w.ctx, tiering.APIKey{})
	w.no(err)
	rival, err := w.r.As(tiering.Principal{Tenant: "rival"}).CreateKey(w.ctx, tiering.APIKey{})
	w.no(err)
	id, secret, tenant := split(t, k.Secret)
	rivalID, rivalSecret, _ := split(t, rival.Secret)
	flipped := []byte(secret)
	flipped[0] ^= 1
	for name, bad := range map[string]string{
		"nothing":                "",
		"no prefix":              strings.TrimPrefix(k.Secret, keyPrefix),
		"only the prefix":        keyPrefix,
		"no secret":              keyPrefix + id + "__" + tenant,
		"a damaged secret":       keyPrefix + id + "_" + string(flipped) + "_" + tenant,
		"a shortened secret":     keyPrefix + id + "_" + secret[:len(secret)-1] + "_" + tenant,
		"another key's secret":   keyPrefix + id + "_" + rivalSecret + "_" + tenant,
		"another tenant":         keyPrefix + id + "_" + secret + "_rival",
		"another tenant's id":    keyPrefix + rivalID + "_" + secret + "_rival",
		"a tenant that is none":  keyPrefix + id + "_" + secret + "_no/tenant",
		"an unknown id":          keyPrefix + "nobody_" + secret + "_" + tenant,
		"an id that is none":     keyPrefix + "../x_" + secret + "_" + tenant,
		"something behind it":    k.Secret + "x",
		"the whole key in words": "tierd key " + id,
	} {
		p, err := w.r.Authenticate(w.ctx, bad)
		if tiering.CodeOf(err) != tiering.CodeUnauthenticated || p.Tenant != "" {
			t.Errorf("%s answers %+v, %v", name, p, err)
		}
	}
	p, err := w.r.Authenticate(w.ctx, rival.Secret)
	w.no(err)
	if p.Tenant != "rival" {
		t.Errorf("the other tenant's key authenticates as %+v", p)
	}
}

func split(t *testing.T, whole string) (id, secret, tenant string) {
	t.Helper()
	parts := strings.SplitN(strings.TrimPrefix(whole, keyPrefix), "_", 3)
	if len(parts) != 3 {
		t.Fatalf("the key is %q", whole)
	}
	return parts[0], parts[1], parts[2]
}

// Only an unlimited administrator handles keys, and of its own tenant alone.
func TestKeyAdministration(t *testing.T) {
	w := open(t, setup{})
	k, err := w.r.CreateKey(w.ctx, tiering.APIKey{})
	w.no(err)
	for name, s := range map[string]tiering.Scope{
		"no admin":   {Verbs: []tiering.Verb{tiering.VerbRead, tiering.VerbWrite, tiering.VerbDelete}},
		"namespaces": {Namespaces: []string{space}},
		"prefixes":   {Verbs: []tiering.Verb{tiering.VerbAdmin}, Prefixes: []string{"a/"}},
		"a user":     {User: "ann"},
	} {
		r := w.scoped(s)
		_, created := r.CreateKey(w.ctx, tiering.APIKey{})
		_, listed := r.APIKeys(w.ctx)
		for what, err := range map[string]error{"create": created, "list": listed, "revoke": r.RevokeKey(w.ctx, k.ID)} {
			if tiering.CodeOf(err) != tiering.CodeForbidden {
				t.Errorf("%s with a key limited to %s answers %v", what, name, err)
			}
		}
	}
	rival := w.r.As(tiering.Principal{Tenant: "rival"})
	if err := rival.RevokeKey(w.ctx, k.ID); tiering.CodeOf(err) != tiering.CodeNotFound {
		t.Errorf("another tenant revokes: %v", err)
	}
	if list, err := rival.APIKeys(w.ctx); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %v, %v", list, err)
	}
	for name, bad := range map[string]tiering.APIKey{
		"an unknown verb":     {Scope: tiering.Scope{Verbs: []tiering.Verb{"rule"}}},
		"a reserved name":     {Scope: tiering.Scope{Namespaces: []string{"_keys"}}},
		"an empty prefix":     {Scope: tiering.Scope{Prefixes: []string{""}}},
		"a user that is none": {Scope: tiering.Scope{User: "a\x00"}},
		"an expiry long ago":  {ExpiresAt: w.clock.Now()},
		"a long name":         {Name: strings.Repeat("x", 257)},
	} {
		_, err := w.r.CreateKey(w.ctx, bad)
		if p := tiering.ProblemOf(err); err == nil || p.Status != 422 || p.Pointer == "" {
			t.Errorf("%s answers %v", name, err)
		}
	}
}
