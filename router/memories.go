package router

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tierd/tierd/internal/jsondoc"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/warm"
)

// memories is warm as what keeps index entries.
func (r *core) memories() (warm.Memories, error) {
	store, ok := warm.As[warm.Memories](r.Warm)
	if !ok || r.Memories.Index == nil {
		return nil, tiering.Errorf(tiering.CodeUnsupported, "this node keeps no memories")
	}
	return store, nil
}

// waitStep is how often a caller that waits for the index looks.
const waitStep = 20 * time.Millisecond

// indexStatus says how far the index is with a memory's current version; wait
// blocks until it is there, or ctx ends.
func (r *Router) indexStatus(ctx context.Context, m tiering.Meta, wait bool) (tiering.IndexStatus, error) {
	store, err := r.memories()
	if err != nil {
		return "", err
	}
	if r.Memories.Entries.Immediate() {
		return tiering.IndexIndexed, nil
	}
	key := r.key(m.Namespace, m.ID)
	for {
		found, err := store.MemoriesOf(ctx, []tiering.Key{key})
		if err != nil {
			return "", tiering.Wrap(err, "", tiering.Warm, key)
		}
		status := tiering.IndexPending
		if len(found) == 1 && found[0].Entry.Status != "" {
			status = found[0].Entry.Status
		}
		if !wait || status != tiering.IndexPending || len(found) == 0 {
			return status, nil
		}
		select {
		case <-ctx.Done():
			return status, nil // stored, and not yet in the index: the answer says so
		case <-time.After(waitStep):
		}
	}
}

// Memory returns one memory, without its embedding.
func (r *Router) Memory(ctx context.Context, ns, id string) (*tiering.Memory, error) {
	m, err := r.memory(ctx, ns, id)
	return m, tiering.Wrap(err, "get memory", "", r.key(ns, id))
}

func (r *Router) memory(ctx context.Context, ns, id string) (*tiering.Memory, error) {
	if err := r.admitMemories(ctx, tiering.VerbRead, ns); err != nil {
		return nil, err
	}
	d, err := r.get(ctx, ns, id, tiering.GetOptions{Strong: true, NoDefault: true})
	if err != nil {
		return nil, err
	}
	m, err := memoryOf(d.Meta, d.Body)
	if err != nil {
		return nil, err
	}
	m.IndexStatus, err = r.indexStatus(ctx, m.Meta, false)
	return m, err
}

// admitMemories checks a call on a namespace of memories.
func (r *Router) admitMemories(ctx context.Context, verb tiering.Verb, ns string) error {
	if err := r.admitNamespace(verb, ns); err != nil {
		return err
	}
	p, err := r.policyOf(ctx, r.who.Tenant, ns)
	if err != nil || !p.known {
		return err
	}
	return memoriesOnly(ns, p)
}

// memoryOf reads a stored memory. Its embedding stays out of answers: it is
// long, and whoever gave it has it.
func memoryOf(meta tiering.Meta, body []byte) (*tiering.Memory, error) {
	m := &tiering.Memory{Meta: meta}
	if err := json.Unmarshal(body, &m.MemoryBody); err != nil {
		return nil, &tiering.Error{Code: tiering.CodeCorrupt, Err: err, Detail: "the stored memory cannot be read"}
	}
	m.Embedding = nil
	if m.Type == "" {
		m.Type = tiering.MemoryFact
	}
	return m, nil
}

// PatchMemory applies a merge patch to a memory.
func (r *Router) PatchMemory(ctx context.Context, ns, id string, patch []byte, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	opt, err := r.standing(ctx, ns, o)
	if err != nil {
		return nil, tiering.Wrap(err, "patch memory", "", r.key(ns, id))
	}
	rc, err := r.Patch(ctx, ns, id, tiering.MergePatch, patch, &opt)
	return rc, notFoundInstead(err, o)
}

// standing admits a change of a memory that has to be there.
func (r *Router) standing(ctx context.Context, ns string, o *tiering.WriteOptions) (tiering.WriteOptions, error) {
	opt := orZero(o)
	if err := r.admitMemories(ctx, tiering.VerbWrite, ns); err != nil {
		return opt, err
	}
	if known, err := r.namespaceKnown(ctx, ns); err != nil || !known {
		return opt, orNotFound(err)
	}
	if opt.If.Unconditional() {
		opt.If = tiering.IfExists()
	}
	return opt, nil
}

// Forget deletes a memory. Forgetting what is not there succeeds.
func (r *Router) Forget(ctx context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	if err := r.admitMemories(ctx, tiering.VerbDelete, ns); err != nil {
		return nil, tiering.Wrap(err, "forget", "", r.key(ns, id))
	}
	return r.Delete(ctx, ns, id, o)
}

// Used confirms that a memory was of use.
func (r *Router) Used(ctx context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	rc, err := r.used(ctx, ns, id, o)
	return rc, tiering.Wrap(notFoundInstead(err, o), "used", "", r.key(ns, id))
}

func (r *Router) used(ctx context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	now, err := r.Warm.Now(ctx)
	if err != nil {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	at, err := json.Marshal(now.UTC())
	if err != nil {
		return nil, err
	}
	return r.editMemory(ctx, ns, id, o, "used", func(b base) ([]byte, error) {
		next, _, err := jsondoc.Edit(b.body, []tiering.EditOp{{Op: "increment", Pointer: "/uses"}, {Op: "set", Pointer: "/used_at", Value: at}})
		return next, err
	})
}

// Link adds a link from one memory to another that stands.
func (r *Router) Link(ctx context.Context, ns, from string, l tiering.Link) (*tiering.Receipt, error) {
	rc, err := r.link(ctx, ns, from, l, "add_to_set")
	return rc, tiering.Wrap(notFoundInstead(err, nil), "link", "", r.key(ns, from))
}

// Unlink removes a link.
func (r *Router) Unlink(ctx context.Context, ns, from string, l tiering.Link) (*tiering.Receipt, error) {
	rc, err := r.link(ctx, ns, from, l, "remove_from_set")
	return rc, tiering.Wrap(notFoundInstead(err, nil), "unlink", "", r.key(ns, from))
}

func (r *Router) link(ctx context.Context, ns, from string, l tiering.Link, op string) (*tiering.Receipt, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if op == "add_to_set" {
		if _, err := r.get(ctx, ns, l.To, tiering.GetOptions{NoDefault: true}); err != nil {
			if errors.Is(err, tiering.ErrNotFound) {
				return nil, tiering.Errorf(tiering.CodeNotFound, "nothing stands under %q, which the link leads to", l.To)
			}
			return nil, err
		}
	}
	value, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return r.editMemory(ctx, ns, from, nil, op, func(b base) ([]byte, error) {
		next, _, err := jsondoc.Edit(b.body, []tiering.EditOp{{Op: op, Pointer: "/links", Value: value}})
		return next, err
	})
}

// editMemory writes what next makes of a memory that stands. A request that
// must happen once is told apart by the operation and what o says.
func (r *Router) editMemory(ctx context.Context, ns, id string, o *tiering.WriteOptions, op string, next func(base) ([]byte, error)) (*tiering.Receipt, error) {
	opt, err := r.standing(ctx, ns, o)
	if err != nil {
		return nil, err
	}
	if err := r.sightless(ns, tiering.MergePatch, []byte("{}")); err != nil {
		return nil, err
	}
	p, m, err := r.mutation(ctx, tiering.VerbWrite, ns, id, opt, "")
	if err != nil {
		return nil, err
	}
	r.nameRequest(m, opt.IdempotencyKey, op)
	return r.compute(ctx, op, p, m, next)
}

// notFoundInstead tells a caller who named no version that nothing stands,
// where the condition that this call made was refused.
func notFoundInstead(err error, o *tiering.WriteOptions) error {
	if o != nil && !o.If.Unconditional() || tiering.CodeOf(err) != tiering.CodeVersionConflict {
		return err
	}
	return tiering.Errorf(tiering.CodeNotFound, "nothing stands under the key")
}

// ListMemories returns memories in id order.
func (r *Router) ListMemories(ctx context.Context, ns string, o *tiering.MemoryListOptions) (*tiering.MemoryPage, error) {
	p, err := r.listMemories(ctx, ns, orZero(o))
	return p, tiering.Wrap(err, "list memories", "", tiering.Key{Namespace: ns})
}

func (r *Router) listMemories(ctx context.Context, ns string, o tiering.MemoryListOptions) (*tiering.MemoryPage, error) {
	if err := r.admitMemories(ctx, tiering.VerbRead, ns); err != nil {
		return nil, err
	}
	filter, err := memoryFilter(o)
	if err != nil {
		return nil, err
	}
	var page *tiering.Page
	if filter == nil {
		page, err = r.list(ctx, ns, tiering.ListOptions{User: o.User, Limit: o.Limit, Cursor: o.Cursor, Data: true})
	} else {
		page, err = r.query(ctx, ns, tiering.Query{Filter: filter, User: o.User, Limit: o.Limit, Cursor: o.Cursor})
	}
	if err != nil {
		return nil, err
	}
	out := &tiering.MemoryPage{Memories: []tiering.Memory{}, NextCursor: page.NextCursor}
	for _, it := range page.Items {
		body := it.Body
		if body == nil {
			d, err := r.get(ctx, ns, it.ID, tiering.GetOptions{NoDefault: true})
			if errors.Is(err, tiering.ErrNotFound) {
				continue // forgotten since the page was read
			}
			if err != nil {
				return nil, err
			}
			it.Meta, body = d.Meta, d.Body
		}
		m, err := memoryOf(it.Meta, body)
		if err != nil {
			return nil, err
		}
		out.Memories = append(out.Memories, *m)
	}
	return out, nil
}

// memoryFilter is what o asks of bodies; nil for nothing.
func memoryFilter(o tiering.MemoryListOptions) (json.RawMessage, error) {
	want := map[string]any{}
	for name, value := range map[string]string{"/agent": o.Agent, "/app": o.App, "/session": o.Session} {
		if value != "" {
			want[name] = value
		}
	}
	if len(o.Types) > 0 {
		if err := checkTypes(o.Types); err != nil {
			return nil, err
		}
		of := map[string]any{"/type": map[string]any{"$in": o.Types}}
		if slices.Contains(o.Types, tiering.MemoryFact) { // what has no type is one
			of = map[string]any{"$or": []any{of, map[string]any{"/type": map[string]any{"$exists": false}}}}
		}
		maps.Copy(want, of)
	}
	if len(want) == 0 {
		return nil, nil
	}
	return json.Marshal(want)
}
