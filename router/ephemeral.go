package router

import (
	"context"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// swap writes an ephemeral document: it lives in hot alone, so hot's own
// compare-and-set is the commit. next is computed again whenever another
// writer was faster.
func (r *Router) swap(ctx context.Context, p *policy, m *mutation, next func(base) ([]byte, error)) (*tiering.Receipt, error) {
	if err := r.fix(ctx, m.key.Namespace, p); err != nil {
		return nil, err
	}
	for {
		l, err := r.look(ctx, m.key, false)
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Hot, m.key)
		}
		at := base{}
		switch {
		case r.intact(l):
			at = base{version: l.Entry.Meta.Version, body: l.Entry.Body}
		case l.State == hot.Present: // damaged: out of the way of the swap
			r.dropHot(ctx, m.key, l)
		}
		if !m.cond.Holds(at.version) {
			return nil, anotherStands(at.version)
		}
		doc, err := next(at)
		if err == nil && doc != nil {
			err = p.check(doc)
		}
		if err != nil {
			return nil, m.told(err)
		}
		e, ok, err := r.swapHot(ctx, m.key, tiering.IfVersion(at.version), doc, ephemeralLife(p, m))
		if err != nil {
			return nil, tiering.Wrap(err, "", tiering.Hot, m.key)
		}
		if ok {
			e.Meta.Namespace, e.Meta.ID = m.key.Namespace, m.key.ID
			return &tiering.Receipt{Meta: e.Meta, Hot: true, Created: at.version == 0 && doc != nil}, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// fix notes in warm, once, that the namespace has keys of this class. Else another daemon
// might make it durable: what is written here by the policy of before would be
// acknowledged and lost, and what hot holds be read as if warm had committed it.
func (r *Router) fix(ctx context.Context, ns string, p *policy) error {
	if p.fixed.Load() {
		return nil
	}
	for range fixTries {
		fixed, err := r.Warm.FixNamespace(ctx, warm.Namespace{Tenant: r.who.Tenant, Name: ns, Kind: p.Kind, Class: p.Class})
		if err != nil {
			return tiering.Wrap(err, "", tiering.Warm, tiering.Key{Namespace: ns})
		}
		if fixed {
			p.fixed.Store(true)
			return nil
		}
		r.policies.forget(policyKey(r.who.Tenant, ns))
		if err := r.reviveNamespace(ctx, ns, p); err != nil {
			return err
		}
	}
	return tiering.Errorf(tiering.CodeUnavailable, "namespace %q is changed again and again: try again", ns)
}

// fixTries bounds how often a namespace is met that was dropped, or changed, meanwhile.
const fixTries = 3

func (r *core) swapHot(ctx context.Context, key tiering.Key, cond tiering.Condition, doc []byte, life time.Duration) (hot.Entry, bool, error) {
	ctx, cancel := r.hotBound(ctx)
	defer cancel()
	return r.Hot.Swap(ctx, key, cond, doc, life)
}

// ephemeralLife is the life of an ephemeral document: the caller's wish, else
// the policy's. 0 lasts until hot needs the room.
func ephemeralLife(p *policy, m *mutation) time.Duration {
	switch ttl := m.row.Expiry.TTL; {
	case ttl == nil:
		return p.TTL.Std()
	case ttl.None:
		return 0
	default:
		return ttl.Life
	}
}

// ephemeral reads an ephemeral document. Its life is over when hot says so:
// nobody else's clock counts.
func (r *Router) ephemeral(ctx context.Context, key tiering.Key) (*tiering.Document, error) {
	l, err := r.look(ctx, key, false)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Hot, key)
	}
	if !r.intact(l) {
		return nil, tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
	}
	meta := l.Entry.Meta
	meta.Namespace, meta.ID = key.Namespace, key.ID
	return &tiering.Document{Meta: meta, Body: l.Entry.Body, Tier: tiering.Hot}, nil
}
