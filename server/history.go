package server

import (
	"net/http"

	"github.com/tierd/tierd/tiering"
)

func historyOperations() []*operation {
	return []*operation{
		{
			id: "listVersions", method: http.MethodGet, path: "/v1/versions/{ns}/{id...}", tag: "history",
			summary: "List a document's versions",
			about:   "Newest first, wherever they lie.",
			query:   []param{limitParam, cursorParam},
			answers: []answer{{http.StatusOK, "A page of versions.", nil, jsonOf("History", exampleHistory)}},
			codes:   []tiering.Code{tiering.CodeNotFound},
			run:     (*call).listVersions,
		},
		{
			id: "diffVersions", method: http.MethodGet, path: "/v1/diff/{ns}/{id...}", tag: "history",
			summary: "Compare two versions",
			about:   "Answers the JSON patch (RFC 6902) that turns version from into version to.",
			query: []param{
				{name: "from", about: "The older version.", schema: version(), required: true, example: 3},
				{name: "to", about: "The newer version.", schema: version(), required: true, example: 5},
			},
			answers: []answer{{http.StatusOK, "The patch.", nil, &media{string(tiering.JSONPatch), ref("JSONPatch"),
				[]any{map[string]any{"op": "replace", "path": "/status", "value": "done"}}}}},
			codes:  []tiering.Code{tiering.CodeNotFound, tiering.CodeGone, tiering.CodeCorrupt},
			faults: true, // a deletion has nothing to compare
			run:    (*call).diffVersions,
		},
		{
			id: "explainDocument", method: http.MethodGet, path: "/v1/explain/{ns}/{id...}", tag: "history",
			summary: "Say where a document lies and what happens next",
			about:   "Its policy, each copy, the next move with its due time, and what blocks it.",
			answers: []answer{{http.StatusOK, "The explanation.", nil, jsonOf("Explanation", exampleExplanation)}},
			codes:   []tiering.Code{tiering.CodeNotFound},
			run:     (*call).explainDocument,
		},
	}
}

func (c *call) listVersions() error {
	o := &tiering.HistoryOptions{Limit: c.q.limit(), Cursor: c.q.text("cursor")}
	if c.q.err != nil {
		return c.q.err
	}
	h, err := c.svc.History(c.ctx(), c.ns, c.id, o)
	if err != nil {
		return err
	}
	if h.Versions == nil {
		h.Versions = []tiering.VersionInfo{}
	}
	return c.reply(http.StatusOK, h)
}

func (c *call) diffVersions() error {
	for _, name := range [...]string{"from", "to"} {
		if !c.q.has(name) {
			return tiering.Invalidf("query parameter %q is missing: %s", name, c.op.queryNames())
		}
	}
	from, to := c.q.version("from"), c.q.version("to")
	if c.q.err != nil {
		return c.q.err
	}
	patch, err := c.svc.Diff(c.ctx(), c.ns, c.id, from, to)
	if err != nil {
		return err
	}
	c.send(http.StatusOK, string(tiering.JSONPatch), patch)
	return nil
}

func (c *call) explainDocument() error {
	e, err := c.svc.Explain(c.ctx(), c.ns, c.id)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, e)
}
