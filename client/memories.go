package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// Remember stores memories, each on its own: errs has the error of the one in
// its place.
func (c *Client) Remember(ctx context.Context, ns string, memories []tiering.NewMemory, o *tiering.RememberOptions) (done []tiering.Remembered, errs []error, err error) {
	r, err := spaced("remember", http.MethodPost, "/v1/memories", ns)
	if err != nil {
		return nil, nil, err
	}
	if o == nil {
		o = &tiering.RememberOptions{}
	}
	if o.Dedupe {
		r.query.Set("dedupe", "true")
	}
	if o.Wait {
		r.query.Set("wait", "indexed")
	}
	if memories == nil {
		memories = []tiering.NewMemory{}
	}
	if err := r.json(memories); err != nil {
		return nil, nil, err
	}
	var out struct {
		Results []struct {
			Memory *tiering.Remembered `json:"memory"`
			Error  *tiering.Problem    `json:"error"`
		} `json:"results"`
	}
	if _, err := c.guarded(ctx, r, &tiering.WriteOptions{IdempotencyKey: o.IdempotencyKey}, &out); err != nil {
		return nil, nil, err
	}
	done, errs = make([]tiering.Remembered, len(memories)), make([]error, len(memories))
	for i := range min(len(out.Results), len(memories)) {
		switch res := out.Results[i]; {
		case res.Error != nil:
			errs[i] = r.wrap(res.Error.Error())
		case res.Memory != nil:
			done[i] = *res.Memory
			c.wrote(ns, res.Memory.ID, res.Memory.Version)
		}
	}
	return done, errs, nil
}

// Recall finds memories by meaning and by words, best first.
func (c *Client) Recall(ctx context.Context, q *tiering.Recall) (*tiering.Recalled, error) {
	r := newCall("recall", http.MethodPost, "/v1/recall", "", "")
	if q == nil {
		q = &tiering.Recall{}
	}
	if err := r.json(q); err != nil {
		return nil, err
	}
	return fetch[tiering.Recalled](ctx, c, r)
}

// Memory returns one memory, without its embedding.
func (c *Client) Memory(ctx context.Context, ns, id string) (*tiering.Memory, error) {
	r, err := keyed("get memory", http.MethodGet, "/v1/memories", ns, id)
	if err != nil {
		return nil, err
	}
	return fetch[tiering.Memory](ctx, c, r)
}

// ListMemories returns memories in id order.
func (c *Client) ListMemories(ctx context.Context, ns string, o *tiering.MemoryListOptions) (*tiering.MemoryPage, error) {
	r, err := spaced("list memories", http.MethodGet, "/v1/memories", ns)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &tiering.MemoryListOptions{}
	}
	var types []string
	for _, t := range o.Types {
		types = append(types, string(t))
	}
	r.set("user", o.User)
	r.set("agent", o.Agent)
	r.set("app", o.App)
	r.set("session", o.Session)
	r.set("type", strings.Join(types, ","))
	r.set("cursor", o.Cursor)
	if o.Limit != 0 {
		r.query.Set("limit", strconv.Itoa(o.Limit))
	}
	return fetch[tiering.MemoryPage](ctx, c, r)
}

// PatchMemory applies a merge patch to a memory.
func (c *Client) PatchMemory(ctx context.Context, ns, id string, patch []byte, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	r, err := keyed("patch memory", http.MethodPatch, "/v1/memories", ns, id)
	if err != nil {
		return nil, err
	}
	r.carry(string(tiering.MergePatch), patch)
	return c.receipt(ctx, r, o)
}

// Forget deletes a memory. Forgetting what is not there succeeds.
func (c *Client) Forget(ctx context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	r, err := keyed("forget", http.MethodDelete, "/v1/memories", ns, id)
	if err != nil {
		return nil, err
	}
	return c.tombstone(ctx, r, o)
}

// Used confirms that a memory was of use.
func (c *Client) Used(ctx context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	r, err := keyed("used", http.MethodPost, "/v1/used", ns, id)
	if err != nil {
		return nil, err
	}
	return c.receipt(ctx, r, o)
}

// Link adds a link from one memory to another.
func (c *Client) Link(ctx context.Context, ns, from string, l tiering.Link) (*tiering.Receipt, error) {
	return c.changeLink(ctx, "link", http.MethodPut, ns, from, l)
}

// Unlink removes a link.
func (c *Client) Unlink(ctx context.Context, ns, from string, l tiering.Link) (*tiering.Receipt, error) {
	return c.changeLink(ctx, "unlink", http.MethodDelete, ns, from, l)
}

func (c *Client) changeLink(ctx context.Context, op, method, ns, from string, l tiering.Link) (*tiering.Receipt, error) {
	r, err := spaced(op, method, "/v1/links", ns)
	if err != nil {
		return nil, err
	}
	r.key.ID = from
	if err := r.json(map[string]string{"from": from, "relation": l.Relation, "to": l.To}); err != nil {
		return nil, err
	}
	ans, err := c.do(ctx, r) // a link that is there already, or gone, stays so
	if err != nil {
		return nil, err
	}
	out := new(tiering.Receipt)
	if err := ans.decode(r, out); err != nil {
		return nil, err
	}
	c.complete(r, ans, out)
	return out, nil
}

// Walk follows links from a memory, nearest first.
func (c *Client) Walk(ctx context.Context, ns, id string, o *tiering.WalkOptions) (*tiering.Graph, error) {
	r, err := keyed("walk", http.MethodGet, "/v1/graph", ns, id)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &tiering.WalkOptions{}
	}
	r.set("relation", o.Relation)
	for name, n := range map[string]int{"depth": o.Depth, "limit": o.Limit} {
		if n != 0 {
			r.query.Set(name, strconv.Itoa(n))
		}
	}
	return fetch[tiering.Graph](ctx, c, r)
}
