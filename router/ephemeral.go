package router

import (
	"context"
	"time"

	"github.com/tierd/tierd/hot"
	"github.com/tierd/tierd/tiering"
)

// swap writes an ephemeral document: it lives in hot alone, so hot's own
// compare-and-set is the commit. next is computed again whenever another
// writer was faster.
func (r *Router) swap(ctx context.Context, p *policy, m *mutation, next func(base) ([]byte, error)) (*tiering.Receipt, error) {
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
