package server

import (
	"net/http"

	"github.com/tierd/tierd/tiering"
)

func editOperations() []*operation {
	return []*operation{
		{
			id: "editDocument", method: http.MethodPost, path: "/v1/edit/{ns}/{id...}", tag: "documents",
			summary: "Edit parts of a document by operations",
			about:   "Runs the operations in order, all or none, creating what is missing, and answers the new value under each pointer, unless the API key may not read. Numbers are computed as decimals.",
			query:   []param{ttlParam},
			headers: writeHeaders,
			body: &body{about: "The operations.", component: "EditRequest", media: []media{{"application/json", ref("EditRequest"),
				map[string]any{"ops": []any{map[string]any{"op": "increment", "pointer": "/count", "by": 1}, map[string]any{"op": "append", "pointer": "/log", "value": "started"}}}}}},
			answers: []answer{
				{http.StatusOK, "Edited.", receiptHeaders, jsonOf("Edited", exampleEdited)},
				{http.StatusCreated, "Created: nothing stood under the key.", receiptHeaders, jsonOf("Edited", exampleEdited)},
			},
			codes: writeCodes,
			run:   (*call).editDocument,
		},
		{
			id: "rollbackDocument", method: http.MethodPost, path: "/v1/rollback/{ns}/{id...}", tag: "history",
			summary: "Go back to an earlier version",
			about:   "Makes a new version with the content of an old one; what came between stays in history. A deleted document may be brought back; a collected version is gone.",
			query:   []param{ttlParam},
			headers: writeHeaders,
			body: &body{about: "The version to go back to.", component: "RollbackRequest",
				media: []media{{"application/json", ref("RollbackRequest"), map[string]any{"version": 3}}}},
			answers: []answer{{http.StatusOK, "The new version.", receiptHeaders, jsonOf("Receipt", exampleReceipt)},
				{http.StatusCreated, "The new version; nothing stood under the key.", receiptHeaders, jsonOf("Receipt", exampleReceipt)}},
			codes: append([]tiering.Code{tiering.CodeGone}, writeCodes...),
			run:   (*call).rollbackDocument,
		},
	}
}

// editRequest is the body of an edit.
type editRequest struct {
	Ops       []tiering.EditOp `json:"ops"`
	IfVersion *int64           `json:"if_version"`
}

func (c *call) editDocument() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	var req editRequest
	if err := c.decode(&req); err != nil {
		return err
	}
	if req.IfVersion != nil {
		if cond := tiering.IfVersion(*req.IfVersion); w.If.Unconditional() {
			w.If = cond
		} else if w.If != cond {
			return tiering.Invalidf("if_version in the body and the condition in the headers differ: give one")
		}
	}
	edited, err := c.svc.Apply(c.ctx(), c.ns, c.id, req.Ops, &w)
	if err != nil {
		return err
	}
	return c.replyReceipt(&edited.Receipt, edited)
}

func (c *call) rollbackDocument() error {
	w, err := c.writeOptions()
	if err != nil {
		return err
	}
	var req struct {
		Version int64 `json:"version"`
	}
	if err := c.decode(&req); err != nil {
		return err
	}
	rec, err := c.svc.Rollback(c.ctx(), c.ns, c.id, req.Version, &w)
	if err != nil {
		return err
	}
	return c.replyWrite(rec)
}
