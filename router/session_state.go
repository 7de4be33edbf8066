package router

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
)

// Scopes of the keys of a session's state. user: and app: are shared with other
// sessions, temp: is not stored.
const (
	userScope = "user:"
	appScope  = "app:"
	tempScope = "temp:"
)

// splitState parts a merge patch by the scopes of its keys; own is nil when it has
// none of the session's own.
func splitState(patch []byte) (own []byte, shared map[string][]byte, err error) {
	if patch, err = jsondoc.Compact(patch); err != nil {
		return nil, nil, tiering.Below(err, "/state")
	}
	if jsondoc.KindOf(patch) != jsondoc.Object {
		return nil, nil, tiering.Unprocessablef("/state", "the state is patched by an object")
	}
	if !strings.Contains(string(patch), `:`) || !hasScope(patch) {
		return patch, nil, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(patch, &all); err != nil {
		return nil, nil, tiering.Invalidf("the state cannot be read: %v", err)
	}
	parts := map[string]map[string]json.RawMessage{}
	for name, v := range all {
		scope := scopeOf(name)
		if parts[scope] == nil {
			parts[scope] = map[string]json.RawMessage{}
		}
		parts[scope][strings.TrimPrefix(name, scope)] = v
	}
	shared = map[string][]byte{}
	for scope, part := range parts {
		b, err := encodeDoc(part)
		if err != nil {
			return nil, nil, err
		}
		switch scope {
		case "":
			own = b
		case userScope, appScope:
			shared[scope] = b
		}
	}
	return own, shared, nil
}

// scopeOf is the scope of a key, "" for the session's own.
func scopeOf(name string) string {
	for _, scope := range []string{userScope, appScope, tempScope} {
		if strings.HasPrefix(name, scope) {
			return scope
		}
	}
	return ""
}

func hasScope(patch []byte) bool {
	for _, scope := range []string{userScope, appScope, tempScope} {
		if strings.Contains(string(patch), `"`+scope) {
			return true
		}
	}
	return false
}

// sharedKey is where the state of a scope lies; ok is false when the session has
// no user, or no app.
func sharedKey(scope, user, app string) (ns, id string, ok bool) {
	ns, id = tiering.UserStateNamespace, user
	if scope == appScope {
		ns, id = tiering.AppStateNamespace, app
	}
	if id == "" {
		return "", "", false
	}
	if id = url.PathEscape(id); strings.Trim(id, ".") == "" {
		id = strings.ReplaceAll(id, ".", "%2E") // a segment of dots is no id
	}
	return ns, id, true
}

// sharer is the router of a principal that owns what sessions of a user share.
func (s sessions) sharer(scope, user string) *Router {
	who := tiering.Principal{Tenant: s.who.Tenant}
	if scope == userScope {
		who.Scope.User = user
	}
	out := s.As(who)
	out.own = true
	return out
}

// sharers are whose state a session shares, as it was when a change was committed:
// a replay shares with the same ones.
type sharers struct {
	User string `json:"user,omitempty"`
	App  string `json:"app,omitempty"`
}

// name is whose state scope is; "" when the session has no user, or no app.
func (of sharers) name(scope string) string {
	if scope == appScope {
		return of.App
	}
	return of.User
}

// mayShare checks a principal's limits for what sessions share: its prefixes are
// of users' and apps' names too, and what is of all users of an app is not for one
// of them to change.
func (s sessions) mayShare(verb tiering.Verb, scope, name string) error {
	limits := s.who.Scope
	if len(limits.Prefixes) > 0 && !slices.ContainsFunc(limits.Prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return tiering.Errorf(tiering.CodeForbidden, "the API key is limited to names that start with %s: it shares no %q keys of %q", quoted(limits.Prefixes), scope, name)
	}
	if verb != tiering.VerbRead && scope == appScope && limits.User != "" {
		return tiering.Errorf(tiering.CodeForbidden, "the API key is limited to a user, and %q keys are of all users of %q: it may read them", scope, name)
	}
	return nil
}

// checkShared refuses shared keys that nobody is there to keep for, or that the
// principal may not change.
func (s sessions) checkShared(shared map[string][]byte, of sharers) error {
	for scope := range shared {
		name := of.name(scope)
		if name == "" {
			return tiering.Unprocessablef("/state", "the session has no %s to keep %q keys for", strings.TrimSuffix(scope, ":"), scope)
		}
		if err := s.mayShare(tiering.VerbWrite, scope, name); err != nil {
			return err
		}
	}
	return nil
}

// shareState writes the shared parts of a patch, which checkShared let through,
// once under the idempotency key of their change: a try that died between its
// commit and these is made whole by the next one.
func (s sessions) shareState(ctx context.Context, shared map[string][]byte, of sharers, idem string) error {
	for i, scope := range []string{userScope, appScope} {
		patch := shared[scope]
		if patch == nil {
			continue
		}
		ns, id, _ := sharedKey(scope, of.User, of.App)
		o := &tiering.WriteOptions{IdempotencyKey: alsoKey(idem, "shared", i)}
		if _, err := s.sharer(scope, of.User).Patch(ctx, ns, id, tiering.MergePatch, patch, o); err != nil {
			return err
		}
	}
	return nil
}

// alsoKey derives the idempotency key of a write that belongs to a change of a
// session and is a commit of its own.
func alsoKey(key, what string, i int) string {
	if key == "" {
		return ""
	}
	return opKey(what+" "+key, i)
}

// withShared is a session's state with what it shares and the principal may read,
// under the prefixes.
func (s sessions) withShared(ctx context.Context, state json.RawMessage, user, app string) (json.RawMessage, error) {
	for _, scope := range []string{userScope, appScope} {
		ns, id, ok := sharedKey(scope, user, app)
		if !ok || s.mayShare(tiering.VerbRead, scope, sharers{user, app}.name(scope)) != nil {
			continue
		}
		if p, err := s.policyOf(ctx, s.who.Tenant, ns); err == nil && !p.known {
			continue
		}
		d, err := s.sharer(scope, user).Get(ctx, ns, id, &tiering.GetOptions{Strong: true, NoDefault: true})
		if errors.Is(err, tiering.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var shared map[string]json.RawMessage
		if json.Unmarshal(d.Body, &shared) != nil {
			continue // somebody put something else there
		}
		named := map[string]json.RawMessage{}
		for name, v := range shared {
			named[scope+name] = v
		}
		patch, err := encodeDoc(named)
		if err != nil {
			return nil, err
		}
		if state, err = jsondoc.MergePatch(state, patch); err != nil {
			return nil, err
		}
	}
	return state, nil
}
