package client

import (
	"context"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// Demote drops the current bytes of a document from warm and hot now. While
// the document waits for two verified cold copies it is tried again, as often
// and for as long as other calls are.
func (c *Client) Demote(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	return c.move(ctx, "demote", "/v1/demote", ns, id)
}

// Promote brings the bytes of a document back to warm now.
func (c *Client) Promote(ctx context.Context, ns, id string) (*tiering.Explanation, error) {
	return c.move(ctx, "promote", "/v1/promote", ns, id)
}

// move sends a move of one document. Made twice it does no harm, so it is tried
// again like a read.
func (c *Client) move(ctx context.Context, op, root, ns, id string) (*tiering.Explanation, error) {
	r, err := keyed(op, http.MethodPost, root, ns, id)
	if err != nil {
		return nil, err
	}
	return fetch[tiering.Explanation](ctx, c, r)
}

// Erase makes a subject disappear from every tier, or says what it would take.
// An erase is tried once: sent again it is another one, with a receipt of its
// own. A dry run is tried again like a read.
func (c *Client) Erase(ctx context.Context, req tiering.EraseRequest) (*tiering.EraseReceipt, error) {
	r := newCall("erase", http.MethodPost, "/v1/erase", "", "")
	if err := r.json(req); err != nil {
		return nil, err
	}
	r.write = req.DryRun != nil && !*req.DryRun
	return fetch[tiering.EraseReceipt](ctx, c, r)
}

// Erasure returns the receipt of an erase.
func (c *Client) Erasure(ctx context.Context, receipt string) (*tiering.EraseReceipt, error) {
	r := newCall("erase status", http.MethodGet, "/v1/erase/"+escape(receipt), "", "")
	if err := tiering.ValidateID(receipt); err != nil {
		return nil, r.wrap(err)
	}
	return fetch[tiering.EraseReceipt](ctx, c, r)
}

// ConfirmClock accepts a clock that jumped, and lets the moves that it parked
// go on.
func (c *Client) ConfirmClock(ctx context.Context) error {
	_, err := c.do(ctx, newCall("confirm clock", http.MethodPost, "/v1/clock/confirm", "", ""))
	return err
}
