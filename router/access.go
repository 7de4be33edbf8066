package router

import (
	"slices"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// admit checks a key's name and that the principal may do verb to it. Whose
// document it is can only be checked where it is read: see mayRead, and Row.User
// in a commit.
func (r *Router) admit(verb tiering.Verb, ns, id string) (tiering.Key, error) {
	k, err := r.admitOwn(verb, ns, id)
	if err == nil && verb != tiering.VerbRead && !r.own {
		err = notTierds(ns)
	}
	return k, err
}

// notTierds refuses a caller's write of one of tierd's own namespaces.
func notTierds(ns string) error {
	if !strings.HasPrefix(ns, tiering.OwnNamespaces) {
		return nil
	}
	return tiering.Errorf(tiering.CodeWrongKind, "namespace %q is tierd's own, as all are that begin with %q: calls on sessions and consumers write it", ns, tiering.OwnNamespaces)
}

// admitOwn is admit for tierd's own writes of its own namespaces, and for moves
// between tiers.
func (r *Router) admitOwn(verb tiering.Verb, ns, id string) (tiering.Key, error) {
	k := r.key(ns, id)
	if err := r.open(); err != nil {
		return k, err
	}
	if err := k.Validate(); err != nil {
		return k, err
	}
	if err := r.allow(verb, ns); err != nil {
		return k, err
	}
	s := r.who.Scope
	if len(s.Prefixes) > 0 && !slices.ContainsFunc(s.Prefixes, func(p string) bool { return strings.HasPrefix(id, p) }) {
		return k, tiering.Errorf(tiering.CodeForbidden, "the API key is limited to ids that start with %s", quoted(s.Prefixes))
	}
	return k, nil
}

// admitNamespace is admit for calls on a whole namespace.
func (r *Router) admitNamespace(verb tiering.Verb, ns string) error {
	if err := r.open(); err != nil {
		return err
	}
	if err := tiering.ValidateNamespace(ns); err != nil {
		return err
	}
	return r.allow(verb, ns)
}

// allow checks verb and namespace. The empty namespace stands for all of them.
func (r *Router) allow(verb tiering.Verb, ns string) error {
	s := r.who.Scope
	if len(s.Verbs) > 0 && !slices.Contains(s.Verbs, verb) {
		return tiering.Errorf(tiering.CodeForbidden, "the API key may not %s", verb)
	}
	if ns != "" && len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, ns) {
		return tiering.Errorf(tiering.CodeForbidden, "the API key is limited to the namespaces %s", quoted(s.Namespaces))
	}
	return nil
}

// admin checks that the principal may administer the tenant: the verb, and no
// limit that an administrator could lift for itself.
func (r *Router) admin() error {
	if err := r.allow(tiering.VerbAdmin, ""); err != nil {
		return err
	}
	s := r.who.Scope
	if len(s.Namespaces) > 0 || len(s.Prefixes) > 0 || s.User != "" {
		return tiering.Errorf(tiering.CodeForbidden, "an API key limited to namespaces, prefixes or a user may not administer the tenant")
	}
	return nil
}

// operator checks that the principal may administer the whole node: what all
// tenants share is the default tenant's to change.
func (r *Router) operator() error {
	if err := r.admin(); err != nil {
		return err
	}
	if r.who.Tenant != tiering.DefaultTenant {
		return tiering.Errorf(tiering.CodeForbidden, "this is of the whole node, not of one tenant: a key of the tenant %q may do it", tiering.DefaultTenant)
	}
	return nil
}

// mayRead reports whether a document of owner is visible to the principal. One
// that is not is answered like one that does not exist.
func (r *Router) mayRead(owner string) bool {
	return r.who.Scope.User == "" || r.who.Scope.User == owner
}

// foreign refuses a write of a document that has another owner.
func (r *Router) foreign() error {
	if r.who.Scope.User != "" {
		return errForeign()
	}
	return tiering.Errorf(tiering.CodeWrongKind, "the document belongs to another user: a user is fixed when the key is created")
}

func errForeign() *tiering.Error {
	return tiering.Errorf(tiering.CodeForbidden, "the document belongs to another user")
}

// foreign reports whether what stands is not for the caller of m to know of.
// That is judged before m's condition: a conflict names the version that stands.
func (m *mutation) foreign(version int64, owner string) bool {
	return m.limit != "" && version != 0 && owner != m.limit
}

// ownerOf joins the user a caller asked for with the principal's own.
func (r *Router) ownerOf(asked string) (string, error) {
	if asked != "" {
		if err := tiering.ValidateOwner("user", asked); err != nil {
			return "", err
		}
	}
	mine := r.who.Scope.User
	if mine == "" || asked == mine {
		return asked, nil
	}
	if asked == "" {
		return mine, nil
	}
	return "", tiering.Errorf(tiering.CodeForbidden, "the API key is limited to user %q", mine)
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }
