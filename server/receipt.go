package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// replyWrite answers a write of one document with its receipt.
func (c *call) replyWrite(rec *tiering.Receipt) error {
	c.receiptHeaders(rec)
	c.send(c.writeStatus(rec), "application/json", appendReceipt(make([]byte, 0, 384), rec))
	return nil
}

// replyReceipt answers a write with v, which embeds its receipt.
func (c *call) replyReceipt(rec *tiering.Receipt, v any) error {
	c.receiptHeaders(rec)
	return c.reply(c.writeStatus(rec), v)
}

// writeStatus is the status of a write that was done. What was created is located.
func (c *call) writeStatus(rec *tiering.Receipt) int {
	if !rec.Created {
		return http.StatusOK
	}
	u := url.URL{Path: "/v1/state/" + rec.Namespace + "/" + rec.ID}
	c.w.Header().Set("Location", u.EscapedPath())
	return http.StatusCreated
}

func (c *call) receiptHeaders(rec *tiering.Receipt) {
	if rec.Version > 0 {
		c.header("Etag", etag(rec.Version))
	}
	c.headerTime("Tierd-Expires-At", rec.ExpiresAt)
	if rec.Replayed {
		c.header("Idempotent-Replayed", "true")
	}
	if len(rec.Warnings) > 0 {
		c.header("Tierd-Warning", strings.Join(rec.Warnings, ", "))
	}
}
