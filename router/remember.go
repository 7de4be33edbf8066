package router

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/vector/entry"
)

// Remember stores memories, each on its own, in a namespace of kind memory,
// which the first one makes.
func (r *Router) Remember(ctx context.Context, ns string, memories []tiering.NewMemory, o *tiering.RememberOptions) ([]tiering.Remembered, []error, error) {
	done, errs, err := r.remember(ctx, ns, memories, orZero(o))
	return done, errs, tiering.Wrap(err, "remember", "", tiering.Key{Namespace: ns})
}

func (r *Router) remember(ctx context.Context, ns string, memories []tiering.NewMemory, o tiering.RememberOptions) ([]tiering.Remembered, []error, error) {
	if len(memories) == 0 || len(memories) > tiering.MaxBatchOps {
		return nil, nil, tiering.Unprocessablef("", "%d memories: use 1 to %d", len(memories), tiering.MaxBatchOps)
	}
	if err := checkIdempotencyKey(o.IdempotencyKey); err != nil {
		return nil, nil, err
	}
	if err := r.admitNamespace(tiering.VerbWrite, ns); err != nil {
		return nil, nil, err
	}
	if err := r.makeMemoryNamespace(ctx, ns); err != nil {
		return nil, nil, err
	}
	done, errs := make([]tiering.Remembered, len(memories)), make([]error, len(memories))
	order, byID := r.memoryOrder(memories, o.IdempotencyKey, o.Dedupe)
	var g errgroup.Group
	g.SetLimit(batchParallel)
	for _, id := range order {
		g.Go(func() error {
			for _, i := range byID[id] {
				var one *tiering.Remembered
				if one, errs[i] = r.rememberOne(ctx, ns, id, memories[i], opKey(o.IdempotencyKey, i), o); errs[i] == nil {
					done[i] = *one
				}
				errs[i] = tiering.Wrap(errs[i], "remember", "", r.key(ns, id))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	return done, errs, nil
}

// memoryOrder gives every memory its id, and the ids in the order of their
// first memory: those of one id are stored one after the other.
func (r *Router) memoryOrder(memories []tiering.NewMemory, idem string, dedupe bool) (order []string, byID map[string][]int) {
	byID = map[string][]int{}
	for i, m := range memories {
		id := m.ID
		switch {
		case id != "":
		case dedupe:
			id = r.textID(m, 0)
		default:
			id = newMemoryID(opKey(idem, i))
		}
		if byID[id] == nil {
			order = append(order, id)
		}
		byID[id] = append(byID[id], i)
	}
	return order, byID
}

// newMemoryID makes an id: of a request that must happen once always the same.
func newMemoryID(idem string) string {
	if idem == "" {
		return strings.ToLower(ulid.Make().String())
	}
	return hashedID("request", idem)
}

// textIDs is how many ids a text has, for memories that took one and say
// something else by now.
const textIDs = 4

// textID is the id of a memory that its owner should not store twice: of two that
// arrive at once, one makes it. The nth is for where those before are taken.
func (r *Router) textID(m tiering.NewMemory, n int) string {
	user := cmp.Or(m.User, r.who.Scope.User)
	return hashedID("text", strings.Repeat("\x00", n)+user+"\x00"+entry.Text(m.MemoryBody))
}

func hashedID(what, of string) string {
	sum := sha256.Sum256([]byte(what + "\x00" + of))
	return strings.ToLower(keyEncoding.EncodeToString(sum[:16]))
}

// makeMemoryNamespace makes the namespace if nobody did, and refuses one that
// holds something else.
func (r *Router) makeMemoryNamespace(ctx context.Context, ns string) error {
	if err := notTierds(ns); err != nil {
		return err
	}
	p, err := r.policyOf(ctx, r.who.Tenant, ns)
	switch {
	case err != nil:
		return err
	case r.Memories.Entries == nil:
		return tiering.Errorf(tiering.CodeUnsupported, "this node keeps no memories")
	case p.known || p.Deleted:
		return memoriesOnly(ns, p)
	case r.NoAutoCreate:
		return nil // the write says how to make it
	}
	if err := r.makeNamespace(ctx, ns, tiering.Policy{Kind: tiering.KindMemory}, p.version); err != nil {
		return err
	}
	// Who made it first may have put something else there.
	if p, err = r.policyOf(ctx, r.who.Tenant, ns); err != nil {
		return err
	}
	return memoriesOnly(ns, p)
}

func memoriesOnly(ns string, p *policy) error {
	if p.Kind != tiering.KindMemory {
		return tiering.Errorf(tiering.CodeWrongKind, "namespace %q holds %s, not memories", ns, p.Kind)
	}
	return nil
}

// rememberOne stores one memory under its id.
func (r *Router) rememberOne(ctx context.Context, ns, id string, m tiering.NewMemory, idem string, o tiering.RememberOptions) (*tiering.Remembered, error) {
	opt := tiering.PutOptions{WriteOptions: tiering.WriteOptions{IdempotencyKey: idem}, User: m.User}
	if m.TTL != "" {
		ttl, err := tiering.ParseTTL(m.TTL)
		if err != nil {
			return nil, err
		}
		opt.TTL = ttl
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Type == "" {
		m.Type = tiering.MemoryFact
	}
	body, err := json.Marshal(m.MemoryBody)
	if err != nil {
		return nil, tiering.Unprocessablef("/metadata", "the memory cannot be written: %v", err)
	}
	if o.Dedupe {
		return r.rememberNew(ctx, ns, id, m, body, opt, o.Wait)
	}
	rc, err := r.put(ctx, ns, id, body, opt)
	return r.remembered(ctx, rc, err, o.Wait)
}

// rememberNew stores a memory unless its owner has one with the same text.
func (r *Router) rememberNew(ctx context.Context, ns, id string, m tiering.NewMemory, body []byte, opt tiering.PutOptions, wait bool) (*tiering.Remembered, error) {
	if m.ID == "" {
		opt.If = tiering.IfAbsent()
	}
	for n := 1; ; n++ {
		standing, err := r.duplicateOf(ctx, ns, m)
		if err != nil {
			return nil, err
		}
		asked := putRequest{id: m.ID, only: standing != nil}
		if standing != nil && opt.IdempotencyKey == "" {
			return standing, nil
		}
		rc, err := r.putAsked(ctx, ns, id, body, opt, asked)
		if asked.only && tiering.CodeOf(err) == tiering.CodeVersionConflict {
			return standing, nil // it is not this request that made it
		}
		if m.ID != "" || n > textIDs || !taken(err) {
			return r.remembered(ctx, rc, err, wait)
		}
		// By who was faster, whom the next look finds; by a memory that was
		// patched to say something else; by another owner's.
		id = r.textID(m, n)
		if n == textIDs {
			id = newMemoryID("")
		}
	}
}

// taken reports whether an id holds something that the caller may not replace.
func taken(err error) bool {
	switch tiering.CodeOf(err) {
	case tiering.CodeVersionConflict, tiering.CodeForbidden, tiering.CodeWrongKind:
		return true
	}
	return false
}

// remembered is the answer of a memory that was put.
func (r *Router) remembered(ctx context.Context, rc *tiering.Receipt, err error, wait bool) (*tiering.Remembered, error) {
	if err != nil {
		return nil, err
	}
	out := &tiering.Remembered{Receipt: *rc}
	if out.IndexStatus, err = r.indexStatus(ctx, rc.Meta, wait); err != nil {
		out.IndexStatus = tiering.IndexPending // it is stored: how far the index is may be asked again
	}
	return out, nil
}

// duplicateOf finds the memory of the same user with the same text that holds, other
// than one that m would replace; nil when there is none.
func (r *Router) duplicateOf(ctx context.Context, ns string, m tiering.NewMemory) (*tiering.Remembered, error) {
	store, err := r.memories()
	if err != nil {
		return nil, err
	}
	user, err := r.ownerOf(m.User)
	if err != nil {
		return nil, err
	}
	h, ok, err := store.MemoryByText(ctx, r.who.Tenant, ns, user, tiering.DigestOf([]byte(entry.Text(m.MemoryBody))))
	if err != nil || !ok || h.Key.ID == m.ID {
		return nil, tiering.Wrap(err, "", tiering.Warm, tiering.Key{})
	}
	if _, err := r.admit(tiering.VerbWrite, ns, h.Key.ID); err != nil {
		return nil, nil // not within what the key may know of
	}
	out, err := r.remembered(ctx, &tiering.Receipt{Meta: h.Meta()}, nil, false)
	if err == nil {
		out.Duplicate = true
	}
	return out, err
}
