package router

import (
	"context"
	"slices"

	"github.com/tierd/tierd/tiering"
)

// policyForKind is policyForWrite for a namespace of the kind that made wants; a
// namespace that nobody made yet is made as made says. One that was deleted
// keeps its kind and class.
func (r *Router) policyForKind(ctx context.Context, ns string, made tiering.Policy) (*policy, error) {
	p, err := r.policyOf(ctx, r.who.Tenant, ns)
	if err != nil {
		return nil, err
	}
	if !p.known && !p.Deleted {
		if r.NoAutoCreate {
			return nil, tiering.Errorf(tiering.CodeNotFound, "namespace %q does not exist: create it with PUT /v1/namespaces/%s", ns, ns)
		}
		if err := r.makeNamespace(ctx, ns, made, p.version); err != nil {
			return nil, err
		}
		if p, err = r.policyOf(ctx, r.who.Tenant, ns); err != nil {
			return nil, err
		}
	} else if !p.known && p.Kind == made.Kind {
		if p, err = r.policyForWrite(ctx, ns); err != nil {
			return nil, err
		}
	}
	if p.Kind != made.Kind {
		return nil, wrongKind(ns, p.Kind, made.Kind)
	}
	return p, nil
}

// mustHold refuses a namespace that holds neither documents, of which memories
// are some, nor any of also.
func (p *policy) mustHold(ns string, also []tiering.Kind) error {
	if p.Kind == tiering.KindState || p.Kind == tiering.KindMemory || slices.Contains(also, p.Kind) {
		return nil
	}
	return wrongKind(ns, p.Kind, tiering.KindState)
}

// wrongKind refuses a call on a namespace that holds something else.
func wrongKind(ns string, has, want tiering.Kind) error {
	return tiering.Errorf(tiering.CodeWrongKind, "namespace %q holds %s, not %s", ns, has, want)
}
