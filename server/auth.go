package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// authenticate returns whom the request speaks for. Every refusal for want of a
// good key carries a challenge, as RFC 9110, section 15.5.2, asks.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, a access) (tiering.Principal, error) {
	if s.opts.Authenticate == nil || a == open || a == metered && s.opts.OpenMetrics {
		return tiering.Principal{Tenant: tiering.DefaultTenant}, nil
	}
	p, err := s.principal(r)
	if tiering.CodeOf(err) == tiering.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tierd"`)
	}
	if err != nil {
		return tiering.Principal{}, err
	}
	if a == metered && !mayReadMetrics(p.Scope) {
		return tiering.Principal{}, tiering.Errorf(tiering.CodeForbidden, "metrics need a key with the verb metrics or admin")
	}
	return p, nil
}

func (s *Server) principal(r *http.Request) (tiering.Principal, error) {
	secret, err := secretOf(r.Header)
	if err != nil {
		return tiering.Principal{}, err
	}
	if secret == "" {
		return tiering.Principal{}, tiering.Errorf(tiering.CodeUnauthenticated,
			"an API key is needed: send Authorization: Bearer KEY, or X-API-Key: KEY")
	}
	return s.opts.Authenticate(r.Context(), secret)
}

// mayReadMetrics reports whether the scope holds a verb that reads metrics. They
// are of the whole node: who is limited to a part of it must have been given the
// verb by name.
func mayReadMetrics(s tiering.Scope) bool {
	if slices.Contains(s.Verbs, tiering.VerbMetrics) {
		return true
	}
	limited := len(s.Namespaces) > 0 || len(s.Prefixes) > 0 || s.User != ""
	return !limited && (len(s.Verbs) == 0 || slices.Contains(s.Verbs, tiering.VerbAdmin))
}

// secretOf returns the API key of a request, "" when it carries none. Two keys
// that differ are refused rather than one of them chosen.
func secretOf(h http.Header) (string, error) {
	auth, key := h.Values("Authorization"), h.Values("X-Api-Key")
	if len(auth) > 1 || len(key) > 1 {
		return "", tiering.Invalidf("send one Authorization or one X-API-Key header")
	}
	var secret string
	if len(auth) == 1 {
		scheme, rest, _ := strings.Cut(auth[0], " ")
		rest = strings.TrimSpace(rest)
		if !strings.EqualFold(scheme, "Bearer") || rest == "" {
			return "", tiering.Errorf(tiering.CodeUnauthenticated, "Authorization: want Bearer KEY")
		}
		secret = rest
	}
	if len(key) == 1 {
		if key[0] == "" {
			return "", tiering.Errorf(tiering.CodeUnauthenticated, "X-API-Key is empty")
		}
		if secret != "" && secret != key[0] {
			return "", tiering.Invalidf("Authorization and X-API-Key hold different keys: send one")
		}
		secret = key[0]
	}
	return secret, nil
}
