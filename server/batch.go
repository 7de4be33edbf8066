package server

import (
	"encoding/json"
	"net/http"

	"github.com/tierd/tierd/tiering"
)

func batchOperations() []*operation {
	return []*operation{{
		id: "runBatch", method: http.MethodPost, path: "/v1/batch", tag: "batch",
		instead: "an operation is guarded by its own if_version",
		summary: "Run many operations",
		about: "Up to 1000 operations in one request, answered in order with a status each, as the same call alone would have. " +
			"With atomic true it is all or nothing: the first failure answers 412 and failed_op names it. if_version 0 means absent.",
		headers: []param{idempotencyHeader},
		body: &body{about: "The operations.", component: "Batch", media: []media{{"application/json", ref("Batch"),
			map[string]any{"atomic": true, "ops": []any{
				map[string]any{"op": "put", "namespace": "runs", "id": "run/7", "data": map[string]any{"step": 1}, "if_version": 0},
				map[string]any{"op": "edit", "namespace": "runs", "id": "counters", "ops": []any{map[string]any{"op": "increment", "pointer": "/started"}}},
			}}}}},
		answers: []answer{{http.StatusOK, "One result per operation.", []string{"Idempotent-Replayed"}, jsonOf("BatchResult", exampleBatchResult)}},
		codes: []tiering.Code{tiering.CodeVersionConflict, tiering.CodeNotFound, tiering.CodeWrongKind,
			tiering.CodeIdempotencyMismatch, tiering.CodeIdempotencyInFlight},
		run: (*call).runBatch,
	}}
}

// ttlText is a TTL in a body: a whole number of seconds, or the text of one.
type ttlText string

// UnmarshalJSON takes a string or a number.
func (t *ttlText) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	*t = ttlText(b)
	return nil
}

// batchRequest is tiering.Batch as it travels, where a ttl may be a number.
type batchRequest struct {
	Atomic bool `json:"atomic"`
	Ops    []struct {
		tiering.BatchOp
		TTL ttlText `json:"ttl"`
	} `json:"ops"`
}

func (c *call) runBatch() error {
	key, err := idempotencyKey(c.r.Header)
	if err != nil {
		return err
	}
	var req batchRequest
	if err := c.decode(&req); err != nil {
		return err
	}
	batch := &tiering.Batch{Atomic: req.Atomic, Ops: make([]tiering.BatchOp, len(req.Ops)), IdempotencyKey: key}
	for i, op := range req.Ops {
		batch.Ops[i] = op.BatchOp
		batch.Ops[i].TTL = string(op.TTL)
	}
	res, err := c.svc.Batch(c.ctx(), batch)
	if err != nil {
		return err
	}
	if res.Replayed {
		c.w.Header().Set("Idempotent-Replayed", "true")
	}
	return c.reply(http.StatusOK, res)
}
