package server

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tierd/tierd/tiering"
)

var (
	exampleErased = map[string]any{
		"receipt": "01kb9c5k3mvw8q2e7z4x6t1r0n", "state": "done", "selector": "user", "digest": "hmac-sha256:5f2a",
		"keys": 12, "versions": 340, "bytes": 81920, "segments": 0, "started_at": "2026-01-31T12:00:00Z", "finished_at": "2026-01-31T12:00:02Z",
	}
	exampleErasing = map[string]any{
		"receipt": "01kb9c5k3mvw8q2e7z4x6t1r0n", "state": "running", "selector": "user", "digest": "hmac-sha256:5f2a",
		"keys": 12, "versions": 340, "bytes": 81920, "segments": 2, "started_at": "2026-01-31T12:00:00Z", "blocked": "the backup cannot be reached",
	}
	examplePlanned = map[string]any{"dry_run": true, "state": "planned", "selector": "user", "keys": 12, "versions": 340, "bytes": 81920, "segments": 2}
)

// operateOperations are moves by hand and what an operator asks of a node.
func operateOperations() []*operation {
	moveCodes := []tiering.Code{tiering.CodeNotFound, tiering.CodeWrongKind, tiering.CodeUnsupported, tiering.CodeCorrupt}
	moved := []answer{{http.StatusOK, "Where the document lies now; to an API key without the read verb, its metadata alone.", nil, jsonOf("Explanation", exampleExplanation)}}
	return []*operation{
		{
			id: "demoteDocument", method: http.MethodPost, path: "/v1/demote/{ns}/{id...}", tag: "operations",
			instead: "the call may be sent again",
			summary: "Move a document's bytes to cold now",
			about: "Under the guards of every demotion: not while it is pinned, and not before both cold copies were read back; " +
				"what waits for the archive is archived at once, and 503 with Retry-After says to ask again. The next read comes from cold.",
			body: emptyBody(), answers: moved, codes: moveCodes, run: (*call).demoteDocument,
		},
		{
			id: "promoteDocument", method: http.MethodPost, path: "/v1/promote/{ns}/{id...}", tag: "operations",
			instead: "the call may be sent again",
			summary: "Bring a document's bytes back to warm now",
			about:   "Does nothing to a document whose bytes are there.",
			body:    emptyBody(), answers: moved, codes: moveCodes, run: (*call).promoteDocument,
		},
		{
			id: "erase", method: http.MethodPost, path: "/v1/erase", tag: "operations",
			instead: "the call may be sent again",
			summary: "Erase a subject from every tier",
			about: "The subject is exactly one of namespace with id, namespace with prefix, and user. A dry run, which it is unless dry_run is false, only counts. " +
				"200 means that hot, warm and both cold copies hold nothing of it any more; 202 that the rest is done in the background. " +
				"A receipt holds counts and a keyed digest, never the subject. Nothing of it comes back with a rebuild from a bucket.",
			body: &body{about: "What to erase.", component: "EraseRequest",
				media: []media{{"application/json", ref("EraseRequest"), map[string]any{"user": "ada", "dry_run": false}}}},
			answers: []answer{
				{http.StatusOK, "Done, or counted.", nil, jsonOf("EraseReceipt", examplePlanned)},
				{http.StatusAccepted, "Under way: ask for the receipt.", []string{"Location"}, jsonOf("EraseReceipt", exampleErasing)},
			},
			codes: []tiering.Code{tiering.CodeUnsupported},
			run:   (*call).erase,
		},
		{
			id: "getErasure", method: http.MethodGet, path: "/v1/erase/{id}", tag: "operations",
			summary: "Read the receipt of an erase",
			about:   "Its state is running until nothing of the subject is left anywhere, then done; blocked says why it is not done yet.",
			answers: []answer{{http.StatusOK, "The receipt.", nil, jsonOf("EraseReceipt", exampleErased)}},
			codes:   []tiering.Code{tiering.CodeNotFound, tiering.CodeUnsupported},
			run:     (*call).getErasure,
		},
		{
			id: "confirmClock", method: http.MethodPost, path: "/v1/clock/confirm", tag: "operations",
			instead: "the call may be sent again",
			summary: "Accept a clock that jumped",
			about:   "A clock that jumped by more than a day parks every move that destroys something until somebody says that it is right.",
			body:    emptyBody(),
			answers: []answer{{http.StatusNoContent, "Accepted.", nil, nil}},
			codes:   []tiering.Code{tiering.CodeUnsupported},
			run:     (*call).confirmClock,
		},
	}
}

// emptyBody is the body of an operation that takes none: it may be left out,
// or be an empty object, which some clients cannot help sending.
func emptyBody() *body {
	return &body{about: "Nothing.", component: "Empty", optional: true, media: []media{{"application/json", ref("Empty"), map[string]any{}}}}
}

// operateSchemas are what these operations take and answer.
func operateSchemas(c map[string]*huma.Schema) {
	c["Empty"] = &huma.Schema{Type: huma.TypeObject, Description: "An empty object.", Properties: map[string]*huma.Schema{}, AdditionalProperties: false}
	c["EraseRequest"] = object("A subject: exactly one of namespace with id, namespace with prefix, and user.",
		may("namespace", "The namespace, with id or prefix.", text(128)),
		may("id", "One document.", str()),
		may("prefix", "All documents whose ids begin with it, as bytes.", str()),
		may("user", "Everything that this user owns, in all namespaces.", text(256)),
		may("dry_run", "Count and change nothing; true unless said otherwise.", boolean()))
	c["EraseReceipt"] = object("What an erase takes, without naming the subject.",
		may("receipt", "Its id; absent for a dry run.", str()),
		may("dry_run", "Nothing was changed.", boolean()),
		must("state", "How far it is.", enum("planned", "running", "done")),
		must("selector", "What it selects by.", enum("id", "prefix", "user", "")),
		may("digest", "HMAC-SHA-256 of the subject under the order's own salt; absent while no bucket answers.", str()),
		must("keys", "Documents taken from warm.", integer(0)),
		must("versions", "Versions taken from warm.", integer(0)),
		must("bytes", "Bytes taken from warm.", integer(0)),
		must("segments", "Segments that are to be rewritten, or still are.", integer(0)),
		may("started_at", "When it began.", instant()),
		may("finished_at", "When nothing was left.", instant()),
		may("blocked", "Why it is not done yet.", str()))
}

func (c *call) demoteDocument() error {
	if err := c.decode(&struct{}{}); err != nil {
		return err
	}
	return c.replyExplanation(c.svc.Demote(c.ctx(), c.ns, c.id))
}

func (c *call) promoteDocument() error {
	if err := c.decode(&struct{}{}); err != nil {
		return err
	}
	return c.replyExplanation(c.svc.Promote(c.ctx(), c.ns, c.id))
}

func (c *call) replyExplanation(e *tiering.Explanation, err error) error {
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, e)
}

func (c *call) erase() error {
	var req tiering.EraseRequest
	if err := c.decode(&req); err != nil {
		return err
	}
	receipt, err := c.svc.Erase(c.ctx(), req)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if receipt.State == "running" {
		status = http.StatusAccepted
		c.header("Location", "/v1/erase/"+receipt.ID)
	}
	return c.reply(status, receipt)
}

func (c *call) getErasure() error {
	receipt, err := c.svc.Erasure(c.ctx(), c.id)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, receipt)
}

func (c *call) confirmClock() error {
	if err := c.decode(&struct{}{}); err != nil {
		return err
	}
	if err := c.svc.ConfirmClock(c.ctx()); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
