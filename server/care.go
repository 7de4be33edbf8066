package server

import (
	"net/http"

	"github.com/tierd/tierd/tiering"
)

// careOperations are what moves or stops a document's ageing.
func careOperations() []*operation {
	return []*operation{
		{
			id: "touchDocument", method: http.MethodPost, path: "/v1/touch/{ns}/{id...}", tag: "documents",
			summary: "Move a document's expiry",
			about:   "Without a ttl it slides by the document's own. It never shortens a life unless exact is true. An expired document is not found.",
			headers: writeHeaders,
			body: &body{about: "The new life.", component: "TouchRequest", optional: true,
				media: []media{{"application/json", ref("TouchRequest"), map[string]any{"ttl": "30m"}}}},
			answers: []answer{{http.StatusOK, "The expiry as it is now.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes:   writeCodes,
			run:     (*call).touchDocument,
		},
		{
			id: "pinDocument", method: http.MethodPut, path: "/v1/pin/{ns}/{id...}", tag: "documents",
			summary: "Pin a document",
			about:   "A pinned document is not demoted, expired or collected.",
			headers: writeHeaders,
			answers: []answer{{http.StatusOK, "Pinned.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes:   writeCodes,
			run:     func(c *call) error { return c.pinDocument(true) },
		},
		{
			id: "unpinDocument", method: http.MethodDelete, path: "/v1/pin/{ns}/{id...}", tag: "documents",
			summary: "Unpin a document",
			about:   "Lets the document age again.",
			headers: writeHeaders,
			answers: []answer{{http.StatusOK, "No longer pinned.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes:   writeCodes,
			run:     func(c *call) error { return c.pinDocument(false) },
		},
	}
}

func (c *call) touchDocument() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	var req struct {
		TTL   ttlText `json:"ttl"`
		Exact bool    `json:"exact"`
	}
	if err := c.decode(&req); err != nil {
		return err
	}
	if req.TTL != "" {
		if w.TTL, err = tiering.ParseTTL(string(req.TTL)); err != nil {
			return err
		}
	}
	rec, err := c.svc.Touch(c.ctx(), c.ns, c.id, &tiering.TouchOptions{WriteOptions: w, Exact: req.Exact})
	if err != nil {
		return err
	}
	c.receiptHeaders(rec)
	return c.reply(http.StatusOK, rec)
}

func (c *call) pinDocument(pinned bool) error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	rec, err := c.svc.Pin(c.ctx(), c.ns, c.id, pinned, &w)
	if err != nil {
		return err
	}
	c.receiptHeaders(rec)
	return c.reply(http.StatusOK, rec)
}
