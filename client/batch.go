package client

import (
	"context"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// Batch runs many operations, all or nothing when atomic. An atomic batch that
// failed is an error with Batch set and FailedOp naming the operation.
func (c *Client) Batch(ctx context.Context, b *tiering.Batch) (*tiering.BatchResult, error) {
	if b == nil {
		b = &tiering.Batch{}
	}
	out, err := c.batch(ctx, b, c.write)
	if err != nil {
		return nil, err
	}
	if b.IdempotencyKey == "" && !b.Atomic {
		c.withoutKey(ctx, b, out)
	}
	for i, res := range out.Results {
		if i < len(b.Ops) && res.Receipt != nil {
			c.wrote(b.Ops[i].Namespace, b.Ops[i].ID, res.Receipt.Version)
		}
	}
	return out, nil
}

func (c *Client) batch(ctx context.Context, b *tiering.Batch, send func(context.Context, *call, string) (*answer, error)) (*tiering.BatchResult, error) {
	r := newCall("batch", http.MethodPost, "/v1/batch", "", "")
	if err := r.json(b); err != nil {
		return nil, err
	}
	ans, err := send(ctx, r, b.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	var out tiering.BatchResult
	if err := ans.decode(r, &out); err != nil {
		return nil, err
	}
	out.Replayed = out.Replayed || replayed(ans)
	return &out, nil
}

// withoutKey sends the operations of ephemeral namespaces again, in their
// order, because the key that the client gave the batch was what they were
// refused for; see write. The results take the place of the refusals.
func (c *Client) withoutKey(ctx context.Context, b *tiering.Batch, out *tiering.BatchResult) {
	if len(out.Results) != len(b.Ops) {
		return
	}
	again := refusedNamespaces(b, out)
	var rest tiering.Batch
	var at []int
	for i, op := range b.Ops {
		if again[op.Namespace] {
			rest.Ops, at = append(rest.Ops, op), append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	res, err := c.batch(ctx, &rest, func(ctx context.Context, r *call, _ string) (*answer, error) {
		r.write = true
		return c.do(ctx, r)
	})
	for j, i := range at {
		switch {
		case err != nil:
			p := tiering.ProblemOf(err)
			out.Results[i] = tiering.OpResult{Status: p.Status, Error: p}
		case j < len(res.Results):
			out.Results[i] = res.Results[j]
		}
	}
}

// refusedNamespaces names those where every mutation failed for good, one at
// least as unsupported: nothing was done there, so sending again does nothing
// twice.
func refusedNamespaces(b *tiering.Batch, out *tiering.BatchResult) map[string]bool {
	refused := map[string]bool{}
	for i, op := range b.Ops {
		if e := out.Results[i].Error; e != nil && e.Code == tiering.CodeUnsupported {
			refused[op.Namespace] = true
		}
	}
	for i, op := range b.Ops {
		if op.Op == "get" || op.Op == "check" {
			continue
		}
		if e := out.Results[i].Error; e == nil || tiering.Retryable(e.Error()) {
			delete(refused, op.Namespace)
		}
	}
	return refused
}
