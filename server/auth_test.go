package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

// keyring knows three keys and a store that is down.
func keyring(_ context.Context, secret string) (tiering.Principal, error) {
	switch secret {
	case "reader":
		return tiering.Principal{Tenant: "acme", KeyID: "k1", Scope: tiering.Scope{Verbs: []tiering.Verb{tiering.VerbRead}}}, nil
	case "root":
		return tiering.Principal{Tenant: "acme", KeyID: "k2"}, nil
	case "ops":
		return tiering.Principal{Tenant: "acme", KeyID: "k3", Scope: tiering.Scope{Verbs: []tiering.Verb{tiering.VerbAdmin}}}, nil
	case "ann":
		return tiering.Principal{Tenant: "acme", KeyID: "k4", Scope: tiering.Scope{User: "ann"}}, nil
	case "ann-metrics":
		return tiering.Principal{Tenant: "acme", KeyID: "k5", Scope: tiering.Scope{User: "ann", Verbs: []tiering.Verb{tiering.VerbMetrics}}}, nil
	case "down":
		return tiering.Principal{}, tiering.Errorf(tiering.CodeUnavailable, "the key store cannot be reached")
	}
	return tiering.Principal{}, tiering.Errorf(tiering.CodeUnauthenticated, "unknown key")
}

func TestKeys(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("metrics 1\n")) })
	var seen tiering.Principal
	f := newFake()
	h := newTest(t, f, func(o *Options) {
		o.Authenticate, o.Metrics = keyring, page
		o.As = func(p tiering.Principal) tiering.Service { seen = p; return f }
	}).Handler()
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"no key", "GET /v1/status", 401},
		{"bearer", "GET /v1/status\nAuthorization: Bearer reader", 200},
		{"the scheme has no case", "GET /v1/status\nAuthorization: bearer reader", 200},
		{"header", "GET /v1/status\nX-API-Key: reader", 200},
		{"the same key twice", "GET /v1/status\nAuthorization: Bearer reader\nX-API-Key: reader", 200},
		{"two keys", "GET /v1/status\nAuthorization: Bearer reader\nX-API-Key: root", 400},
		{"two headers", "GET /v1/status\nX-API-Key: reader\nX-API-Key: reader", 400},
		{"an unknown key", "GET /v1/status\nX-API-Key: guess", 401},
		{"another scheme", "GET /v1/status\nAuthorization: Basic cmVhZGVy", 401},
		{"an empty key", "GET /v1/status\nX-API-Key:", 401},
		{"a bearer of nothing", "GET /v1/status\nAuthorization: Bearer ", 401},
		{"the key store is down", "GET /v1/status\nX-API-Key: down", 503},
		{"parameters are judged after the key", "GET /v1/status?nope=1", 401},
		{"liveness is open", "GET /healthz", 200},
		{"readiness is open", "GET /readyz", 200},
		{"the description is open", "GET /openapi.json", 200},
		{"its page is open", "GET /docs", 200},
		{"metrics are not", "GET /metrics", 401},
		{"nor for a reader", "GET /metrics\nX-API-Key: reader", 403},
		{"but for an administrator", "GET /metrics\nX-API-Key: ops", 200},
		{"and for a key without limits", "GET /metrics\nX-API-Key: root", 200},
		{"not for a user's key", "GET /metrics\nX-API-Key: ann", 403},
		{"unless it was given them by name", "GET /metrics\nX-API-Key: ann-metrics", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := exchange(h, c.request)
			if r.StatusCode != c.status {
				t.Fatalf("%d, want %d: %s", r.StatusCode, c.status, bodyOf(t, r))
			}
			if got := strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer"); got != (c.status == 401) {
				t.Errorf("WWW-Authenticate %q with %d", r.Header.Get("WWW-Authenticate"), c.status)
			}
		})
	}
	exchange(h, "GET /v1/status\nX-API-Key: reader")
	if seen.Tenant != "acme" || seen.KeyID != "k1" {
		t.Errorf("the service was asked for as %+v", seen)
	}

	opened := newTest(t, f, func(o *Options) { o.Authenticate, o.Metrics, o.OpenMetrics = keyring, page, true }).Handler()
	if r := exchange(opened, "GET /metrics"); r.StatusCode != 200 {
		t.Errorf("open metrics without a key: %d", r.StatusCode)
	}
}

func TestWithoutKeysEveryoneIsTheDefaultTenant(t *testing.T) {
	var seen tiering.Principal
	h := newTest(t, nil, func(o *Options) {
		o.As = func(p tiering.Principal) tiering.Service { seen = p; return newFake() }
	}).Handler()
	exchange(h, "GET /v1/status\nAuthorization: Bearer whatever")
	if seen.Tenant != tiering.DefaultTenant || seen.KeyID != "" {
		t.Errorf("asked for as %+v", seen)
	}
}
