package client

import (
	"context"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// Put stores body, any JSON value, as the next version.
func (c *Client) Put(ctx context.Context, ns, id string, body []byte, o *tiering.PutOptions) (*tiering.Receipt, error) {
	r, err := keyed("put", http.MethodPut, "/v1/state", ns, id)
	if err != nil {
		return nil, err
	}
	r.carry("application/json", body)
	if o == nil {
		o = &tiering.PutOptions{}
	}
	r.set("user", o.User)
	r.ttl(&o.WriteOptions)
	return c.receipt(ctx, r, &o.WriteOptions)
}

// Patch applies a merge patch or a JSON patch.
func (c *Client) Patch(ctx context.Context, ns, id string, kind tiering.PatchKind, patch []byte, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	r, err := keyed("patch", http.MethodPatch, "/v1/state", ns, id)
	if err != nil {
		return nil, err
	}
	r.carry(string(kind), patch)
	r.ttl(o)
	return c.receipt(ctx, r, o)
}

// Apply runs edit operations and answers the new values.
func (c *Client) Apply(ctx context.Context, ns, id string, ops []tiering.EditOp, o *tiering.WriteOptions) (*tiering.Edited, error) {
	r, err := keyed("edit", http.MethodPost, "/v1/edit", ns, id)
	if err != nil {
		return nil, err
	}
	if err := r.json(map[string]any{"ops": ops}); err != nil {
		return nil, err
	}
	r.ttl(o)
	var out tiering.Edited
	ans, err := c.guarded(ctx, r, o, &out)
	if err != nil {
		return nil, err
	}
	c.complete(r, ans, &out.Receipt)
	return &out, nil
}

// Delete leaves a tombstone. Deleting what is not there succeeds.
func (c *Client) Delete(ctx context.Context, ns, id string, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	r, err := keyed("delete", http.MethodDelete, "/v1/state", ns, id)
	if err != nil {
		return nil, err
	}
	return c.tombstone(ctx, r, o)
}

// tombstone is guarded for deletes, whose answer is in its headers.
func (c *Client) tombstone(ctx context.Context, r *call, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	ans, err := c.guarded(ctx, r, o, nil)
	if err != nil {
		return nil, err
	}
	m, ok := metaOf(r.key.Namespace, r.key.ID, ans.header)
	if !ok {
		return nil, r.wrap(r.unknown(foreign(ans.status, ans.header, ans.body)))
	}
	out := &tiering.Receipt{Meta: m, Hot: ans.header.Get("Tierd-Hot") == "true"}
	c.complete(r, ans, out)
	return out, nil
}

// Touch moves the expiry.
func (c *Client) Touch(ctx context.Context, ns, id string, o *tiering.TouchOptions) (*tiering.Receipt, error) {
	r, err := keyed("touch", http.MethodPost, "/v1/touch", ns, id)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &tiering.TouchOptions{}
	}
	body := struct {
		TTL   string `json:"ttl,omitempty"`
		Exact bool   `json:"exact,omitempty"`
	}{Exact: o.Exact}
	if o.TTL != nil {
		body.TTL = o.TTL.String()
	}
	if err := r.json(body); err != nil {
		return nil, err
	}
	return c.receipt(ctx, r, &o.WriteOptions)
}

// Pin keeps a document from being demoted, expired or collected; pinned false
// lifts it.
func (c *Client) Pin(ctx context.Context, ns, id string, pinned bool, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	op, method := "pin", http.MethodPut
	if !pinned {
		op, method = "unpin", http.MethodDelete
	}
	r, err := keyed(op, method, "/v1/pin", ns, id)
	if err != nil {
		return nil, err
	}
	return c.receipt(ctx, r, o)
}

// Rollback makes a new version with the content of an old one.
func (c *Client) Rollback(ctx context.Context, ns, id string, version int64, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	r, err := keyed("rollback", http.MethodPost, "/v1/rollback", ns, id)
	if err != nil {
		return nil, err
	}
	if err := r.json(map[string]int64{"version": version}); err != nil {
		return nil, err
	}
	r.ttl(o)
	return c.receipt(ctx, r, o)
}

// carry makes body the request's, byte for byte. An empty one is sent as such:
// what is wrong with it is the node's to say.
func (r *call) carry(kind string, body []byte) {
	if body == nil {
		body = []byte{}
	}
	r.body = body
	r.header.Set("Content-Type", kind)
}

// ttl asks for a change of expiry. Calls that leave no document to expire do
// not use it.
func (r *call) ttl(o *tiering.WriteOptions) {
	if o != nil && o.TTL != nil {
		r.query.Set("ttl", o.TTL.String())
	}
}

// guarded sends a mutation under its options and decodes the answer into out,
// unless that is nil.
func (c *Client) guarded(ctx context.Context, r *call, o *tiering.WriteOptions, out any) (*answer, error) {
	if o == nil {
		o = &tiering.WriteOptions{}
	}
	setCondition(r.header, o.If)
	r.fence(o.Fence)
	ans, err := c.write(ctx, r, o.IdempotencyKey)
	if err != nil || out == nil {
		return ans, err
	}
	return ans, ans.decode(r, out)
}

// receipt is guarded for answers that are a Receipt.
func (c *Client) receipt(ctx context.Context, r *call, o *tiering.WriteOptions) (*tiering.Receipt, error) {
	var out tiering.Receipt
	ans, err := c.guarded(ctx, r, o, &out)
	if err != nil {
		return nil, err
	}
	c.complete(r, ans, &out)
	return &out, nil
}

// complete adds to a receipt what status and headers say, and remembers the
// write.
func (c *Client) complete(r *call, ans *answer, out *tiering.Receipt) {
	out.Created = out.Created || ans.status == http.StatusCreated
	out.Replayed = out.Replayed || replayed(ans)
	if out.Warnings == nil {
		out.Warnings = warningsOf(ans.header)
	}
	c.wrote(r.key.Namespace, r.key.ID, out.Version)
}

func replayed(ans *answer) bool { return ans.header.Get("Idempotent-Replayed") == "true" }
